"""Copies a virtual environment and the files that it needs at run time into a new root file system.

These are the interpreter, its standard library, the shared libraries that they load, and a shell. The result has some
tens of MB, and no package manager, compiler or setuid programs of the image that it was copied from.

    python3 rootfs.py /opt/plait /rootfs
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from py_compile import PycInvalidationMode

USER = 4680
LEFT_OUT = {
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "distutils"),
    *("pip", "site-packages", "dist-packages", "__pycache__", "_pyinstaller", "f2py", "setuptools", "pkg_resources"),
}
WITHOUT_KERNEL = re.compile(r"numpy(\.libs|-.*)?")
"""numpy is a third of the image. Only the index in Python needs it, not the native kernel."""
LEFT_OUT_NAMES = re.compile(r"(pip([\d.-].*)?|[Aa]ctivate.*|config-3\.\d+.*|_tkinter.*|.*\.pyi|.*\.a|.*\.exe)")
DIRECTORIES = {
    "data": USER,
    "telemetry": USER,
    "lake": USER,
    "keys": USER,
    "run/plait": USER,
    "tmp": 0,
    "etc": 0,
    "proc": 0,
}
FILES = {
    "etc/passwd": f"root:x:0:0:root:/:/bin/sh\nplait:x:{USER}:{USER}:plait:/data:/bin/sh\n",
    "etc/group": f"root:x:0:\nplait:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def main(environment: Path, root: Path) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    interpreter = Path(os.path.realpath(sys.executable))
    copy(library, root)
    copy(environment, root, keep={"site-packages"})
    for file in (interpreter, Path("/bin/sh"), Path("/bin/cat"), CERTIFICATES):
        if file.exists():
            place(file, root)
    for alias in (environment / "bin").glob("python*"):
        if os.path.isabs(os.readlink(alias)):
            link(Path(os.readlink(alias)), interpreter, root)
    strip(root / environment.relative_to("/"))
    libraries = {needed for binary in binaries(root) for needed in loads(binary)}
    for needed in sorted(libraries):
        place(needed, root)
    for name, owner in DIRECTORIES.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        os.chown(root / name, owner, owner)
    (root / "tmp").chmod(0o1777)
    for name, text in FILES.items():
        (root / name).write_text(text)
    for compiled in (library, environment):
        compileall.compile_dir(
            str(root) + str(compiled), stripdir=str(root), quiet=2, workers=1,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )  # fmt: skip


def copy(source: Path, root: Path, keep: set[str] | None = None) -> None:
    """Copy a directory without the files that no program needs at run time."""
    left_out = LEFT_OUT - (keep or set())

    def ignore(_: str, names: list[str]) -> set[str]:
        native = {name for name in names if "plait_kernel" in names and WITHOUT_KERNEL.fullmatch(name)}
        return native | {name for name in names if name in left_out or LEFT_OUT_NAMES.fullmatch(name)}

    shutil.copytree(source, root / source.relative_to("/"), symlinks=True, ignore=ignore, dirs_exist_ok=True)


def place(file: Path, root: Path) -> None:
    """Copy a file to the path that programs use, which may be a link or lie behind one."""
    real, target = Path(os.path.realpath(file)), root / file.relative_to("/")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(real, target)


def link(alias: Path, real: Path, root: Path) -> None:
    target = root / alias.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() and not target.is_symlink():
        target.symlink_to(real)


def strip(environment: Path) -> None:
    """Remove debug symbols, most of some extensions' size. Libraries that auditwheel has moved stay unchanged."""
    extensions = [str(path) for path in binaries(environment) if ".libs" not in str(path)]
    subprocess.run(["strip", "--strip-debug", *extensions], check=True)


def binaries(root: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(root):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink():
                with path.open("rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path


def loads(binary: Path) -> set[Path]:
    """Return the shared libraries of a file as the loader finds them, without those that are copied already."""
    output = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    found = {Path(path) for path in re.findall(r"(?:=>\s+|^\s*)(/\S+)", output, re.MULTILINE)}
    return {path for path in found if not path.is_relative_to("/rootfs")}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
