"""A received event: a mapping of its attributes, with its metadata: id, delay, path, headers and more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from plait_core import EventId, Value, id_text
from plait_core.wire.frame_types.session_frames import LATE, REPLAYED

from .protocol.subscription_state import POSITION_MASK, Arrival

if TYPE_CHECKING:
    from .options.rings import Seal

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Verified:
    """The signer of a sealed event, and the credentials that it proved to hold."""

    publisher: int
    """The key server's id of the signer: the high half names the holder, the low half one of its processes."""
    epoch: int
    credentials: tuple[tuple[str, str], ...]
    """The label of a credential, for each attribute by which events are sealed."""


def moment(published_us: int) -> datetime:
    """Return a publication time. One that no calendar has counts as 1970."""
    try:
        return _EPOCH + timedelta(microseconds=published_us)
    except OverflowError:
        return _EPOCH


class Source(Protocol):
    """The subscription that delivered an event. It carries out the event's methods."""

    def broker_name(self, broker: int) -> str | None:
        """Return the name of a broker, or None if the name is not known."""
        ...

    def acknowledge(self, event: Event) -> None: ...
    def decline(self, event: Event) -> None: ...
    async def reply_to(self, request: Event, reply: object, payload: bytes, seal: Seal | None) -> None: ...


class Event(Mapping[str, Value]):
    """One matching event, a read-only mapping: `event["price"]`, `event.get("price")`, `dict(event)`.

    Attributes are unpacked at the first access.
    """

    __slots__ = ("_arrival", "_replied", "_source")
    _replied: bool
    """Set once a reply was published; unset before, because an event is made for each delivery."""

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
        """Return the attribute's value, or `default` when the event does not have the attribute."""
        return self._arrival[0].attributes().get(name, default)

    @property
    def payload(self) -> bytes:
        """The payload, which brokers do not read."""
        return self._arrival[0].payload

    @property
    def id(self) -> EventId:
        """The publisher id and the sequence number. They identify the event for ever."""
        frame = self._arrival[0]
        return EventId(frame.publisher, frame.sequence)

    @property
    def publisher(self) -> int:
        """The id of the publishing client."""
        publisher: int = self._arrival[0].publisher
        return publisher

    @property
    def seq(self) -> int:
        """The publisher's sequence number, from 1."""
        sequence: int = self._arrival[0].sequence
        return sequence

    @property
    def published_at(self) -> datetime:
        """The publication time by the publisher's clock: for display, not for ordering or for measuring delay."""
        return moment(self._arrival[0].published_us)

    @property
    def delay(self) -> float:
        """Seconds from publication to arrival at this client.

        Brokers measure the delay hop by hop; the client adds half the round trip to its home broker. Clocks of
        different machines are never compared.
        """
        frame, _, _, half_s = self._arrival
        return frame.delay_us / 1_000_000 + half_s

    @property
    def path(self) -> tuple[str, ...]:
        """Brokers that the event passed, first to last: their names, or their ids where no name is known."""
        name = self._source.broker_name
        return tuple([name(broker) or id_text(broker) for broker in self._arrival[0].path])

    @property
    def hops(self) -> int:
        """Number of links between brokers that the event crossed."""
        return max(0, len(self._arrival[0].path) - 1)

    @property
    def priority(self) -> int:
        """The priority, from 0 (ordinary) to 9 (first)."""
        return self._arrival[0].priority

    @property
    def lifetime_left(self) -> float | None:
        """Seconds of lifetime that were left on arrival, or None without a limit."""
        frame = self._arrival[0]
        return (frame.lifetime_us - frame.delay_us) / 1_000_000 if frame.lifetime_us else None

    @property
    def headers(self) -> dict[str, str]:
        """Texts for applications. Brokers do not route by them."""
        return self._arrival[0].headers()

    @property
    def verified(self) -> Verified | None:
        """The signer of a sealed event. None for other events: only the brokers vouch for their publisher."""
        return None

    @property
    def late(self) -> bool:
        """Whether the event missed the subscription's delay bound (`late="flag"`)."""
        return bool(self._arrival[1] & LATE)

    @property
    def replayed(self) -> bool:
        """Whether the event is out of its publisher's order: read from the log, delivered before, or retransmitted by
        the publisher after later events."""
        return bool(self._arrival[1] & REPLAYED)

    @property
    def position(self) -> int:
        """The event's position in the log of a durable subscription; 0 for other subscriptions."""
        return self._arrival[2] & POSITION_MASK

    def ack(self) -> None:
        """Acknowledge the event (`ack="manual"`). A second call does nothing. The ack is sent with the next write."""
        self._source.acknowledge(self)

    def nak(self) -> None:
        """Reject the event: deliver it again, after the events that are queued."""
        self._source.decline(self)

    async def reply(self, answer: object, payload: bytes = b"", *, seal: Seal | None = None) -> None:
        """Reply to a request. Raise EventInvalid when this event is not a request.

        - `seal`: seals the reply. The reply to a sealed request needs it.
        """
        await self._source.reply_to(self, answer, payload, seal)

    def __repr__(self) -> str:
        payload = f", payload of {len(self.payload)} bytes" if self.payload else ""
        return f"<{type(self).__name__} {self.id}: {dict(self)!r:.1000}{payload}>"

    @property
    def replied(self) -> bool:
        """Whether a reply to this request was published here."""
        return getattr(self, "_replied", False)
