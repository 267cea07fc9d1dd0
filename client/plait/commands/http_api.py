"""Reads a broker's HTTP side: `/api/v1/...` as JSON."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any, Final

from .failures import Failure

TIMEOUT_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 256 << 20
"""A million subscriptions, listed."""


def get_json(address: str, path: str, token: str | None = None) -> Any:
    """What the broker at `http://HOST:PORT` answers to GET `path`; Failure when it does not."""
    assert address.startswith(("http://", "https://")), "addressing.py makes no others"
    request = urllib.request.Request(f"{address}{path}", headers={"Accept": "application/json"})  # noqa: S310
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            body = answer.read(ANSWER_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            hint = "give its token: --url plait://TOKEN@HOST" if error.code in (401, 403) else ""
            raise Failure(f"{address}{path} answered {error.code} {error.reason}", hint=hint) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        hint = "is a broker running there? `plait up` starts one; --http says where else to look"
        raise Failure(f"no answer from {address}: {reason}", hint=hint) from None
    if len(body) > ANSWER_BYTES_MAX:
        raise Failure(f"{address}{path} answered with over {ANSWER_BYTES_MAX} bytes")
    try:
        return json.loads(body)
    except ValueError:
        raise Failure(f"{address}{path} did not answer with JSON", hint="is that a Plait broker?") from None
