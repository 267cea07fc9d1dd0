"""Query parameters of HTTP requests."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request


def number_param(request: Request, name: str, default: int, greatest: int) -> int:
    """Return a whole number from 0 to `greatest`. Raise HTTPException 400 if the parameter is none."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= greatest):
        raise HTTPException(400, f"{name} is a number from 0 to {greatest}")
    return int(text)
