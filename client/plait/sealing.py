"""Sealed events in the SDK (thesis ch. 5): sealed before the client numbers them, opened when a reader takes them.

On the way a sealed event is an ordinary one: its clear attributes, `$sealed` that names its realm, and the rest as its
payload. Brokers route it by what is in the clear; what of a filter is about hidden attributes is decided by the reader.
Rings come from `plait_keyserver.Membership`; nothing here imports the arithmetic until there is one.
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

from .errors import NotAvailable
from .event import Event, Source, Verified
from .options.conversion import event_parts, plain_attributes
from .protocol.subscription_state import Arrival

if TYPE_CHECKING:
    from plait_crypto import Draft, Opened, Realm

DECLINED_MAX: Final = 1024
"""Opened events that were declined and wait to be handed out again: their ring opens nothing twice."""


class Sealing(Protocol):
    """What seals: a PublisherRing."""

    @property
    def realm(self) -> Realm: ...
    async def seal(self, draft: Draft) -> tuple[Attributes, bytes]: ...


class Unsealing(Protocol):
    """What opens: a SubscriberRing."""

    @property
    def realm(self) -> Realm: ...
    @property
    def deposit(self) -> bytes: ...
    @property
    def watchers(self) -> list[Callable[[], None]]: ...
    async def open(self, clear: Attributes, payload: bytes, bound: bytes = b"") -> Opened: ...


@dataclass(frozen=True, eq=False)
class Seal:
    """How to seal an event: with whose keys, and which attributes only readers see; None hides all of them."""

    ring: Sealing
    hidden: Collection[str] | None = None


async def sealed(seal: object, event: object, payload: bytes, publisher: int) -> tuple[Attributes, bytes]:
    """Attributes and payload of the event as it travels."""
    if not isinstance(seal, Seal):
        raise NotAvailable(f"seal={seal!r:.80}", hint="give a plait.Seal")
    from plait_crypto import Draft

    parts, payload = event_parts(event, payload)
    attributes = plain_attributes(parts)
    if SEALED in attributes:
        raise EventInvalid(f"{SEALED} is Plait's own")
    draft = Draft(attributes, bytes(payload), hidden=seal.hidden, bound=_bound(publisher))
    clear, parcel = await seal.ring.seal(draft)
    return {**clear, SEALED: seal.ring.realm.short_name.hex()}, parcel


def routed(filter: Filter, realm: Realm) -> Filter:
    """What brokers route by: matches every sealed event of the realm that the filter may match, whatever is hidden."""
    of_realm = Compare(SEALED, "==", realm.short_name.hex())
    found = Filter(conjoin([of_realm, _relaxed(filter.expr)]))
    try:
        _ = found.normal
    except FilterTooComplex:  # brokers send more than is wanted, and the reader decides
        return Filter(of_realm)
    return found


class Reader:
    """Opens what one subscription takes, in its order; what a cancelled reader was waiting for goes to the next one."""

    def __init__(self, filter: Filter, ring: object) -> None:
        if not hasattr(ring, "open") or not hasattr(ring, "realm"):
            raise NotAvailable(f"unseal={ring!r:.80}", hint="give a ring of plait_keyserver.Membership")
        self._ring = cast("Unsealing", ring)
        self._filter = filter
        self._unfinished: deque[tuple[Event, asyncio.Future[Opened]]] = deque()
        self._declined: dict[EventId, Opened] = {}

    @property
    def routed(self) -> Filter:
        """What brokers route by."""
        return routed(self._filter, self._ring.realm)

    @property
    def deposit(self) -> bytes:
        """What brokers test tags with."""
        return self._ring.deposit

    def watch(self, told: Callable[[], None]) -> Callable[[], None]:
        """Be told of other keys; what ends that."""
        watchers = self._ring.watchers
        watchers.append(told)
        return lambda: watchers.remove(told) if told in watchers else None

    def change(self, filter: Filter) -> Filter:
        """Another filter from now on; what brokers route by."""
        self._filter = filter
        return self.routed

    @property
    def waiting(self) -> bool:
        """Whether an event was taken and not handed out."""
        return bool(self._unfinished)

    def begin(self, event: Event) -> None:
        """Start to open an event that was taken."""
        opening: asyncio.Future[Opened] = asyncio.ensure_future(self._open(event))
        opening.add_done_callback(_noticed)
        self._unfinished.append((event, opening))

    async def finish(self) -> tuple[Event, UnsealedEvent | str]:
        """The first that was begun: opened, or why not; empty when it is not what the subscription is about."""
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
        """An event is to be handed out again."""
        if isinstance(event, UnsealedEvent) and len(self._declined) < DECLINED_MAX:
            self._declined[event.id] = event.opened

    def cancel(self) -> None:
        """Nobody reads any more."""
        while self._unfinished:
            self._unfinished.popleft()[1].cancel()
        self._declined.clear()

    async def _open(self, event: Event) -> Opened:
        if (opened := self._declined.pop(event.id, None)) is not None:
            return opened
        clear = {name: value for name, value in event.items() if name != SEALED}
        return await self._ring.open(clear, event.payload, _bound(event.publisher))


class UnsealedEvent(Event):
    """A sealed event that was opened: attributes and payload are what its publisher sealed."""

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
        """The attribute's value, or `default` when the event does not have it."""
        return self.opened.attributes.get(name, default)

    @property
    def payload(self) -> bytes:
        """What rides along, which only readers saw."""
        return self.opened.payload

    @property
    def verified(self) -> Verified:
        """Who signed it."""
        opened = self.opened
        named = tuple((name, each.label.decode(errors="replace")) for name, each in opened.credentials)
        return Verified(opened.publisher, opened.epoch, named)


def _relaxed(expr: Expr) -> Expr:
    """Each atom, or its attribute is not there to be seen. Never false where `expr` may be true of what is hidden."""
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
    """An envelope fits events of the client that sealed it, and of no other."""
    return publisher.to_bytes(8, "big")


def _noticed(opening: asyncio.Future[Opened]) -> None:
    """Its outcome is asked for later, or by nobody when the subscription ends."""
    if not opening.cancelled():
        opening.exception()
