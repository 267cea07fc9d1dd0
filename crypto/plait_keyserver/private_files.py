"""Files and folders with secrets: readable by their owner alone, under any umask.

A folder that others may write is refused: they could exchange the files in it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from plait_crypto import SealError

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def private_folder(path: Path) -> None:
    """Create a folder for secrets, or check one that exists; raise SealError if others may write it."""
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    check_folder(path)


def check_folder(path: Path) -> None:
    """Raise SealError if others than its owner may write a folder, or if another user owns it."""
    try:
        found = path.stat()
    except OSError as error:
        raise SealError(f"{path} cannot be read: {error}") from None
    if found.st_mode & _OTHERS_WRITE:
        raise SealError(f"others may write {path}", hint=f"chmod go-w {path}")
    if os.geteuid() not in (found.st_uid, 0):
        raise SealError(f"{path} belongs to another user", hint="use it as its owner")


def write_private(path: Path, content: bytes, mode: int = FILE_MODE) -> None:
    """Write a file atomically, even if the power fails. It never has a wider mode, nor that of an existing file."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)  # an existing file would keep its mode
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
