"""Sealed events in the SDK (thesis ch. 5): sealing before an event is numbered, opening when the application takes it.

Between publisher and subscriber a sealed event is an ordinary one. Its attributes are the clear ones and `$sealed`,
which names the realm; its payload holds the rest, headers included. Brokers route by `$sealed`, by the attributes that
the schema declares clear, and by those that a subscriber reveals. The `Reader` evaluates the whole filter after
opening. Key rings come from `plait_keyserver.Membership`. `plait_crypto` is imported only when a ring is used.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from plait_core import Attributes, EventId, EventInvalid, Filter, FilterTooComplex, Value
from plait_core.filters.ast import And as Conjunction
from plait_core.filters.ast import Compare, Constant, Expr, Not, Or, Presence, conjoin, disjoin, push_not
from plait_core.sealed_opening import SEALED
from plait_core.values import REPLY, is_name

from .errors import ArgumentInvalid
from .event import Event, Source, Verified, moment
from .options.conversion import event_parts, plain_attributes
from .options.rings import Seal, SealingSession, Unsealing
from .options.settings import DepositKind
from .options.validation import checked_payload
from .protocol.session_holes import SessionHoles
from .protocol.subscription_state import Arrival

if TYPE_CHECKING:
    from plait_crypto import Draft, Opened, Realm

    from .options.keyword_options import SubscribeOptions

DEPOSITS: Final = ("exact", "coarse", "nothing")
"""The tokens that a subscription may give brokers, to test tags with."""

DECLINED_MAX: Final = 1024
"""Opened events that wait to be delivered again after `nak`. They are kept because a ring opens nothing twice."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The rest of an event that is sealed, beside attributes and payload."""

    lifetime_us: int
    priority: int
    headers: Mapping[str, str]


def drafted(seal: object, event: object, payload: bytes, publisher: int) -> tuple[Draft, Attributes]:
    """Return an event to seal, and the attribute by which brokers route it if it is a reply."""
    if not isinstance(seal, Seal):
        raise ArgumentInvalid(f"seal={seal!r:.80}", hint="give a plait.Seal")
    from plait_crypto import Draft

    parts, payload = event_parts(event, payload)
    attributes = dict(plain_attributes(parts))
    if SEALED in attributes:
        raise EventInvalid(f"{SEALED} is Plait's own")
    reply = {REPLY: attributes.pop(REPLY)} if REPLY in attributes else {}
    hidden = _hidden(seal, attributes)
    bound = _bound(publisher)
    return Draft(attributes, checked_payload(payload), hidden=hidden, bound=bound, session=seal.session), reply


def sealed(
    session: SealingSession, draft: Draft, reply: Attributes, metadata: Metadata
) -> tuple[Attributes, bytes] | None:
    """Seal an event at once. Return the attributes and the payload that are sent, or None if the session has ended."""
    from plait_crypto import Metadata as SealedMetadata

    told = SealedMetadata(0, metadata.lifetime_us, metadata.priority, metadata.headers)
    found = session.seal(replace(draft, metadata=told))
    if found is None:
        return None
    clear, parcel = found
    return {**clear, **reply, SEALED: session.realm.short_name.hex()}, parcel


def _hidden(seal: Seal, attributes: Attributes) -> Collection[str]:
    """Return the attributes of an event to hide. Brokers route by those that the schema declares clear."""
    clear = seal.ring.realm.schema.clear
    if seal.hidden is None:
        return [name for name in attributes if name not in clear]
    if wrong := sorted(clear.intersection(seal.hidden)):
        raise ArgumentInvalid(f"{wrong[0]} cannot be hidden", hint="the schema declares it clear: brokers route by it")
    return seal.hidden


def routed(filter: Filter, *realms: Realm, reveal: frozenset[str] = frozenset()) -> Filter:
    """Return the filter that brokers route by. It matches every sealed event of the realms that may match `filter`.

    It has conditions on attributes that the schemas declare clear, and on those in `reveal`, and no others.
    """
    of_realm = _of_realms(realms)
    clear = frozenset.intersection(*(realm.schema.clear for realm in realms))
    found = Filter(conjoin([of_realm, _relaxed(filter.expr, clear, reveal)]))
    try:
        _ = found.normal
    except FilterTooComplex:  # brokers then send more events, and the reader filters them
        return Filter(of_realm)
    return found


