"""HTTP API to read a broker's telemetry as it grows: list, read, commit.

`GET /api/v1/telemetry` lists the files with their present lengths. `GET /api/v1/telemetry/FILE?offset=N` returns bytes
of one from an offset on, fewer than requested only at its end. `POST /api/v1/telemetry/commit` with `reader`, `segment`
and `records` in its query stores a reader's position. Files only grow, so a reader fetches the rest of a file from its
last offset.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from plait_core.ids import id_text
from plait_core.values import Json
from plait_telemetry.readers import ReaderError

from .query_params import number_param

if TYPE_CHECKING:
    from plait_telemetry.recording import Recording


READ_BYTES_MAX: Final = 4 << 20
"""Bytes of one answer: 65,000 records, some milliseconds of a thread, held in the broker's memory."""

READS_MAX: Final = 4
"""Answers made at the same time; further requests wait."""

FILES_MAX: Final = 100_000
"""Files listed: more than any sensible size limit of the telemetry allows."""

HINT: Final = "start it with `plait broker --telemetry DIR`"

_FILE: Final = re.compile(r"\d{16}-\d{6}\.seg|\d{16}\.names\.jsonl|schema-\d{1,5}\.json", re.ASCII)


class TelemetryApi:
    """Serves the files of telemetry."""

    def __init__(self, telemetry: Callable[[], Recording | None]) -> None:
        self._telemetry = telemetry
        self._reading = asyncio.Semaphore(READS_MAX)

    def routes(self) -> list[Route]:
        """Return all routes."""
        return [
            Route("/api/v1/telemetry", self.latest),
            Route("/api/v1/telemetry/commit", self.commit, methods=["POST"]),
            Route("/api/v1/telemetry/{file}", self.read),
        ]

    async def latest(self, request: Request) -> Response:
        """List the files, their lengths, and the readers' positions."""
        recording = self._recording()
        async with self._reading:
            files = await asyncio.to_thread(_listed, recording.directory)
        places = await asyncio.to_thread(recording.readers.positions)
        readers = {reader: {"segment": place.segment, "records": place.records} for reader, place in places.items()}
        about = {
            "broker": id_text(recording.broker),
            "name": recording.directory.name,
            "read_bytes_max": READ_BYTES_MAX,
        }
        return JSONResponse(about | {"files": files, "readers": readers})

    async def read(self, request: Request) -> Response:
        """Return bytes of a file from an offset on."""
        recording, name = self._recording(), request.path_params["file"]
        if not _FILE.fullmatch(name):
            raise HTTPException(404, "there is no such file")
        offset = number_param(request, "offset", 0, 2**50)
        limit = number_param(request, "limit", READ_BYTES_MAX, READ_BYTES_MAX)
        async with self._reading:
            body = await asyncio.to_thread(_part, recording.directory / name, offset, limit)
        if body is None:
            raise HTTPException(404, "there is no such file")
        return Response(body, media_type="application/octet-stream")

    async def commit(self, request: Request) -> Response:
        """Store a reader's position."""
        if "origin" in request.headers:  # any page on the web can make a browser send this to a server on loopback
            raise HTTPException(403, "this is for programs, not for pages")
        recording, params = self._recording(), request.query_params
        records = number_param(request, "records", 0, 2**50)
        try:
            place = await asyncio.to_thread(
                recording.readers.commit, params.get("reader", ""), params.get("segment", ""), records
            )
        except ReaderError as error:
            raise HTTPException(400, error.message) from None
        except OSError as error:
            raise HTTPException(503, f"the position cannot be stored: {error.strerror}") from None
        return JSONResponse({"segment": place.segment, "records": place.records})

    def _recording(self) -> Recording:
        recording = self._telemetry()
        if recording is None:
            raise HTTPException(404, f"this broker records no telemetry: {HINT}")
        return recording


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
