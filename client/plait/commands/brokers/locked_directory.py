"""Temporary directories that are removed even if their process is killed: by the next process that makes one.

A process holds a file lock in its directory. The kernel releases the lock when the process ends, even by kill -9.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

LOCK: Final = "lock"


@contextmanager
def locked_directory(prefix: str) -> Iterator[Path]:
    """Make a temporary directory and remove it at the end. First remove those that killed processes have left."""
    remove_abandoned(prefix)
    with TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        directory = Path(name)
        unlocked = directory / f"{LOCK}.new"
        with unlocked.open("w") as lock:
            with suppress(OSError):  # a file system without locks: then nobody removes the directory after a kill
                fcntl.flock(lock, fcntl.LOCK_EX)
                unlocked.rename(directory / LOCK)  # so it is locked from the moment that others can find it
            yield directory


def remove_abandoned(prefix: str) -> None:
    """Remove this user's temporary directories whose lock is free. Directories without a lock file stay."""
    for directory in Path(gettempdir()).glob(f"{prefix}*"):
        try:
            found = directory.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = os.open(directory / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # it has no lock file, or another process removes it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        except OSError:
            pass  # its process runs, or the file system has no locks
        finally:
            os.close(lock)