def reader(filter: Filter, ring: object, options: SubscribeOptions, durable: str) -> Reader:
    """Return the reader of a subscription with these options."""
    reveal, deposit = options.get("reveal", ()), options.get("deposit", "exact")
    return Reader(filter, ring, reveal=reveal, deposit=deposit, durable=durable)


async def open_reply(ring: Unsealing, reply: Event) -> Event:
    """Open the reply to a request; raise Unopenable if it is not sealed for this ring."""
    return UnsealedEvent(reply._arrival, reply._source, await _opened(ring, reply))


class Reader:
    """Opens the events of one subscription, in their order.

    If a reading task is cancelled while an event is being opened, the next reading task gets that event.
    """

    def __init__(
        self, filter: Filter, ring: object, *, reveal: object = (), deposit: object = "exact", durable: str = ""
    ) -> None:
        self._ring = usable_ring(ring)
        self._reveal = _names(reveal)
        if deposit not in DEPOSITS:
            raise ArgumentInvalid(f"deposit={deposit!r:.80}", hint=" or ".join(f'"{each}"' for each in DEPOSITS))
        self._deposit: DepositKind = deposit
        self._holes = SessionHoles()
        self.durable = bool(durable)
        """Whether brokers expect an acknowledgement of each event, and the ring keeps a record of them."""
        self._unsettled: dict[EventId, tuple[int, bytes, int, int]] = {}
        """Of a durable subscription, the events that were opened and are not acknowledged yet."""
        self._unfinished: deque[tuple[Event, asyncio.Future[Opened]]] = deque()
        self._opening: set[asyncio.Future[Opened]] = set()
        self._declined: dict[EventId, Opened] = {}
        self.change(filter)
        _ = self.deposit  # raises SealInvalid here rather than when the keys change
        if durable:
            self._ring.keep_record(durable)

    @property
    def routed(self) -> Filter:
        """The filter that brokers route by."""
        realms = self._ring.realms
        found = routed(self._filter, *realms, reveal=self._reveal)
        self._reads_all = found.text == Filter(_of_realms(realms)).text
        return found

    @property
    def deposit(self) -> bytes:
        """The routing tokens with which brokers test tags."""
        return self._ring.deposit(self._deposit)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` whenever the ring's keys change. Return a function that ends this."""
        watchers = self._ring.watchers
        watchers.append(changed)
        return lambda: watchers.remove(changed) if changed in watchers else None

    def change(self, filter: Filter) -> Filter:
        """Replace the filter. Return the new filter that brokers route by."""
        filter.check_satisfiable()  # brokers see a weaker filter, and could not tell
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
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
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
            if error.place is not None:
                self._saw(*error.place)
            return event, "" if error.why == "not_covered" else error.why
        if opened.session:
            self._saw(opened.session, opened.number)
        if self.durable:
            self._unsettled[event.id] = opened.publisher, opened.session, opened.number, opened.until_us
        if not self._filter.matches(opened.attributes):
            return event, ""
        return event, UnsealedEvent(event._arrival, event._source, opened)

    def settle(self, event: Event) -> None:
        """Record that an event is acknowledged: it is a replay if it comes again, in a later process too."""
        if (seen := self._unsettled.get(event.id)) is not None:
            self._ring.settle(*seen)
            del self._unsettled[event.id]

    def settle_up_to(self, event: Event) -> None:
        """Record that an event and all that were opened before it are acknowledged."""
        for id in list(self._unsettled) if event.id in self._unsettled else ():
            self._ring.settle(*self._unsettled[id])
            del self._unsettled[id]
            if id == event.id:
                return

    @property
    def holes(self) -> SessionHoles:
        """The numbers of sessions, with those that are missing."""
        return self._holes

    def decline(self, event: Event) -> None:
        """Keep the opened form of an event that will be delivered again."""
        if not isinstance(event, UnsealedEvent):
            return
        if len(self._declined) < DECLINED_MAX:
            self._declined[event.id] = event.opened
        elif event.opened.session:
            self._ring.forget_event(event.opened.session, event.opened.number)

    def cancel(self) -> list[asyncio.Future[Opened]]:
        """Cancel all opening: the subscription has ended. Return what is still running."""
        running = list(self._opening)
        for opening in running:
            opening.cancel()
        self._unfinished.clear()
        self._declined.clear()
        for _, session, number, _ in self._unsettled.values():  # the broker delivers them again, perhaps to this ring
            self._ring.forget_event(session, number)
        self._unsettled.clear()
        return running

    def _saw(self, session: bytes, number: int) -> None:
        if self._reads_all:  # else brokers leave out events of a session, and nobody can tell
            self._holes.saw(session, number, asyncio.get_running_loop().time())

    async def _open(self, event: Event) -> Opened:
        if (opened := self._declined.pop(event.id, None)) is not None:
            return opened
        return await _opened(self._ring, event)


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
    def headers(self) -> dict[str, str]:
        """The headers that the publisher sealed. Brokers could not read them."""
        return dict(self.opened.metadata.headers)

    @property
    def priority(self) -> int:
        """The priority that the publisher sealed."""
        return self.opened.metadata.priority

    @property
    def published_at(self) -> datetime:
        """The publication time that the publisher sealed, by its clock."""
        return moment(self.opened.metadata.published_us)

    @property
    def lifetime_left(self) -> float | None:
        """Seconds of the sealed lifetime that were left on arrival, or None without a limit.

        The delay is what brokers measured. The reader refuses an event whose sealed lifetime is over by the clock.
        """
        lifetime_us = self.opened.metadata.lifetime_us
        return (lifetime_us - self._arrival[0].delay_us) / 1_000_000 if lifetime_us else None

    @property
    def verified(self) -> Verified:
        """The signer."""
        opened = self.opened
        named = tuple((name, each.label.decode(errors="replace")) for name, each in opened.credentials)
        return Verified(opened.publisher, opened.epoch, named)


def usable_ring(ring: object) -> Unsealing:
    """Return a ring that opens; raise ArgumentInvalid for anything else."""
    if not hasattr(ring, "open") or not hasattr(ring, "realm"):
        raise ArgumentInvalid(f"unseal={ring!r:.80}", hint="give a ring of plait_keyserver.Membership")
    return cast("Unsealing", ring)


def _names(reveal: object) -> frozenset[str]:
    names = reveal if isinstance(reveal, Collection) and not isinstance(reveal, str) else [reveal]
    if names == [reveal] or not all(isinstance(name, str) and is_name(name) for name in names):
        raise ArgumentInvalid(f"reveal={reveal!r:.80}", hint='a list of attribute names: reveal=["symbol"]')
    return frozenset(names)


async def _opened(ring: Unsealing, event: Event) -> Opened:
    clear = {name: value for name, value in event.items() if name not in (SEALED, REPLY)}
    return await ring.open(clear, event.payload, _bound(event.publisher))


def _of_realms(realms: Sequence[Realm]) -> Expr:
    return disjoin([Compare(SEALED, "==", realm.short_name.hex()) for realm in realms])


def _relaxed(expr: Expr, clear: frozenset[str], reveal: frozenset[str]) -> Expr:
    """Relax each condition that brokers must not see or cannot decide. The result is never false where `expr` may hold.

    A revealed attribute may be hidden in an event all the same, so its condition becomes "or the attribute is absent".
    """
    match expr:
        case Conjunction(parts, column):
            return conjoin([_relaxed(part, clear, reveal) for part in parts], column)
        case Or(parts, column):
            return disjoin([_relaxed(part, clear, reveal) for part in parts], column)
        case Not(part):
            return _relaxed(push_not(part), clear, reveal)
        case Constant():
            return expr
    if expr.attr in clear:
        return expr
    if expr.attr not in reveal or (isinstance(expr, Presence) and expr.present):
        return Constant(True)
    return expr if isinstance(expr, Presence) else disjoin([expr, Presence(expr.attr, False)])


def _bound(publisher: int) -> bytes:
    """Return the bytes that bind a sealed payload to its publisher, so that no other client can publish it."""
    return publisher.to_bytes(8, "big")


def _noticed(opening: asyncio.Future[Opened]) -> None:
    """Mark the outcome as retrieved: after the end of the subscription no task waits for it."""
    if not opening.cancelled():
        opening.exception()
