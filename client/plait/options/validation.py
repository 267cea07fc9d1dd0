"""Checks of the arguments of the SDK: each is converted to the form that frames use, or raises an error with a hint."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from plait_core import EventInvalid
from plait_core.events import I64_MAX
from plait_core.filters import Filter, as_filter
from plait_core.limits import PAYLOAD_BYTES_MAX, PRIORITY_MAX
from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import Late, Start

from ..errors import AddressInvalid, ArgumentInvalid, DeadlineMissed, PayloadTooLarge
from .durations import Duration, seconds
from .keyword_options import ConnectOptions
from .settings import NEVER, Buffer, FilterLike, Outbox, Reconnect

_logger: Final = logging.getLogger("plait")

_CONFIRMS: Final[dict[str, Confirm]] = {
    "none": Confirm.NONE,
    "broker": Confirm.BROKER,
    "subscribers": Confirm.SUBSCRIBERS,
}


def usable_filter(given: FilterLike) -> Filter:
    """Return the filter of a subscription or advertisement. Log a warning for what looks like a slip in it.

    Raise FilterTooComplex here rather than at the broker.
    """
    try:
        filter = as_filter(given)
    except TypeError as error:
        raise ArgumentInvalid(str(error)) from None
    filter.normal  # noqa: B018 - raises FilterTooComplex
    for doubt in filter.doubts():
        _logger.warning("%s", doubt)
    return filter


def checked_payload(payload: bytes) -> bytes:
    """Check a payload and return its bytes."""
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise EventInvalid(f"a payload of type {type(payload).__name__}", hint="payloads are bytes")
    plain = bytes(payload)
    if len(plain) > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(
            f"a payload of {len(plain)} bytes, and {PAYLOAD_BYTES_MAX} are allowed",
            hint="put it into a store, and its address into the event",
        )
    return plain


def check_priority(priority: int) -> None:
    """Raise ArgumentInvalid for a priority that is none."""
    if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
        raise ArgumentInvalid(f"priority={priority!r}", hint=f"0 to {PRIORITY_MAX}")


def confirmation(level: object) -> Confirm:
    """Return the confirmation level of a publish."""
    if not isinstance(level, str) or level not in _CONFIRMS:
        raise ArgumentInvalid(f"confirm={level!r}", hint='"none", "broker" or "subscribers"')
    return _CONFIRMS[level]


def microseconds(given: Duration | None, what: str) -> int:
    """Convert a duration to microseconds; 0 for none."""
    return 0 if given is None else min(max(1, round(seconds(given, what) * 1_000_000)), I64_MAX)


def timeout_s(given: Duration | None) -> float | None:
    """Return the seconds of the option `timeout`. None: without limit."""
    return None if given is None else seconds(given, "timeout", zero=True)


def lifetime_us(ttl: Duration | None, deadline: Duration | datetime | None) -> int:
    """Return the lifetime of an event in microseconds: the shorter of both limits, or 0 without a limit."""
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise ArgumentInvalid("a deadline without a time zone", hint="datetime.now(timezone.utc) + ...")
        left = deadline - datetime.now(UTC)
        if left <= timedelta(0):
            raise DeadlineMissed("the deadline is over already")
        deadline = left
    given = [microseconds(ttl, "ttl"), microseconds(deadline, "deadline")]
    return min((lifetime for lifetime in given if lifetime), default=0)


def starting_point(start: str | int | datetime, durable: str) -> tuple[Start, int]:
    """Return the start of a subscription, with its time or position."""
    if start != "new" and not durable:
        raise ArgumentInvalid(
            f"start={start!r} without durable=",
            hint="a broker logs events for durable subscriptions only: give the subscription a name by durable=",
        )
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ArgumentInvalid("a start without a time zone", hint="datetime.now(timezone.utc) - ...")
        return Start.TIME, max(0, round(start.timestamp() * 1_000_000))
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return Start.POSITION, start
    if start in ("new", "all"):
        return Start(start), 0
    raise ArgumentInvalid(f"start={start!r}", hint='"new", "all", a datetime or a position')


def late_policy(late: str) -> Late:
    """Return the policy for events that miss the delay bound."""
    if late not in ("drop", "flag"):
        raise ArgumentInvalid(f"late={late!r}", hint='"drop" or "flag"')
    return Late(late)


def checked_buffer(buffer: Buffer) -> Buffer:
    """Check the buffer option and return it."""
    if not isinstance(buffer, Buffer):
        raise ArgumentInvalid(f"buffer={buffer!r}", hint="a plait.Buffer, like Buffer(items=1000)")
    return buffer


def is_manual(ack: str) -> bool:
    """Return whether the application acknowledges events itself (`ack="manual"`)."""
    if ack not in ("auto", "manual"):
        raise ArgumentInvalid(f"ack={ack!r}", hint='"auto" or "manual"')
    return ack == "manual"


def check_schema(schema: object) -> None:
    """Raise ArgumentInvalid for a schema that is no mapping of names to types."""
    types = schema.values() if isinstance(schema, Mapping) else [schema]
    if schema is not None and not all(isinstance(kind, type) for kind in types):
        raise ArgumentInvalid(f"schema={schema!r}", hint="attribute names with their types, like {'price': float}")


def check_connecting(url: object, options: ConnectOptions) -> None:
    """Raise AddressInvalid or ArgumentInvalid for arguments of `connect` that have the wrong type."""
    name, auth, tls = options.get("name"), options.get("auth"), options.get("tls")
    urls = list(url) if isinstance(url, Sequence) else [url]
    if url is not None and not all(isinstance(one, str) for one in urls):
        raise AddressInvalid(f"{url!r} is no URL", hint="a text, or a list of texts, like plait://127.0.0.1:4680")
    if not isinstance(context := options.get("context"), str | None):
        raise AddressInvalid(f"context={context!r}", hint="give the name of a saved context")
    if name is not None and not isinstance(name, str):
        raise ArgumentInvalid(f"name={name!r}", hint="give a text")
    if auth is not None and not isinstance(auth, str) and not callable(auth):
        raise ArgumentInvalid(f"auth is a {type(auth).__name__}", hint="give a token, or a function that returns one")
    if tls is not None and not isinstance(tls, ssl.SSLContext | bool):
        raise ArgumentInvalid(f"tls={tls!r}", hint="give an ssl.SSLContext, or True")


def reconnecting(given: Reconnect | bool | None) -> Reconnect:
    """Return the reconnect policy for the option `reconnect`."""
    if isinstance(given, Reconnect):
        return given
    if given is not None and not isinstance(given, bool):
        raise ArgumentInvalid(f"reconnect={given!r}", hint="give a plait.Reconnect, or False for never")
    return NEVER if given is False else Reconnect()


def outbox_of(given: Outbox | None) -> Outbox:
    """Return the publish queue's bound for the option `outbox`."""
    if given is not None and not isinstance(given, Outbox):
        raise ArgumentInvalid(f"outbox={given!r}", hint="give a plait.Outbox")
    return given if given is not None else Outbox()


def name_of_durable(given: object) -> str:
    """Return the name of a durable subscription, which must be one."""
    if not isinstance(given, str) or not given:
        raise ArgumentInvalid(f"{given!r} is no name of a durable subscription", hint="the name given by durable=")
    return given


def durable_name(given: object) -> str:
    """Return the name of a durable subscription, or "" for none."""
    if given is None:
        return ""
    if not isinstance(given, str) or not given:
        raise ArgumentInvalid(f"durable={given!r}", hint="a name, or None for a subscription that is not durable")
    return given
