#!/bin/sh
# Make .venv with the locked dependencies and this workspace's members. Uses uv where it is installed, else venv and pip.
set -eu
python="${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "setup: $("$python" --version 2>&1) is too old; Plait needs Python 3.11 or newer (PYTHON=python3.12 make setup)" >&2
  exit 1
}
editable=""
for member in "$@"; do editable="$editable -e ./$member"; done

if command -v uv >/dev/null 2>&1; then
  echo "setup: .venv by uv"
  [ -x .venv/bin/python ] || uv venv --quiet --python "$python" .venv
  VIRTUAL_ENV="$PWD/.venv" uv pip install --quiet --require-hashes -r requirements.lock
  # shellcheck disable=SC2086
  VIRTUAL_ENV="$PWD/.venv" uv pip install --quiet --no-deps --no-build-isolation $editable
else
  echo "setup: .venv by pip (a minute; uv would take seconds)"
  [ -x .venv/bin/pip ] || "$python" -m venv .venv
  .venv/bin/python -m pip install --quiet --require-hashes -r requirements.lock
  # shellcheck disable=SC2086
  .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation $editable
fi
echo "setup: done"
