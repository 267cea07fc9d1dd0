"""Local copies of the segments of brokers on other machines. They grow as the originals grow.

A source is a broker's HTTP address. Segment files only grow, so a copy is updated by requesting the bytes after its
end, also after a crash. The copy's position is reported to the broker (`commit`), which deletes consumed segments
first.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import click

from plait.commands.connection.http_api import fetch
from plait.commands.terminal.failures import Failure
from plait.options.target import token_from_file
from plait_core import PlaitError
from plait_core.telemetry import RECORD_BYTES, parse_segment_name
from plait_core.values import Json

from ..commands.console import fail, progress

READ_BYTES: Final = 4 << 20
"""Bytes requested at once: the most that a broker returns."""

COPY_BYTES_MAX: Final = 4 << 30
"""Bytes of one broker's copy, the default of a broker's own limit. The oldest segments are deleted first."""

FILES_MAX: Final = 100_000
"""Files of one broker."""

_FILE: Final = re.compile(r"\d{16}-\d{6}\.seg|\d{16}\.names\.jsonl|schema-\d{1,5}\.json", re.ASCII)
_PLACE: Final = re.compile(r"[^A-Za-z0-9._-]")


class RemoteError(PlaitError):
    """A broker on another machine refuses a request or gives an invalid response."""


def is_remote(source: str) -> bool:
    """Return whether a source is an HTTP address, not a directory."""
    return source.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class Source:
    """A broker's HTTP address and token."""

    address: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str, token: str | None = None) -> Source:
        """Parse `http://[TOKEN@]HOST:PORT`."""
        parts = urlsplit(text)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if not parts.hostname or port == 0 or parts.path.strip("/") or parts.query or parts.fragment:
            raise RemoteError("that is no broker's HTTP address", hint="http://HOST:4681, or http://TOKEN@HOST:4681")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(f"{parts.scheme}://{host}:{port or 4681}", unquote(parts.username) if parts.username else token)

    @property
    def folder(self) -> str:
        """Return the folder of the copy, which differs for different addresses."""
        return _PLACE.sub("-", self.address.partition("://")[2])


