"""The event as a subscriber sees it: a mapping of its attributes, and everything known about how it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from plait_core import EventId, Value, id_text
from plait_core.wire.frame_types.session_frames import LATE, REPLAYED

from .protocol.subscription_state import POSITION_MASK, Arrival

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Verified:
    """Who signed an event, and what it proved to hold."""

    publisher: int
    """The key server's id for it: the high half names the holder, the low half one of its processes."""
    epoch: int
    credentials: tuple[tuple[str, str], ...]
    """For each attribute that guards events, the label of a credential."""


class Source(Protocol):
    """Where an event came from: what its methods are carried out by."""

    def broker_name(self, broker: int) -> str | None:
        """The name of a broker, where it is known."""
        ...

    def acknowledge(self, event: Event) -> None: ...
    def decline(self, event: Event) -> None: ...
    async def reply_to(self, request: Event, reply: object, payload: bytes) -> None: ...


class Event(Mapping[str, Value]):
    """One event that matched. `event["price"]`, `event.get("price")`, `dict(event)`; read-only.

    Attributes are unpacked when the first one is asked for.
    """

    __slots__ = ("_arrival", "_source")

    def __init__(self, arrival: Arrival, source: Source) -> None:
        self._arrival = arrival
        self._source = source

    def __getitem__(self, name: str) -> Value:
        return self._arrival[0].attributes()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrival[0].attributes())

    def __len__(self) -> int:
        return len(self._arrival[0].attributes())

    def __contains__(self, name: object) -> bool:
        return name in self._arrival[0].attributes()

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute's value, or `default` when the event does not have it."""
        return self._arrival[0].attributes().get(name, default)

    @property
    def payload(self) -> bytes:
        """What rides along, opaque to brokers."""
        return self._arrival[0].payload

    @property
    def id(self) -> EventId:
        """Publisher and sequence number: names this event for ever."""
        frame = self._arrival[0]
        return EventId(frame.publisher, frame.sequence)

    @property
    def publisher(self) -> int:
        """The id of the client that published it."""
        publisher: int = self._arrival[0].publisher
        return publisher

    @property
    def seq(self) -> int:
        """The publisher's own count, from 1."""
        sequence: int = self._arrival[0].sequence
        return sequence

    @property
    def published_at(self) -> datetime:
        """When, by the publisher's clock: for people, not for ordering or for measuring delay."""
        try:
            return _EPOCH + timedelta(microseconds=self._arrival[0].published_us)
        except OverflowError:
            return _EPOCH

    @property
    def delay(self) -> float:
        """Seconds from publication to arrival here: measured hop by hop by the brokers, plus half the round trip to
        the home broker. No two clocks are ever compared."""
        frame, _, _, half_s = self._arrival
        return frame.delay_us / 1_000_000 + half_s

    @property
    def path(self) -> tuple[str, ...]:
        """The brokers that it passed, first to last: their names where known, else their ids."""
        name = self._source.broker_name
        return tuple([name(broker) or id_text(broker) for broker in self._arrival[0].path])

    @property
    def hops(self) -> int:
        """Links between brokers that it took."""
        return max(0, len(self._arrival[0].path) - 1)

    @property
    def priority(self) -> int:
        """0 (ordinary) to 9 (first)."""
        return self._arrival[0].priority

    @property
    def lifetime_left(self) -> float | None:
        """Seconds for which it was still worth delivering when it arrived; None when that has no end."""
        frame = self._arrival[0]
        return (frame.lifetime_us - frame.delay_us) / 1_000_000 if frame.lifetime_us else None

    @property
    def headers(self) -> dict[str, str]:
        """Text for applications, never routed on."""
        return self._arrival[0].headers()

    @property
    def verified(self) -> Verified | None:
        """Who signed it, of an event that was sealed; None of others, which brokers alone vouch for."""
        return None

    @property
    def late(self) -> bool:
        """Whether it missed the subscription's delay bound (`late="flag"`)."""
        return bool(self._arrival[1] & LATE)

    @property
    def replayed(self) -> bool:
        """Whether it is from the log: published before this subscription was opened, or delivered before. Or whether
        its publisher had to repeat it, and later ones of it came first."""
        return bool(self._arrival[1] & REPLAYED)

    @property
    def position(self) -> int:
        """Its place in a durable subscription's log; 0 when there is none."""
        return self._arrival[2] & POSITION_MASK

    def ack(self) -> None:
        """It has been dealt with (`ack="manual"`). Again: nothing happens. Sent with the next write."""
        self._source.acknowledge(self)

    def nak(self) -> None:
        """It could not be dealt with: it is handed out again, after what is waiting."""
        self._source.decline(self)

    async def reply(self, answer: object, payload: bytes = b"") -> None:
        """Answer a request, to the one who made it; EventInvalid when this event is none."""
        await self._source.reply_to(self, answer, payload)

    def __repr__(self) -> str:
        return f"Event({self.id}, {dict(self)!r})"
