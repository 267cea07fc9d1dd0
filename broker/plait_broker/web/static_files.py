"""The HTML pages: files of the package, served unchanged. They contain no data and request it from the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

OPEN_PREFIX: Final = "/static/"

PAGES: Final = {"/": "index.html", "/analytics": "analytics.html"}

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


def is_page(path: str) -> bool:
    """Return whether a path is a page or one of its files, which need no token."""
    return path in PAGES or path.startswith(OPEN_PREFIX)


def routes() -> list[Route]:
    """Return all routes."""
    return [*(Route(path, _page(name)) for path, name in PAGES.items()), Route("/static/{name}", _static)]


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """Return all files with their types; nothing else is served, for any path."""
    found: dict[str, tuple[bytes, str]] = {}
    for entry in files(__package__).joinpath("static").iterdir():
        ending = entry.name.rpartition(".")[2]
        if ending in _TYPES:
            found[entry.name] = (entry.read_bytes(), _TYPES[ending])
    return found


def _page(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        return _served(name)

    return page


async def _static(request: Request) -> Response:
    return _served(request.path_params["name"])


def _served(name: str) -> Response:
    known = _files().get(name)
    if known is None:
        raise HTTPException(404)
    body, media_type = known
    return Response(body, headers={"content-type": media_type})