class Copy:
    """The local copy of one broker's files. Used by one thread at a time."""

    def __init__(self, source: Source, directory: Path, reader: str, *, bytes_max: int = COPY_BYTES_MAX) -> None:
        """`reader`: the name under which the broker stores this copy's position; empty for none."""
        self.source = source
        self.directory = directory / source.folder
        self._reader = reader
        self._bytes_max = bytes_max
        self._committed = ("", 0)

    def pull(self) -> int:
        """Fetch the bytes that are new and return their number. Raise RemoteError, or OSError for the local disk."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / ".lock").open("ab") as lock:  # two appending processes would write everything twice
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self._pull()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _pull(self) -> int:
        response = self._json("/api/v1/telemetry")
        files, step = response.get("files"), response.get("read_bytes_max")
        if not isinstance(files, dict) or len(files) > FILES_MAX:
            raise RemoteError(f"{self.source.address} gives no valid response")
        step = min(READ_BYTES, step) if isinstance(step, int) and step > 0 else READ_BYTES
        selected = self._select(files)
        taken = sum(self._append(name, size, step) for name, size in selected.items())
        self._trim(selected)
        self._commit(selected)
        return taken

    def _append(self, name: str, size: int, step: int) -> int:
        path = self.directory / name
        begun = have = self._bytes_of(name)
        if have >= size:
            return 0
        with path.open("ab") as file:
            while have < size:
                target = f"/api/v1/telemetry/{quote(name)}?offset={have}&limit={min(step, size - have)}"
                data = self._request(target)
                if not data:
                    break  # the broker has just deleted it
                file.write(data)
                have += len(data)
        return have - begun

    def _select(self, files: dict[Any, Any]) -> dict[str, int]:
        """Return the files to copy: dictionaries before the records that use them, and the newest segments that fit."""
        known = {name: size for name, size in files.items() if isinstance(size, int) and _FILE.fullmatch(name)}
        segments = sorted((name for name in known if parse_segment_name(name)), reverse=True)
        room = list(accumulate(known[name] for name in segments))
        kept = [name for name, total in zip(segments, room, strict=True) if total <= self._bytes_max]
        others = [name for name in sorted(known) if not parse_segment_name(name)]
        return {name: min(known[name], self._bytes_max) for name in [*others, *reversed(kept)]}

    def _trim(self, selected: Mapping[str, int]) -> None:
        """Delete the oldest segments that the broker has deleted while the copy exceeds its bound."""
        segments = sorted(path for path in self.directory.iterdir() if parse_segment_name(path.name))
        total = sum(path.stat().st_size for path in segments)
        for path in segments:
            if total <= self._bytes_max:
                return
            if path.name not in selected:
                total -= path.stat().st_size
                path.unlink()

    def _commit(self, selected: Mapping[str, int]) -> None:
        newest = max(filter(parse_segment_name, selected), default="")
        if not self._reader or not newest:
            return
        place = (newest, max(0, self._bytes_of(newest) // RECORD_BYTES - 1))
        if place != self._committed:
            target = f"/api/v1/telemetry/commit?reader={quote(self._reader)}&segment={place[0]}&records={place[1]}"
            self._request(target, method="POST")
            self._committed = place

    def _bytes_of(self, name: str) -> int:
        """Return how much of a file is here. A segment that the broker has just begun is empty, and is not here yet."""
        path = self.directory / name
        return path.stat().st_size if path.exists() else 0

    def _json(self, path: str) -> Json:
        try:
            response = json.loads(self._request(path))
        except (ValueError, RecursionError):
            response = None
        if not isinstance(response, dict):
            raise RemoteError(f"{self.source.address} gives no valid response")
        return response

    def _request(self, path: str, method: str = "GET") -> bytes:
        try:
            return fetch(self.source.address, path, self.source.token, method=method)
        except Failure as error:
            raise RemoteError(error.message, hint=error.hint) from None


def copies_of(
    sources: Sequence[str], cache: Path, reader: str, token: str | None = None
) -> tuple[list[Path], list[Copy]]:
    """Return the directories of sources and the copies below `cache`, which are not yet pulled."""
    copies: list[Copy] = []
    directories: list[Path] = []
    for source in sources:
        if is_remote(source):
            copies.append(Copy(Source.parse(source, token), cache, reader))
            directories.append(copies[-1].directory)
        else:
            directories.append(Path(source))
    return directories, copies


def pulled_sources(sources: Sequence[str], cache: Path, reader: str = "") -> tuple[list[Path], list[Copy]]:
    """Like `copies_of`, but pull each copy once and exit with a message if that fails."""
    try:
        directories, copies = copies_of(sources, cache, reader, token_from_file())
        for copy in copies:
            progress(f"{copy.pull():,} bytes from {copy.source.address}")
    except PlaitError as error:
        fail(error.message, error.hint)
    except OSError as error:
        fail(f"{cache} cannot store copies: {error.strerror}", "give another --cache")
    return directories, copies


@contextmanager
def pulling(copies: Sequence[Copy], every_s: float, report: Callable[[str], None]) -> Iterator[None]:
    """Pull copies periodically in a thread. Each failure is reported once until it is resolved."""
    stop = threading.Event()
    troubles: dict[str, str] = {}

    def pull_all() -> None:
        while not stop.wait(every_s):
            for copy in copies:
                address = copy.source.address
                try:
                    copy.pull()
                except (PlaitError, OSError) as error:
                    if troubles.get(address) != str(error):
                        troubles[address] = str(error)
                        report(f"{address}: {error}")
                else:
                    if troubles.pop(address, None) is not None:
                        report(f"{address}: it responds again")

    thread = threading.Thread(target=pull_all, name="plait-remote-segments", daemon=True)
    if copies:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if copies:
            thread.join()


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "plait" / "telemetry"


cache_option: Final = click.option(
    "--cache", type=click.Path(path_type=Path), default=_cache, metavar="DIR", show_default="~/.cache/plait/telemetry",
    help="Directory for copies of remote brokers' records.",
)  # fmt: skip
