#!/bin/sh
# Make .venv with the locked dependencies, this workspace's members, and the native kernel where it can be built. Uses uv
# where it is installed, else venv and pip.
#   sh scripts/setup.sh MEMBER...    all of it; PLAIT_NO_KERNEL=1 leaves the kernel out
#   sh scripts/setup.sh --analytics  Spark for plait-analytics, into the .venv that there is, if there is Java
#   sh scripts/setup.sh --spark-tests  the same for make test, which goes on without Spark, except where CI=true
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
    did="native kernel not built, for cargo is not installed"
  elif export CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=10 UV_HTTP_TIMEOUT=10 PIP_DEFAULT_TIMEOUT=10 PIP_RETRIES=1 &&
    install_kernel --quiet >/dev/null 2>&1 </dev/null; then
    did="native kernel built"
  else
    did="native kernel not built (no crates within reach, perhaps; make kernel says why)"
  fi
  echo "setup: $did; the index in use is $(index_in_use), with the same answers either way"
}

index_in_use() { .venv/bin/python -c 'import plait_core; print(plait_core.index_name())' 2>/dev/null || echo unknown; }

# Java first, because it takes a second, and Spark is of no use without it. What was installed from this lock is kept.
install_spark() {
  .venv/bin/python -m plait_analytics.engines.java || return
  cmp -s requirements-analytics.lock .venv/.spark && return
  echo "setup: Spark, 400 MB"
  install --quiet --require-hashes -r requirements-analytics.lock || return
  cp requirements-analytics.lock .venv/.spark
}

if [ "${1:-}" = --analytics ]; then
  install_spark
  exit
fi

if [ "${1:-}" = --spark-tests ]; then
  install_spark || [ "${CI:-}" != true ] || {
    echo "setup: the tests of Spark cannot run, and CI=true does not let them be skipped" >&2
    exit 1
  }
  exit
fi

if [ "${1:-}" = --plots ]; then
  install --quiet 'matplotlib>=3.9'
  exit
fi

if [ "${1:-}" = --kernel ]; then
  command -v cargo >/dev/null 2>&1 || {
    echo "kernel: cargo is not installed, so it cannot be built; the Python index serves, with the same answers" >&2
    exit 1
  }
  install_kernel --verbose
  echo "kernel: the index in use is $(index_in_use)"
  exit
fi

command -v "$python" >/dev/null 2>&1 || {
  echo "setup: $python is not installed: apt-get install python3 python3-venv" >&2
  exit 1
}
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
  "$python" -c 'import ensurepip' 2>/dev/null || [ -x .venv/bin/pip ] || {
    echo "setup: the module venv of Python is not installed: apt-get install python3-venv" >&2
    exit 1
  }
  [ -x .venv/bin/pip ] || "$python" -m venv .venv
fi
install --quiet --require-hashes -r requirements.lock
# shellcheck disable=SC2086
install --quiet --no-deps --no-build-isolation $editable
install_kernel_softly
echo "setup: done"
