"""The audit log: a chain of digests over files of bounded size.

audit.jsonl          the lines of now; each has in `prev` the digest of the line before
audit-000001.jsonl   earlier lines; a new file goes on with the chain
audit.head           number, end and digest of the last line, and the lines in all: a log that was cut does not fit

A writer of the directory can rewrite all of it. A head that was noted elsewhere shows that: `verify` looks for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from plait_core.values import Json
from plait_crypto import SealError

from ..private_files import FILE_MODE, sync_folder, write_private

AUDIT: Final = "audit.jsonl"
HEAD: Final = "audit.head"
_LOCK: Final = ".audit.lock"
_FORMER: Final = re.compile(r"audit-(\d{6,})\.jsonl\Z")

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one file, some 50,000 lines: small enough to read and to archive."""

NOTHING: Final = "0" * 64
"""The digest before the first line."""


class AuditBroken(SealError):
    """An audit log that is not whole."""


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the log."""

    digest: str = NOTHING
    lines: int = 0
    """In all files, from the beginning."""
    end: int = 0
    """Bytes of the present file."""

    def after(self, line: bytes) -> Head:
        """Return the head after one more line."""
        return Head(sha256(line).hexdigest(), self.lines + 1, self.end + len(line))


@dataclass(frozen=True, slots=True)
class Verified:
    """A log that is whole."""

    lines: int
    files: int
    head: str
    archived: int
    """Earlier lines, in files that are not here."""

    def fields(self) -> Json:
        """Return the JSON fields of the result."""
        archived = {"archived": self.archived} if self.archived else {}
        return {"ok": True, "lines": self.lines, "files": self.files, "head": self.head, **archived}


class AuditLog:
    """The audit log in one directory. Several processes may write it."""

    def __init__(self, path: Path, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._path = path
        self._file_bytes_max = file_bytes_max

    def append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Append lines. They are on disk when this returns."""
        if not lines:
            return
        with self._locked():
            head = self._caught_up(self._head() or Head())
            if head.end >= self._file_bytes_max:
                head = self._next_file(head)
            written = []
            for line in lines:
                written.append(json.dumps({"prev": head.digest, **line}).encode() + b"\n")
                head = head.after(written[-1])
            new = not (self._path / AUDIT).exists()
            _write(self._path / AUDIT, b"".join(written), os.O_APPEND)
            if new:
                sync_folder(self._path)
            self._keep(head)

    def verify(self, noted: str = "") -> Verified:
        """Check all files. Raise AuditBroken with the place of the first line that does not fit.

        `noted` is a head of an earlier check, which must be in the chain.
        """
        files = [*self._former(), self._path / AUDIT]
        with self._locked():
            head, kept = self._chain(files, noted), self._head()
            if kept is None and head.lines:
                raise AuditBroken(f"{HEAD} is missing", hint="without it a cut of the last lines cannot be seen")
            kept = self._caught_up(kept or head)
        if kept.digest != head.digest:
            where = f"{AUDIT}: its last line is not the one that was written last, line {kept.lines} of the log"
            raise AuditBroken(where, hint="lines at the end were removed or changed")
        present = len([path for path in files if path.exists()])
        return Verified(head.lines, present, head.digest, kept.lines - head.lines)

    # --- files --------------------------------------------------------------------------------------------------------

    def _chain(self, files: Sequence[Path], noted: str) -> Head:
        """Return the head that the lines of all files lead to. Older files may have been archived."""
        head, found = Head(), noted in ("", NOTHING)
        for path in files:
            head, begun = replace(head, end=0), head.lines > 0
            for number, line in enumerate(_lines(path), 1):
                prev = _prev(path, number, line)
                if prev != head.digest and begun:
                    before = f"line {number - 1}" if number > 1 else "the end of the file before"
                    where = f"{path.name}: line {number} does not continue {before}"
                    raise AuditBroken(where, hint=f"{before} was changed, or lines between them were removed")
                found, begun = found or noted in (prev, sha256(line).hexdigest()), True
                head = head.after(line)
        if not found:
            raise AuditBroken(f"no line has the digest {noted[:80]}", hint="lines before that head were changed")
        return head

    def _caught_up(self, head: Head) -> Head:
        """Return the head after lines that were written just before a crash. Remove half a line."""
        path = self._path / AUDIT
        if not path.exists():
            return replace(head, end=0)
        if path.stat().st_size <= head.end:
            return head
        with open(path, "rb+") as file:
            file.seek(head.end)
            for line in file:
                if not line.endswith(b"\n"):
                    file.truncate(head.end)
                    break
                head = head.after(line)
        return head

    def _next_file(self, head: Head) -> Head:
        former = self._former()
        number = int(former[-1].stem.rpartition("-")[2]) + 1 if former else 1
        os.replace(self._path / AUDIT, self._path / f"audit-{number:06}.jsonl")
        sync_folder(self._path)
        return replace(head, end=0)

    def _former(self) -> list[Path]:
        return sorted(path for path in self._path.iterdir() if _FORMER.match(path.name))

    def _head(self) -> Head | None:
        try:
            digest, lines, end = (self._path / HEAD).read_text().split()
            return Head(digest, int(lines), int(end))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise AuditBroken(f"{HEAD} cannot be read: {error}", hint="move it away with the log") from None

    def _keep(self, head: Head) -> None:
        """Write the head in place: its bytes are in one sector, so a crash leaves the old or the new one."""
        text = f"{head.digest} {head.lines:>20} {head.end:>20}\n".encode()
        path = self._path / HEAD
        if path.exists():
            _write(path, text, 0)
        else:
            write_private(path, text)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _write(path: Path, content: bytes, flags: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | flags, FILE_MODE), "wb") as file:
        file.write(content)
        file.flush()
        os.fdatasync(file.fileno())


def _lines(path: Path) -> Iterator[bytes]:
    if path.exists():
        with open(path, "rb") as file:
            yield from file


def _prev(path: Path, number: int, line: bytes) -> str:
    try:
        return str(json.loads(line)["prev"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise AuditBroken(f"{path.name}: line {number} cannot be read", hint="it was changed") from None
