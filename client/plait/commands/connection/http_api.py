"""Reads a broker's HTTP side: `/api/v1/...`, mostly as JSON."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final

from ..terminal.failures import Failure, WrongUse
from ..terminal.output import printable
from .trust import SYSTEM, Trust

if TYPE_CHECKING:
    from .addressing import Target

TIMEOUT_S: Final = 5.0
REASON_MAX: Final = 200
"""Characters of what went wrong: something else than a broker may answer, with anything."""

_OTHER_PORT: Final = "a broker's HTTP side is another port than its clients', mostly one above it"
_UNKNOWN: Final = "give its token: --url plait://TOKEN@HOST"
_RESTRICTED: Final = "it takes a token that may subscribe to everything, or the broker's access.http_token"
ERROR_BYTES_MAX: Final = 64 << 10

ANSWER_BYTES_MAX: Final = 256 << 20
"""A million subscriptions, listed."""


def get_json(address: str, path: str, token: str | None = None, trust: Trust = SYSTEM) -> Any:
    """What the broker at `http://HOST:PORT` answers to GET `path`; Failure when it does not."""
    body = fetch(address, path, token, trust)
    try:
        return json.loads(body)
    except ValueError:
        raise Failure(f"{address}{path} did not answer with JSON", hint="is that a Plait broker?") from None


def fetch(address: str, path: str, token: str | None = None, trust: Trust = SYSTEM, *, method: str = "GET") -> bytes:
    """The same as it comes."""
    assert address.startswith(("http://", "https://")), "addressing.py makes no others"
    request = urllib.request.Request(f"{address}{path}", method=method)  # noqa: S310
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if address.startswith("https://"):
        handlers.append(urllib.request.HTTPSHandler(context=trust.context()))
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in (400, 404, 504) and (told := _told(error.read(ERROR_BYTES_MAX))):
                raise (Failure if error.code == 504 else WrongUse)(told) from None
            hint = "" if error.code not in (401, 403) else _UNKNOWN if not token else _RESTRICTED
            reason = printable(str(error.reason)[:REASON_MAX])
            raise Failure(f"{address}{path} answered {error.code} {reason}", hint=hint) from None
    except http.client.RemoteDisconnected:
        raise Failure(f"no answer from {address}: it hung up", hint=_OTHER_PORT) from None
    except http.client.HTTPException:  # what came instead is nothing to be shown
        raise Failure(f"what answers at {address} does not speak HTTP", hint=_OTHER_PORT) from None
    except OSError as error:
        cause = getattr(error, "reason", error)
        reason = printable(str(getattr(cause, "strerror", None) or cause)[:REASON_MAX])
        hint = _hint(address, str(cause))
        raise Failure(f"no answer from {address}: {reason}", hint=hint) from None
    if len(body) > ANSWER_BYTES_MAX:
        raise Failure(f"{address}{path} answered with over {ANSWER_BYTES_MAX} bytes")
    return body


def get_object(address: str, path: str, target: Target, key: str) -> dict[str, Any]:
    """The object that a broker answers with, which has this key; Failure when it has not."""
    answer = get_json(address, path, target.token, target.trust)
    if not isinstance(answer, dict) or key not in answer:
        raise Failure(f"{address} did not answer as a broker does", hint="is that a Plait broker?")
    return answer


def _told(body: bytes) -> str:
    """What a broker says is wrong with the question; empty when no broker says it."""
    try:
        said = json.loads(body)
    except ValueError:
        return ""
    told = said.get("error") if isinstance(said, dict) else None
    return printable(told) if isinstance(told, str) and told != "Not Found" else ""


def _hint(address: str, reason: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return "`plait context add NAME URL --ca FILE` says whom to trust, SSL_CERT_FILE=FILE does so for once"
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        return f"no TLS is spoken there: --http http://{address.partition('://')[2]}"
    return "is a broker running there? `plait up` starts one; --http says where else to look"
