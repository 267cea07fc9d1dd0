#!/bin/sh
# Make .venv with the locked dependencies, this workspace's members, and the native kernel where it can be built. Uses uv
# where it is installed, else venv and pip.
#   sh scripts/setup.sh MEMBER...    all of it; PLAIT_NO_KERNEL=1 leaves the kernel out
#   sh scripts/setup.sh --analytics  Spark for plait-analytics, into the .venv that there is
#   sh scripts/setup.sh --plots      matplotlib, for the plots of the laboratory
#   sh scripts/setup.sh --kernel     the kernel alone, telling how it goes, and failing where it cannot be built
set -eu
python="${PYTHON:-python3}"
if command -v uv >/dev/null 2>&1; then tool=uv; else tool=pip; fi

install() {
  if [ "$tool" = uv ]; then VIRTUAL_ENV="$PWD/.venv" uv pip install "$@"; else .venv/bin/python -m pip install "$@"; fi
}

# Editable like the other members, but with build dependencies of its own (maturin), which the lock does not know.
install_kernel() { install --no-deps --editable ./core/kernel "$@"; }

# Optional, so it gives up soon where nothing can be fetched, and never fails what it is part of.
install_kernel_softly() {
  if [ -n "${PLAIT_NO_KERNEL:-}" ]; then
    did="native kernel left out, as PLAIT_NO_KERNEL asks"
  elif ! command -v cargo >/dev/null 2>&1; then
    did="native kernel not built (no cargo)"
  elif export CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=10 UV_HTTP_TIMEOUT=10 PIP_DEFAULT_TIMEOUT=10 PIP_RETRIES=1 &&
    install_kernel --quiet >/dev/null 2>&1 </dev/null; then
    did="native kernel built"
  else
    did="native kernel not built (no crates within reach, perhaps; make kernel says why)"
  fi
  echo "setup: $did; the index in use is $(index_in_use), with the same answers either way"
}

index_in_use() { .venv/bin/python -c 'import plait_core; print(plait_core.index_name())' 2>/dev/null || echo unknown; }

if [ "${1:-}" = --analytics ]; then
  install --quiet --require-hashes -r requirements-analytics.lock
  command -v java >/dev/null 2>&1 || [ -n "${JAVA_HOME:-}" ] || echo "analytics: Spark is here, Java is not (17 or newer)" >&2
  exit
fi

if [ "${1:-}" = --plots ]; then
  install --quiet 'matplotlib>=3.9'
  exit
fi

if [ "${1:-}" = --kernel ]; then
  command -v cargo >/dev/null 2>&1 || {
    echo "kernel: cargo is not here, so it cannot be built; the Python index serves, with the same answers" >&2
    exit 1
  }
  install_kernel --verbose
  echo "kernel: the index in use is $(index_in_use)"
  exit
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "setup: $("$python" --version 2>&1) is too old; Plait needs Python 3.11 or newer (PYTHON=python3.12 make setup)" >&2
  exit 1
}
editable=""
for member in "$@"; do editable="$editable -e ./$member"; done

if [ "$tool" = uv ]; then
  echo "setup: .venv by uv"
  [ -x .venv/bin/python ] || uv venv --quiet --python "$python" .venv
else
  echo "setup: .venv by pip (a minute; uv would take seconds)"
  [ -x .venv/bin/pip ] || "$python" -m venv .venv
fi
install --quiet --require-hashes -r requirements.lock
# shellcheck disable=SC2086
install --quiet --no-deps --no-build-isolation $editable
install_kernel_softly
echo "setup: done"
