"""Requests to a key server and its replies: one JSON object a line, inside TLS.

{"v": 1, "ask": "realm", "known": [DIGEST, ...]}                      realms, epochs that are issued; of a realm that
                                                                      is known, neither parameters nor schema
{"v": 1, "ask": "keys", "role": R, "filter": F, "epoch": N, ...}      keys; publishers give their "instance"
{"v": 1, "ask": "enrol", "token": T, "request": PEM}                  a certificate for the holder of a token
{"ok": true, ...}   or   {"ok": false, "error": CODE, "message": M, "hint": H, "retry_s": S}

A line is parsed in two steps: `read_line`, then `read_request`, which parses a filter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, TypeAlias

from plait_core import Filter, FilterError, parse
from plait_core.values import Json

from ..errors import SealError
from .limits import KNOWN_MAX, REQUEST_BYTES_MAX
from .policy import INSTANCE_BITS, Role

VERSION: Final = 1
ASKS: Final = ("realm", "keys", "enrol")
_EPOCH_MAX: Final = 2**32 - 1
_SLOT_MAX: Final = 2**24
_TOKEN_CHARS_MAX: Final = 128
_REALM: Final = re.compile(r"[0-9a-f]{64}\Z")
_RETRY_S_MAX: Final = 3600.0


class RequestInvalid(SealError):
    """A line that is not a valid request or reply."""


class Refusal(SealError):
    """A valid request that is not granted. `code`: `denied`, `too_often`, `invalid`, `busy`, `epoch` or `realm`.

    `why` is the reason for the audit log alone, where the caller must not know it exactly. `retry_s` is the time after
    which the same request can be granted.
    """

    def __init__(self, code: str, message: str, *, hint: str = "", why: str = "", retry_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.why = why
        self.retry_s = retry_s
        self.retryable = code in ("too_often", "busy")


@dataclass(frozen=True)
class ShowRealm:
    """Request the realms that are served."""

    known: tuple[str, ...] = ()
    """Digests, in hexadecimal, of realms whose parameters the member has."""


@dataclass(frozen=True)
class IssueKeys:
    """Request keys for a filter in one epoch."""

    role: Role
    filter: Filter
    epoch: int
    instance: int = 0
    """Of a publisher: the low half of its id."""
    slots: tuple[int, int] | None = None
    """A part of the epoch, if the schema divides epochs into slots."""
    realm: str = ""
    """The digest of a realm in hexadecimal; empty: the one that events are sealed in now."""


@dataclass(frozen=True, repr=False)
class Enrol:
    """Request a certificate for the holder of a token."""

    token: str
    request: str
    """A certificate signing request, PEM."""


KeyRequest: TypeAlias = ShowRealm | IssueKeys | Enrol


def read_line(line: bytes) -> Json:
    """Parse the JSON of a request, and nothing else; raise RequestInvalid if it is invalid."""
    if len(line) > REQUEST_BYTES_MAX:
        raise RequestInvalid("a request that is too long", hint=f"{REQUEST_BYTES_MAX} bytes (REQUEST_BYTES_MAX)")
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestInvalid("a request that is not JSON") from None
    if not isinstance(given, dict) or type(given.get("v")) is not int or given["v"] != VERSION:
        raise RequestInvalid("a request of another version", hint=f"this is version {VERSION}")
    if given.get("ask") not in ASKS:
        raise RequestInvalid("an unknown request", hint="realm, keys or enrol")
    return given


def read_request(given: Mapping[str, Any]) -> KeyRequest:
    """Parse the output of `read_line`; raise RequestInvalid if it is invalid."""
    match given["ask"]:
        case "realm":
            return ShowRealm(_known(given))
        case "keys":
            return _keys(given)
    assert given["ask"] == "enrol"
    return Enrol(_text(given, "token", _TOKEN_CHARS_MAX), _text(given, "request", REQUEST_BYTES_MAX))


def request_line(request: KeyRequest) -> bytes:
    """Encode a request."""
    fields: Json = {"v": VERSION}
    match request:
        case ShowRealm(known):
            fields |= {"ask": "realm"} | ({"known": list(known)} if known else {})
        case Enrol(token, certificate_request):
            fields |= {"ask": "enrol", "token": token, "request": certificate_request}
        case IssueKeys(role, filter, epoch, instance, slots, realm):
            fields |= {"ask": "keys", "role": role, "filter": filter.text, "epoch": epoch}
            fields |= {"instance": instance} if instance else {}
            fields |= {"slots": list(slots)} if slots is not None else {}
            fields |= {"realm": realm} if realm else {}
    return _line(fields)


def reply_line(reply: Mapping[str, Any] | Refusal | RequestInvalid) -> bytes:
    """Encode a reply."""
    if isinstance(reply, SealError):
        code = reply.code if isinstance(reply, Refusal) else "invalid"
        later = {"retry_s": reply.retry_s} if isinstance(reply, Refusal) and reply.retry_s else {}
        return _line({"ok": False, "error": code, "message": reply.message, "hint": reply.hint, **later})
    return _line({"ok": True, **reply})


def read_reply(line: bytes) -> Json:
    """Parse a reply. Raise Refusal if the request was refused, RequestInvalid if the reply is invalid."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestInvalid("a reply that is not JSON", hint="is it a key server?") from None
    if not isinstance(given, dict) or type(given.get("ok")) is not bool:
        raise RequestInvalid("a reply of another shape", hint="is it a key server?")
    if not given["ok"]:
        code, message, hint = (str(given.get(key, ""))[:500] for key in ("error", "message", "hint"))
        later = given.get("retry_s")
        retry_s = min(max(0.0, later), _RETRY_S_MAX) if isinstance(later, int | float) else 0.0
        raise Refusal(code, message, hint=hint, retry_s=retry_s)
    return given


