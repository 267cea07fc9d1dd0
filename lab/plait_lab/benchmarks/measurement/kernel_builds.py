"""Builds of the native kernel for several states of the source.

The kernel imports modules of `plait_core` by name, so each state needs the kernel of its own source. A build is kept
in the user's cache under the hash of that source. Nothing is installed, and checkouts with the same source share it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

PACKAGE: Final = "plait_kernel"
LOCK: Final = "Cargo.lock"
SUFFIXES: Final = {".rs", ".toml", ".py"}
"""Files that a build depends on."""
LEFT_OUT: Final = ("target", "fuzz", "__pycache__", "*.so", LOCK)
HASH_DIGITS: Final = 16
"""Length of the hash in the name of a folder. A machine holds few builds, so this tells them apart."""


class NoKernel(Exception):
    """The kernel of a checkout cannot be built. The text gives the reason."""


def installed() -> Path | None:
    """Return the folder of the kernel that this interpreter uses, or None if it uses none."""
    found = None if os.environ.get("PLAIT_NATIVE") == "off" else importlib.util.find_spec(PACKAGE)
    return Path(found.origin).parents[1] if found and found.origin else None


def kernel_of(checkout: Path) -> Path:
    """Return the folder from which the kernel of a checkout can be imported. Build it if there is no build yet."""
    source = checkout / "core" / "kernel"
    place = _cache() / _hash(source)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=place.parent) as folder:
            _build(source, Path(folder))
            _publish(Path(folder) / "built", place)
    return place


def _hash(source: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if path.suffix in SUFFIXES and not set(LEFT_OUT).intersection(name.parts):
            digest.update(f"{name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:HASH_DIGITS]


def _build(source: Path, folder: Path) -> None:
    """Build in a copy of the source, with the crates that the installed kernel was built with.

    Nothing of an earlier build is used: cargo would take the library of another source for that of this one.
    """
    copy, built = folder / "source", folder / "built" / PACKAGE
    if not source.is_dir():
        raise NoKernel(f"there is no kernel in {source}")
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    if (here := installed()) is not None and (here / LOCK).exists():
        shutil.copy(here / LOCK, copy)
    target = folder / "target"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "PYO3_PYTHON": sys.executable}
    command = ["cargo", "build", "--release", "--package", "plait-kernel"]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    except OSError as error:
        raise NoKernel(f"the kernel of {source} cannot be built: {error}") from error
    if done.returncode:
        raise NoKernel(f"the kernel of {source} cannot be built:\n{done.stderr.strip()}")
    shutil.copytree(copy / PACKAGE, built)
    (library,) = (path for path in (target / "release").glob("lib_kernel.*") if path.suffix in (".so", ".dylib"))
    shutil.copy(library, built / "_kernel.abi3.so")


def _publish(built: Path, place: Path) -> None:
    try:
        built.rename(place)
    except OSError:
        if not place.exists():  # else another run published the same build
            raise


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plait" / "kernels"
