#!/bin/sh
# Wheels of everything that the images take: what the locks name, by hash, and this workspace's members. They go into
# DIRECTORY/broker and DIRECTORY/analytics; what is there already is kept, so that an image can be built with no network.
#   sh docker/wheels.sh [DIRECTORY] [broker|analytics]...
set -eu
cd "$(dirname "$0")/.."
wheels="${1:-build/wheels}"
[ "$#" -eq 0 ] || shift

stop() {
  echo "wheels: $1" >&2
  exit 1
}

# A Python with pip, of the image's version where PYTHON_OF_IMAGE gives one. That of the environment comes first: the
# kernel was built with it, so cargo builds nothing anew.
suits() {
  "$1" -m pip --version >/dev/null 2>&1 &&
    case "$("$1" --version)" in "Python ${PYTHON_OF_IMAGE:-3}."*) ;; *) false ;; esac
}
python=""
for each in ${PYTHON:-.venv/bin/python python3}; do
  [ -n "$python" ] || ! suits "$each" || python="$each"
done
[ -n "$python" ] || stop "pip is not installed for Python ${PYTHON_OF_IMAGE:-3}: apt-get install python3-pip"
pip="$python -m pip --quiet --disable-pip-version-check"
sum() { # what the sources in some directories come to
  find "$@" -type f -not -path '*/target/*' -not -path '*/__pycache__/*' -not -path '*.egg-info/*' -not -name '*.so' |
    LC_ALL=C sort | xargs cat | cksum | tr ' ' -
}

fetch() { # LOCK DIRECTORY
  [ -f "$2/.fetched" ] && cmp -s "$1" "$2/.fetched" || {
    mkdir -p "$2"
    # Polars is what the bench compares with: 180 MB that no image needs.
    awk '/^[^ ]/ { left_out = /^polars/ } !left_out' "$1" >"$2/.wanted"
    $pip download --no-deps --require-hashes --only-binary :all: --no-binary pyspark -d "$2" -r "$2/.wanted"
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
      echo "wheels: cargo is not installed, so the images match in Python" >&2
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
