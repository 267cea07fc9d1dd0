"""Requests to a broker's HTTP side: `/api/v1/...`, mostly JSON."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final

from plait_core.values import Json

from ...options.trust import SYSTEM, Trust
from ..terminal.failures import Failure, WrongUse
from ..terminal.output import printable

if TYPE_CHECKING:
    from ...options.target import Target

TIMEOUT_S: Final = 5.0
REASON_MAX: Final = 200
"""Characters of an error that are printed. The answer may come from another program."""

_PORT_HINT: Final = "a broker's HTTP port is not its clients' port, but usually the next one"
_AUTH_HINT: Final = "give its token: --url plait://TOKEN@HOST"
_PERMISSION_HINT: Final = "it needs a token that may subscribe to everything, or the broker's access.http_token"
ERROR_BYTES_MAX: Final = 64 << 10

ANSWER_BYTES_MAX: Final = 256 << 20
"""Bytes of one answer: room for a list of a million subscriptions."""


def get_json(address: str, path: str, token: str | None = None, trust: Trust = SYSTEM) -> Any:
    """Return the JSON that the broker at `http://HOST:PORT` answers to GET `path`; Failure if it does not."""
    body = fetch(address, path, token, trust)
    try:
        return json.loads(body)
    except ValueError:
        raise Failure(f"{address}{path} did not answer with JSON", hint="is that a Plait broker?") from None


def fetch(address: str, path: str, token: str | None = None, trust: Trust = SYSTEM, *, method: str = "GET") -> bytes:
    """Return the bytes that the broker answers to a request; Failure on an error status or without an answer."""
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
            if error.code in (400, 404, 504) and (message := _error_message(error.read(ERROR_BYTES_MAX))):
                raise (Failure if error.code == 504 else WrongUse)(message) from None
            hint = "" if error.code not in (401, 403) else _AUTH_HINT if not token else _PERMISSION_HINT
            reason = printable(str(error.reason)[:REASON_MAX])
            raise Failure(f"{address}{path} answered {error.code} {reason}", hint=hint) from None
    except http.client.RemoteDisconnected:
        raise Failure(f"no answer from {address}: it closed the connection", hint=_PORT_HINT) from None
    except http.client.HTTPException:  # the bytes received are not printed
        raise Failure(f"what answers at {address} does not speak HTTP", hint=_PORT_HINT) from None
    except OSError as error:
        cause = getattr(error, "reason", error)
        reason = printable(str(getattr(cause, "strerror", None) or cause)[:REASON_MAX])
        hint = _hint(address, str(cause))
        raise Failure(f"no answer from {address}: {reason}", hint=hint) from None
    if len(body) > ANSWER_BYTES_MAX:
        raise Failure(f"{address}{path} answered with over {ANSWER_BYTES_MAX} bytes")
    return body


def get_object(address: str, path: str, target: Target, key: str) -> Json:
    """Return the JSON object at a path, which must have this key; Failure if it is no broker's answer."""
    answer = get_json(address, path, target.token, target.trust)
    if not isinstance(answer, dict) or key not in answer:
        raise Failure(f"{address} did not answer as a broker does", hint="is that a Plait broker?")
    return answer


def _error_message(body: bytes) -> str:
    """Return the error message of a broker's answer; empty if the answer is not a broker's."""
    try:
        answer = json.loads(body)
    except ValueError:
        return ""
    message = answer.get("error") if isinstance(answer, dict) else None
    return printable(message) if isinstance(message, str) and message != "Not Found" else ""


def _hint(address: str, reason: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return "`plait context add NAME URL --ca FILE` trusts an authority, SSL_CERT_FILE=FILE does for one command"
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        return f"it does not use TLS: --http http://{address.partition('://')[2]}"
    return "is a broker running there? `plait up` starts one; --http names another address"
