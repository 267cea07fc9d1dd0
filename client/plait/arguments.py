"""What applications pass, checked: each becomes what frames have, or an error that says what would be right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from plait_core import EventInvalid
from plait_core.events import I64_MAX
from plait_core.limits import PAYLOAD_BYTES_MAX, PRIORITY_MAX
from plait_core.wire import Confirm
from plait_core.wire.session_frames import Start

from .errors import DeadlineMissed, NotAvailable, PayloadTooLarge

Seconds: TypeAlias = float | timedelta
"""A duration: seconds, or a timedelta."""

_CONFIRMS: Final[dict[str, Confirm]] = {
    "none": Confirm.NONE,
    "broker": Confirm.BROKER,
    "subscribers": Confirm.SUBSCRIBERS,
}


def checked_payload(payload: bytes) -> bytes:
    """The payload as it is sent."""
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise EventInvalid(f"a payload of type {type(payload).__name__}", hint="payloads are bytes")
    plain = bytes(payload)
    if len(plain) > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(
            f"a payload of {len(plain)} bytes, and {PAYLOAD_BYTES_MAX} are allowed",
            hint="put it into a store, and its address into the event",
        )
    return plain


def check_extras(priority: int, seal: object) -> None:
    """What a publish that does not wait may ask for."""
    if seal is not None:
        raise NotAvailable("seal= without waiting", hint="sealing takes time: await publish(..., seal=...)")
    if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
        raise EventInvalid(f"priority {priority!r}", hint=f"0 to {PRIORITY_MAX}")


def confirmation(level: str) -> Confirm:
    """What a publish waits for."""
    try:
        return _CONFIRMS[level]
    except KeyError:
        raise EventInvalid(f"confirm={level!r}", hint="none, broker or subscribers") from None


def microseconds(given: Seconds | None, what: str) -> int:
    """A duration as frames have it; 0 for none."""
    if given is None:
        return 0
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if not 0 < seconds <= I64_MAX / 1_000_000:
        raise EventInvalid(f"{what}={given!r}", hint="seconds above zero, or a timedelta")
    return max(1, round(seconds * 1_000_000))


def lifetime_us(ttl: Seconds | None, deadline: Seconds | datetime | None) -> int:
    """How long an event lives: the shorter of both; 0 for ever."""
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise EventInvalid("a deadline without a time zone", hint="datetime.now(timezone.utc) + ...")
        left = deadline - datetime.now(UTC)
        if left <= timedelta(0):
            raise DeadlineMissed("the deadline is over already")
        deadline = left
    given = [microseconds(ttl, "ttl"), microseconds(deadline, "deadline")]
    return min((lifetime for lifetime in given if lifetime), default=0)


def starting_point(start: str | int | datetime) -> tuple[Start, int]:
    """Where a durable subscription begins, and the time or position that goes with it."""
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise EventInvalid("a start without a time zone", hint="datetime.now(timezone.utc) - ...")
        return Start.TIME, max(0, round(start.timestamp() * 1_000_000))
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return Start.POSITION, start
    if start in ("new", "all"):
        return Start(start), 0
    raise EventInvalid(f"start={start!r}", hint='"new", "all", a datetime or a position')