def retry_after_s(wait_us: float) -> float:
    """Return the seconds after which to retry: a wait, rounded up to tenths."""
    return ceil(wait_us / 100_000) / 10


def _keys(given: Mapping[str, Any]) -> IssueKeys:
    role = given.get("role")
    if role not in ("publisher", "subscriber"):
        raise RequestInvalid("a request for keys without a role", hint="publisher or subscriber")
    epoch, instance = _number(given, "epoch", _EPOCH_MAX), _number(given, "instance", (1 << INSTANCE_BITS) - 1)
    if (role == "publisher") != bool(instance):
        raise RequestInvalid(
            "publishers give an instance, subscribers do not", hint="1 to 2**32 - 1, drawn for each process"
        )
    try:
        filter = parse(_text(given, "filter", REQUEST_BYTES_MAX))
        _ = filter.normal
    except FilterError as error:
        raise RequestInvalid(str(error)) from None
    slots, realm = given.get("slots"), given.get("realm", "")
    if realm and not _is_realm(realm):
        raise RequestInvalid("a realm is named by its digest")
    if slots is None:
        return IssueKeys(role, filter, epoch, instance, realm=realm)
    if not isinstance(slots, list) or len(slots) != 2 or not all(_whole(each, _SLOT_MAX) for each in slots):
        raise RequestInvalid("slots are two numbers")
    return IssueKeys(role, filter, epoch, instance, (slots[0], slots[1]), realm)


def _known(given: Mapping[str, Any]) -> tuple[str, ...]:
    found = given.get("known", [])
    if not isinstance(found, list) or len(found) > KNOWN_MAX or not all(map(_is_realm, found)):
        raise RequestInvalid(f"known: up to {KNOWN_MAX} digests of realms are expected")
    return tuple(found)


def _is_realm(found: object) -> bool:
    return isinstance(found, str) and _REALM.match(found) is not None


def _text(given: Mapping[str, Any], key: str, chars_max: int) -> str:
    found = given.get(key)
    if not isinstance(found, str) or not 0 < len(found) <= chars_max:
        raise RequestInvalid(f"{key}: a text is expected")
    return found


def _number(given: Mapping[str, Any], key: str, most: int) -> int:
    found = given.get(key, 0)
    if not _whole(found, most):
        raise RequestInvalid(f"{key}: a number from 0 to {most} is expected")
    assert isinstance(found, int)
    return found


def _whole(found: object, most: int) -> bool:
    return type(found) is int and 0 <= found <= most


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
