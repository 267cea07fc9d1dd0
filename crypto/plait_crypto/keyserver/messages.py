"""What is asked of a key server and answered: one JSON object a line, inside TLS.

{"v": 1, "ask": "realm"}                                              parameters, schema, epochs that are issued
{"v": 1, "ask": "keys", "role": R, "filter": F, "epoch": N, ...}      keys; publishers give their "instance"
{"v": 1, "ask": "enrol", "token": T, "request": PEM}                  a certificate for who was given a token
{"ok": true, ...}   or   {"ok": false, "error": CODE, "message": M, "hint": H}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from plait_core import Filter, FilterError, parse

from ..errors import SealError
from .limits import REQUEST_BYTES_MAX
from .policy import INSTANCE_BITS, Role

VERSION: Final = 1
_EPOCH_MAX: Final = 2**32 - 1
_SLOT_MAX: Final = 2**24
_TOKEN_CHARS_MAX: Final = 128


class RequestInvalid(SealError):
    """Theirs: a line that asks for nothing."""


class Refusal(SealError):
    """A request that is understood and not granted. `code`: `denied`, `too_often`, `invalid`, `busy` or `epoch`."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.retryable = code in ("too_often", "busy")


@dataclass(frozen=True)
class ShowRealm:
    """The public parameters."""


@dataclass(frozen=True)
class IssueKeys:
    """Keys for a filter in one epoch."""

    role: Role
    filter: Filter
    epoch: int
    instance: int = 0
    """Of a publisher: the low half of its id."""
    slots: tuple[int, int] | None = None
    """Part of the epoch, where the schema cuts epochs up."""


@dataclass(frozen=True, repr=False)
class Enrol:
    """A certificate for the holder that a token was made for."""

    token: str
    request: str
    """A certificate signing request, PEM."""


KeyRequest: TypeAlias = ShowRealm | IssueKeys | Enrol


def read_request(line: bytes) -> KeyRequest:
    """What a line asks for, or AskInvalid."""
    if len(line) > REQUEST_BYTES_MAX:
        raise RequestInvalid("a request that is too long", hint="ASK_BYTES_MAX says how long it may be")
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestInvalid("a request that is no JSON") from None
    if not isinstance(given, dict) or given.get("v") != VERSION:
        raise RequestInvalid("a request of another version", hint=f"this is version {VERSION}")
    match given.get("ask"):
        case "realm":
            return ShowRealm()
        case "keys":
            return _keys(given)
        case "enrol":
            return Enrol(_text(given, "token", _TOKEN_CHARS_MAX), _text(given, "request", REQUEST_BYTES_MAX))
    raise RequestInvalid("a request for nothing that is known", hint="realm, keys or enrol")


def request_line(ask: KeyRequest) -> bytes:
    """The line that asks."""
    said: dict[str, Any] = {"v": VERSION}
    match ask:
        case ShowRealm():
            said["ask"] = "realm"
        case Enrol(token, request):
            said |= {"ask": "enrol", "token": token, "request": request}
        case IssueKeys(role, filter, epoch, instance, slots):
            said |= {"ask": "keys", "role": role, "filter": filter.text, "epoch": epoch}
            said |= {"instance": instance} if instance else {}
            said |= {"slots": list(slots)} if slots is not None else {}
    return _line(said)


def reply_line(reply: Mapping[str, Any] | Refusal | RequestInvalid) -> bytes:
    """The line that answers."""
    if isinstance(reply, SealError):
        code = reply.code if isinstance(reply, Refusal) else "invalid"
        return _line({"ok": False, "error": code, "message": reply.message, "hint": reply.hint})
    return _line({"ok": True, **reply})


def read_reply(line: bytes) -> dict[str, Any]:
    """What an answer says; Refusal if that is no, AskInvalid if it is no answer."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestInvalid("an answer that is no JSON", hint="is it a key server?") from None
    if not isinstance(given, dict) or type(given.get("ok")) is not bool:
        raise RequestInvalid("an answer of another shape", hint="is it a key server?")
    if not given["ok"]:
        code, message, hint = (str(given.get(key, ""))[:500] for key in ("error", "message", "hint"))
        raise Refusal(code, message, hint=hint)
    return given


def _keys(given: Mapping[str, Any]) -> IssueKeys:
    role = given.get("role")
    if role not in ("publisher", "subscriber"):
        raise RequestInvalid("keys for no role", hint="publisher or subscriber")
    epoch, instance = _number(given, "epoch", _EPOCH_MAX), _number(given, "instance", (1 << INSTANCE_BITS) - 1)
    if (role == "publisher") != bool(instance):
        raise RequestInvalid(
            "publishers, and nobody else, give an instance", hint="1 to 2**32 - 1, drawn for each process"
        )
    try:
        filter = parse(_text(given, "filter", REQUEST_BYTES_MAX))
        _ = filter.normal
    except FilterError as error:
        raise RequestInvalid(str(error)) from None
    slots = given.get("slots")
    if slots is None:
        return IssueKeys(role, filter, epoch, instance)
    if not isinstance(slots, list) or len(slots) != 2 or not all(_whole(each, _SLOT_MAX) for each in slots):
        raise RequestInvalid("slots are two numbers")
    return IssueKeys(role, filter, epoch, instance, (slots[0], slots[1]))


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


def _line(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"
