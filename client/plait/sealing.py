"""Sealed events in the SDK (thesis ch. 5): sealing before an event is numbered, opening when the application takes it.

Between publisher and subscriber a sealed event is an ordinary one. Its attributes are the clear ones and `$sealed`,
which names the realm; its payload holds the rest. Brokers route it by the clear attributes. The `Reader` evaluates
conditions on hidden attributes after opening. Key rings come from `plait_keyserver.Membership`. `plait_crypto` is
imported only when a ring is used.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from plait_core import Attributes, EventId, EventInvalid, Filter, FilterTooComplex, Value
from plait_core.filters.ast import And as Conjunction
from plait_core.filters.ast import Compare, Constant, Expr, Not, Or, Presence, conjoin, disjoin, push_not
from plait_core.sealed_opening import SEALED

from .errors import ArgumentInvalid
from .event import Event, Source, Verified
from .options.conversion import event_parts, plain_attributes
from .protocol.subscription_state import Arrival

if TYPE_CHECKING:
    from plait_crypto import Draft, Opened, Realm

DECLINED_MAX: Final = 1024
"""Opened events that wait to be delivered again after `nak`. They are kept because a ring opens nothing twice."""


class Sealing(Protocol):
    """A key ring that seals: the interface of PublisherRing."""

    @property
    def realm(self) -> Realm: ...
    async def seal(self, draft: Draft) -> tuple[Attributes, bytes]: ...


class Unsealing(Protocol):
    """A key ring that opens: the interface of SubscriberRing."""

    @property
    def realm(self) -> Realm: ...
    @property
    def deposit(self) -> bytes: ...
    @property
    def watchers(self) -> list[Callable[[], None]]: ...
    async def open(self, clear: Attributes, payload: bytes, bound: bytes = b"") -> Opened: ...


@dataclass(frozen=True, eq=False)
class Seal:
    """The key ring that seals an event, and the attributes to hide from brokers. `hidden=None` hides all of them."""

    ring: Sealing
    hidden: Collection[str] | None = None


async def sealed(seal: object, event: object, payload: bytes, publisher: int) -> tuple[Attributes, bytes]:
    """Seal an event. Return the attributes and the payload that are sent."""
    if not isinstance(seal, Seal):
        raise ArgumentInvalid(f"seal={seal!r:.80}", hint="give a plait.Seal")
    from plait_crypto import Draft

    parts, payload = event_parts(event, payload)
    attributes = plain_attributes(parts)
    if SEALED in attributes:
        raise EventInvalid(f"{SEALED} is Plait's own")
    draft = Draft(attributes, bytes(payload), hidden=seal.hidden, bound=_bound(publisher))
    clear, parcel = await seal.ring.seal(draft)
    return {**clear, SEALED: seal.ring.realm.short_name.hex()}, parcel


def routed(filter: Filter, realm: Realm) -> Filter:
    """Return the filter that brokers route by. It matches every sealed event of the realm that may match `filter`."""
    of_realm = Compare(SEALED, "==", realm.short_name.hex())
    found = Filter(conjoin([of_realm, _relaxed(filter.expr)]))
    try:
        _ = found.normal
    except FilterTooComplex:  # brokers then send more events, and the reader filters them
        return Filter(of_realm)
    return found


class Reader:
    """Opens the events of one subscription, in their order.

    If a reading task is cancelled while an event is being opened, the next reading task gets that event.
    """

    def __init__(self, filter: Filter, ring: object) -> None:
        if not hasattr(ring, "open") or not hasattr(ring, "realm"):
            raise ArgumentInvalid(f"unseal={ring!r:.80}", hint="give a ring of plait_keyserver.Membership")
        self._ring = cast("Unsealing", ring)
        filter.check_satisfiable()  # brokers see a weaker filter, and could not tell
        self._filter = filter
        self._unfinished: deque[tuple[Event, asyncio.Future[Opened]]] = deque()
        self._declined: dict[EventId, Opened] = {}

    @property
    def routed(self) -> Filter:
        """The filter that brokers route by."""
        return routed(self._filter, self._ring.realm)

    @property
    def deposit(self) -> bytes:
        """The routing tokens with which brokers test tags."""
        return self._ring.deposit

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` whenever the ring's keys change. Return a function that ends this."""
        watchers = self._ring.watchers
        watchers.append(changed)
        return lambda: watchers.remove(changed) if changed in watchers else None

    def change(self, filter: Filter) -> Filter:
        """Replace the filter. Return the new filter that brokers route by."""
        filter.check_satisfiable()
        self._filter = filter
        return self.routed

    @property
    def waiting(self) -> bool:
        """Whether an event was taken and not delivered yet."""
        return bool(self._unfinished)

    def begin(self, event: Event) -> None:
        """Start to open an event that was taken."""
        opening: asyncio.Future[Opened] = asyncio.ensure_future(self._open(event))
        opening.add_done_callback(_noticed)
        self._unfinished.append((event, opening))

    async def finish(self) -> tuple[Event, UnsealedEvent | str]:
        """Wait for the oldest event that is being opened. Return the event with its opened form, or with the reason
        why it does not open. The reason is "" when the event does not match the subscription."""
        event, opening = self._unfinished.popleft()
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._unfinished.appendleft((event, opening))
            raise
        except Exception as error:
            from plait_crypto import Unopenable

            if not isinstance(error, Unopenable):
                raise
            return event, "" if error.why == "not_covered" else error.why
        if not self._filter.matches(opened.attributes):
            return event, ""
        return event, UnsealedEvent(event._arrival, event._source, opened)

    def decline(self, event: Event) -> None:
        """Keep the opened form of an event that will be delivered again."""
        if isinstance(event, UnsealedEvent) and len(self._declined) < DECLINED_MAX:
            self._declined[event.id] = event.opened

    def cancel(self) -> None:
        """Cancel all opening: the subscription has ended."""
        while self._unfinished:
            self._unfinished.popleft()[1].cancel()
        self._declined.clear()

    async def _open(self, event: Event) -> Opened:
        if (opened := self._declined.pop(event.id, None)) is not None:
            return opened
        clear = {name: value for name, value in event.items() if name != SEALED}
        return await self._ring.open(clear, event.payload, _bound(event.publisher))


