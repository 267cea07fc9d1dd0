"""The part of the HTTP side that lets others read a broker's telemetry as it grows: latest, read, commit.

`GET /api/v1/telemetry` says which files there are and how long they are now. `GET /api/v1/telemetry/FILE?offset=N`
gives bytes of one from there on, fewer than asked for only at its end. `POST /api/v1/telemetry/commit` with `reader`,
`segment` and `records` in its query keeps how far a reader is. Files only grow: whoever has a part asks for the rest.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from plait_core.ids import id_text
from plait_telemetry.readers import ReaderError

from .query_params import number_param

if TYPE_CHECKING:
    from plait_telemetry.recording import Recording

Json: TypeAlias = dict[str, Any]

READ_BYTES_MAX: Final = 4 << 20
"""Of one answer: 65,000 records, some milliseconds of a thread, and what the broker holds of it in memory."""

READS_MAX: Final = 4
"""Answers that are made at the same time; others wait."""

FILES_MAX: Final = 100_000
"""That are listed: more than the budget holds of any sensible size."""

HINT: Final = "start it with `plait broker --telemetry DIR`"

_FILE: Final = re.compile(r"\d{16}-\d{6}\.seg|\d{16}\.names\.jsonl|schema-\d{1,5}\.json", re.ASCII)


class TelemetryApi:
    """The answers."""

    def __init__(self, telemetry: Callable[[], Recording | None]) -> None:
        self._telemetry = telemetry
        self._reading = asyncio.Semaphore(READS_MAX)

    def routes(self) -> list[Route]:
        """Everything that is served."""
        return [
            Route("/api/v1/telemetry", self.latest),
            Route("/api/v1/telemetry/commit", self.commit, methods=["POST"]),
            Route("/api/v1/telemetry/{file}", self.read),
        ]

    async def latest(self, request: Request) -> Response:
        """Which files there are, how long each is now, and how far the readers are."""
        face = self._recording()
        async with self._reading:
            files = await asyncio.to_thread(_listed, face.directory)
        places = await asyncio.to_thread(face.readers.positions)
        readers = {reader: {"segment": place.segment, "records": place.records} for reader, place in places.items()}
        about = {"broker": id_text(face.broker), "name": face.directory.name, "read_bytes_max": READ_BYTES_MAX}
        return JSONResponse(about | {"files": files, "readers": readers})

    async def read(self, request: Request) -> Response:
        """Bytes of a file, from an offset on."""
        face, name = self._recording(), request.path_params["file"]
        if not _FILE.fullmatch(name):
            raise HTTPException(404, "there is no such file")
        offset = number_param(request, "offset", 0, 2**50)
        limit = number_param(request, "limit", READ_BYTES_MAX, READ_BYTES_MAX)
        async with self._reading:
            body = await asyncio.to_thread(_part, face.directory / name, offset, limit)
        if body is None:
            raise HTTPException(404, "there is no such file")
        return Response(body, media_type="application/octet-stream")

    async def commit(self, request: Request) -> Response:
        """A reader says how far it is."""
        if "origin" in request.headers:  # any page on the web can have a browser send this to who listens on loopback
            raise HTTPException(403, "this is for programs, not for pages")
        face, asked = self._recording(), request.query_params
        records = number_param(request, "records", 0, 2**50)
        try:
            place = await asyncio.to_thread(
                face.readers.commit, asked.get("reader", ""), asked.get("segment", ""), records
            )
        except ReaderError as error:
            raise HTTPException(400, error.message) from None
        except OSError as error:
            raise HTTPException(503, f"that cannot be kept: {error.strerror}") from None
        return JSONResponse({"segment": place.segment, "records": place.records})

    def _recording(self) -> Recording:
        face = self._telemetry()
        if face is None:
            raise HTTPException(404, f"this broker keeps no records: {HINT}")
        return face


def _listed(directory: Path) -> Json:
    files: Json = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if _FILE.fullmatch(entry.name) and len(files) < FILES_MAX:
                try:
                    files[entry.name] = entry.stat(follow_symlinks=False).st_size
                except OSError:  # deleted, just now
                    continue
    return dict(sorted(files.items()))


def _part(path: Path, offset: int, limit: int) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.pread(descriptor, limit, offset)
    finally:
        os.close(descriptor)
