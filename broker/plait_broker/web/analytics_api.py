"""HTTP API of the analytics page: the tables that `plait analyze --out DIR` wrote, as JSON.

The manifest names the current file of each table. Nothing else in the directory is read, and nothing outside it.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from plait_core.values import Json

MANIFEST: Final = "manifest.json"
SUMMARY: Final = "summary.json"
FORMAT_KEYS: Final = frozenset({"format", "tables", "window_us"})

FILE_BYTES_MAX: Final = 16 << 20
"""Size of one table's page: 5,000 rows are some megabytes."""

HINT: Final = (
    "record with `plait broker --telemetry DIR --tables OUT`, "
    "and make tables with `plait analyze DIR --out OUT --every 60`"
)


class AnalyticsApi:
    """Serves the analytics tables."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def routes(self) -> list[Route]:
        """Return all routes."""
        return [
            Route("/api/v1/analytics", self.tables),
            Route("/api/v1/analytics/{table}", self.table),
            Route("/api/v1/summary", self.summary),
        ]

    async def tables(self, request: Request) -> Response:
        """List the tables; without any, the commands that make them."""
        manifest = await asyncio.to_thread(self._manifest)
        if manifest is None:
            return JSONResponse({"tables": {}, "hint": HINT})
        about = {key: manifest.get(key) for key in ("engine", "window_us", "records", "segments", "digest")}
        described = {
            name: {"description": table.get("description"), "rows": table.get("rows")}
            for name, table in manifest["tables"].items()
            if isinstance(table, dict) and "json" in table
        }
        return JSONResponse(about | {"tables": described, "hint": HINT})

    async def table(self, request: Request) -> Response:
        """Return the newest rows of a table."""
        body = await asyncio.to_thread(self._page, request.path_params["table"])
        if body is None:
            raise HTTPException(404, "there is no such table")
        return Response(body, media_type="application/json")

    async def summary(self, request: Request) -> Response:
        """Return rates and distributions of the last windows, for programs."""
        body = await asyncio.to_thread(self._summary)
        if body is None:
            raise HTTPException(404, f"there is no summary: {HINT}")
        return Response(body, media_type="application/json")

    def _summary(self) -> bytes | None:
        if self._directory is None:
            return None
        try:
            return _read(self._directory / SUMMARY)
        except OSError:
            return None

    def _manifest(self) -> Json | None:
        """Return the manifest, or None if there is none that can be read."""
        if self._directory is None:
            return None
        try:
            found = json.loads(_read(self._directory / MANIFEST))
        except (OSError, ValueError, RecursionError):
            return None
        whole = isinstance(found, dict) and found.keys() >= FORMAT_KEYS and isinstance(found["tables"], dict)
        return found if whole else None

    def _page(self, name: str) -> bytes | None:
        manifest = self._manifest()
        described = manifest["tables"].get(name) if manifest is not None else None
        if self._directory is None or not isinstance(described, dict) or not isinstance(described.get("json"), str):
            return None
        path = (self._directory / described["json"]).resolve()
        if not path.is_relative_to(self._directory.resolve()):
            return None
        try:
            return _read(path)
        except OSError:  # another analysis has just replaced it
            return None


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        body = file.read(FILE_BYTES_MAX + 1)
    if len(body) > FILE_BYTES_MAX:
        raise OSError(f"{path} has over {FILE_BYTES_MAX} bytes")
    return body