class UnsealedEvent(Event):
    """A sealed event after opening. Its attributes and payload are those that the publisher sealed."""

    __slots__ = ("opened",)

    def __init__(self, arrival: Arrival, source: Source, opened: Opened) -> None:
        super().__init__(arrival, source)
        self.opened = opened

    def __getitem__(self, name: str) -> Value:
        return self.opened.attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.opened.attributes)

    def __len__(self) -> int:
        return len(self.opened.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.opened.attributes

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute's value, or `default` when the event does not have the attribute."""
        return self.opened.attributes.get(name, default)

    @property
    def payload(self) -> bytes:
        """The payload, which brokers could not read."""
        return self.opened.payload

    @property
    def verified(self) -> Verified:
        """The signer."""
        opened = self.opened
        named = tuple((name, each.label.decode(errors="replace")) for name, each in opened.credentials)
        return Verified(opened.publisher, opened.epoch, named)


def _relaxed(expr: Expr) -> Expr:
    """Relax each atom to "or the attribute is absent". The result is never false where `expr` may hold on hidden
    attributes."""
    match expr:
        case Conjunction(parts, column):
            return conjoin([_relaxed(part) for part in parts], column)
        case Or(parts, column):
            return disjoin([_relaxed(part) for part in parts], column)
        case Not(part):
            return _relaxed(push_not(part))
        case Constant() | Presence(_, False):
            return expr
        case Presence(_, True):
            return Constant(True)
    return disjoin([expr, Presence(expr.attr, False)])


def _bound(publisher: int) -> bytes:
    """Return the bytes that bind a sealed payload to its publisher, so that no other client can publish it."""
    return publisher.to_bytes(8, "big")


def _noticed(opening: asyncio.Future[Opened]) -> None:
    """Mark the outcome as retrieved: after the end of the subscription no task waits for it."""
    if not opening.cancelled():
        opening.exception()
