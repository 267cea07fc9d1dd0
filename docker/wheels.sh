#!/bin/sh
# Wheels of everything that the images take: what the locks name, by hash, and this workspace's members. They go into
# DIRECTORY/broker and DIRECTORY/analytics; what is there already is kept, so that an image can be built with no network.
#   sh docker/wheels.sh [DIRECTORY] [broker|analytics]...
set -eu
cd "$(dirname "$0")/.."
wheels="${1:-build/wheels}"
[ "$#" -eq 0 ] || shift
python="${PYTHON:-python3}"
pip="$python -m pip --quiet --disable-pip-version-check"
sum() { # what the sources in some directories come to
  find "$@" -type f -not -path '*/target/*' -not -path '*/__pycache__/*' -not -path '*.egg-info/*' -not -name '*.so' |
    LC_ALL=C sort | xargs cat | cksum | tr ' ' -
}

fetch() { # LOCK DIRECTORY
  [ -f "$2/.fetched" ] && cmp -s "$1" "$2/.fetched" || {
    mkdir -p "$2"
    $pip download --no-deps --require-hashes --only-binary :all: --no-binary pyspark -d "$2" -r "$1"
    cp "$1" "$2/.fetched"
  }
}

members() { # DIRECTORY MEMBER...
  to="$1"; shift
  for member in "$@"; do
    name="plait_${member##*/}"
    [ "$member" != client ] || name=plait
    made="$to/.$name=$(sum "$member")"
    [ ! -f "$made" ] || continue
    if [ "$member" = core/kernel ] && ! command -v cargo >/dev/null 2>&1; then
      echo "wheels: no cargo here, so the images match in Python" >&2
      continue
    fi
    rm -f "$to/.$name="* "$to/$name"-[0-9]*.whl
    if [ -f "$wheels/broker/${made##*/}" ]; then
      cp "$wheels/broker/$name"-[0-9]*.whl "$to/"
    else
      $pip wheel --no-deps --wheel-dir "$to" "./$member"
    fi
    : >"$made"
  done
}

for kind in "${@:-broker}"; do
  case "$kind" in
    broker) fetch docker/requirements.lock "$wheels/broker"; members "$wheels/broker" core crypto client broker peer core/kernel ;;
    analytics)
      fetch requirements-analytics.lock "$wheels/analytics"
      members "$wheels/analytics" core crypto client analytics core/kernel
      ;;
    *) echo "wheels: broker or analytics, not $kind" >&2; exit 2 ;;
  esac
done
echo "wheels: $(find "$wheels" -name '*.whl' | wc -l) in $wheels"
