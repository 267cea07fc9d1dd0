"""Bugs planted one at a time, to show that the simulator detects them (SCORECARD H1).

Each replaces a method of a production object, with a change as small as a careless edit. A simulator that misses one of
them in a thousand seeds cannot be trusted about others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final
from zlib import crc32

from plait.protocol.subscription_state import SubscriptionState as Handle
from plait_broker import broker
from plait_broker.clients.client_reports import ClientReports
from plait_broker.clients.client_requests import ClientRequests
from plait_broker.clients.confirmations import Confirmations
from plait_broker.clients.connection import Connection
from plait_broker.clients.delivery import Deliveries
from plait_broker.clients.delivery_figures import DeliveryFigures
from plait_broker.clients.delivery_queue import DeliveryQueue, Queued
from plait_broker.clients.durable.durable_delivery import DurableDelivery
from plait_broker.clients.durable.durable_requests import DurableRequests
from plait_broker.clients.durable.durable_subscriptions import DurableSubscriptions
from plait_broker.clients.sessions import DurableSubscription, Session, Subscription
from plait_broker.clients.subscriptions import Subscriptions
from plait_broker.pipeline.admission import Admission
from plait_broker.pipeline.subscription_index import SubscriptionIndex
from plait_core.duplicates import DuplicateWindow, Sighting
from plait_core.wire import EventFrame
from plait_core.wire.frame_header import DELIVER, PREFIX, PREFIX_BYTES
from plait_core.wire.frame_types.session_frames import CONFIRM, Unsubscribe

Patch = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Maps the correct method to the faulty one."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug: the method and its replacement."""

    owner: type | ModuleType
    method: str
    patch: Patch
    scenario: str = "any"
    """The scenario in which it shows."""

    @contextmanager
    def plant(self) -> Iterator[None]:
        """Install the bug in the production code for the duration of a block."""
        right = getattr(self.owner, self.method)
        bug = self.patch(right)
        _check_signature(right, bug)
        setattr(self.owner, self.method, bug)
        try:
            yield
        finally:
            setattr(self.owner, self.method, right)


def _check_signature(right: Callable[..., Any], bug: Callable[..., Any]) -> None:
    """Raise TypeError if the signatures differ: every call would then fail, which would look like a detection."""
    values = inspect.signature(right).parameters.values()
    names = [value for value in values if value.kind in (value.POSITIONAL_ONLY, value.POSITIONAL_OR_KEYWORD)]
    keywords = {value.name: None for value in values if value.kind is value.KEYWORD_ONLY}
    inspect.signature(bug).bind(*names, **keywords)


def _accept_duplicates(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, publisher, sequence: Sighting.NEW


def _drop_one_in(count: int) -> Patch:
    def patch(right: Callable[..., Any]) -> Callable[..., Any]:
        def write(
            self: Deliveries, connection: Connection, session: Session, frame: EventFrame, *arguments: Any
        ) -> None:
            if crc32(frame.block, session.id & 0xFFFFFFFF) % count:
                right(self, connection, session, frame, *arguments)

        return write

    return patch


def _pop_newest(right: Callable[..., Any]) -> Callable[..., Any]:
    def pop(self: DeliveryQueue) -> Any:
        for lane in self._lanes.values():
            if lane:
                return self._taken(lane, lane.pop())
        return None

    return pop


def _swap_deliveries(right: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: Connection, now: float) -> Any:
        send = right(self, now)
        if send is not None:
            send.chunks[-1] = _last_two_swapped(send.chunks[-1])
        return send

    return take


def _last_two_swapped(data: bytes) -> bytes:
    """Return whole frames with the last two swapped if both are deliveries."""
    frames, at = [], 0
    while at < len(data):
        size = PREFIX.unpack_from(data, at)[0] + PREFIX_BYTES
        frames.append(data[at : at + size])
        at += size
    if len(frames) >= 2 and all(PREFIX.unpack_from(frame)[2] == DELIVER for frame in frames[-2:]):
        frames[-2:] = reversed(frames[-2:])
    return b"".join(frames)


def _confirm_before_stored(right: Callable[..., Any]) -> Callable[..., Any]:
    def begin(self: Confirmations, publisher: int, sequence: int, matched: int, parties: set[Any], now: float) -> None:
        right(self, publisher, sequence, matched, {party for party in parties if party[0] != -1}, now)

    return begin


def _no_limit(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, entry, room: None


def _ignore_unsubscribe(right: Callable[..., Any]) -> Callable[..., Any]:
    def unsubscribe(self: ClientRequests, session: Session, frame: Unsubscribe, now: float) -> Any:
        subscription = session.subscriptions.get(frame.subscription)
        if subscription is None or subscription.durable is not None:
            return right(self, session, frame, now)
        return True

    return unsubscribe


def _ignore_permissions(right: Callable[..., Any]) -> Callable[..., Any]:
    def offer(self: DurableDelivery, durable: DurableSubscription, *arguments: Any, **named: Any) -> None:
        assert durable.subscription is not None
        session = durable.subscription.session
        before, session.subscribe_open = session.subscribe_open, True
        right(self, durable, *arguments, **named)
        session.subscribe_open = before

    return offer


def _forget_cursors(right: Callable[..., Any]) -> Callable[..., Any]:
    def recover(recovered: Any, interest: Any, durables: DurableSubscriptions, *others: Any) -> None:
        right(recovered, interest, durables, *others)
        for durable in durables.all():
            durable.acknowledged = durables.stored
            durable.beyond.clear()

    return recover


def _advance_too_far(right: Callable[..., Any]) -> Callable[..., Any]:
    def advance(self: DurableSubscription, sent_up_to: int) -> None:
        right(self, sent_up_to)
        self.acknowledged += 1 if self.in_flight else 0

    return advance


def _undercount_deliveries(right: Callable[..., Any]) -> Callable[..., Any]:
    def write(self: Deliveries, connection: Connection, session: Session, *arguments: Any) -> None:
        right(self, connection, session, *arguments)
        session.delivered -= 1

    return write


def _close_without_notice(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, subscription, reason, now: self.end(subscription, reason, now)


def _do_nothing(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *arguments: None


def _no_notices(right: Callable[..., Any]) -> Callable[..., Any]:
    def take_notices(self: Subscription) -> list[Any]:
        right(self)
        return []

    return take_notices


def _deliver_expired(right: Callable[..., Any]) -> Callable[..., Any]:
    def write_queued(
        self: Deliveries, connection: Connection, subscription: Subscription, entry: Queued, now: float
    ) -> None:
        delay_us = entry.delay_us + round((now - entry.arrived) * 1_000_000)
        if not 0 < entry.frame.lifetime_us < delay_us:
            right(self, connection, subscription, entry, now)
            return
        subscription.delivered += 1
        delivery = (subscription.id, CONFIRM if entry.token else 0, entry.token)
        self._write(connection, subscription.session, entry.frame, delay_us, (delivery,))

    return write_queued


def _acknowledge_unstored(right: Callable[..., Any]) -> Callable[..., Any]:
    def lost(self: DurableDelivery, entries: Any, matched: Any, error: str) -> None:
        self._counters.dropped.clear()
        for entry in entries:
            self._confirmations.acknowledge((-1, entry.position))

    return lost


def _done_overtakes(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, frame, *, behind=False: right(self, frame)


def _fail_silently(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, party, code, why="": self.acknowledge(party)


def _keep_positions(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *, log_changed=False: right(self)


def _keep_old_index(right: Callable[..., Any]) -> Callable[..., Any]:
    def change(self: SubscriptionIndex, party: Any, filter: Any, routing: bytes) -> None:
        party.filter = filter

    return change


def _ignore_window(right: Callable[..., Any]) -> Callable[..., Any]:
    def takes(self: DurableDelivery, durable: DurableSubscription) -> bool:
        subscription = durable.subscription
        return subscription is not None and subscription.session.connection is not None

    return takes


def _lose_the_place(right: Callable[..., Any]) -> Callable[..., Any]:
    def take_over(self: DurableRequests, durable: DurableSubscription, *arguments: Any) -> None:
        right(self, durable, *arguments)
        durable.move_to(self._durables.stored)

    return take_over


def _forget_earlier_filters(right: Callable[..., Any]) -> Callable[..., Any]:
    def recover(recovered: Any, interest: Any, durables: DurableSubscriptions, *others: Any) -> None:
        right(recovered, interest, durables, *others)
        for durable in durables.all():
            durable.earlier.clear()

    return recover


def _forget_totals(right: Callable[..., Any]) -> Callable[..., Any]:
    def drop(
        self: ClientReports, subscription: Subscription, figures: DeliveryFigures, source: Any, *arguments: Any
    ) -> None:
        right(self, subscription, figures, source, *arguments)
        figures.lines.pop(source, None)

    return drop


PLANTED: Final[dict[str, Planted]] = {
    "skip_duplicates": Planted(DuplicateWindow, "see", _accept_duplicates),
    "drop_one_in_10000": Planted(Deliveries, "_write", _drop_one_in(10_000)),
    "queue_last_first": Planted(DeliveryQueue, "pop", _pop_newest),
    "swap_deliveries": Planted(Connection, "take", _swap_deliveries),
    "confirm_before_stored": Planted(Confirmations, "begin", _confirm_before_stored),
    "ignore_outbox_limit": Planted(DeliveryQueue, "_no_room", _no_limit),
    "deliver_after_unsubscribe": Planted(ClientRequests, "_unsubscribe", _ignore_unsubscribe),
    "skip_permissions_on_replay": Planted(DurableDelivery, "_deliver", _ignore_permissions),
    "forget_cursors_on_restart": Planted(broker, "recover", _forget_cursors),
    "advance_the_cursor_too_far": Planted(DurableSubscription, "advance", _advance_too_far),
    "no_rewind_on_resume": Planted(DurableSubscriptions, "rewind", _do_nothing),
    "hide_losses_of_a_resume": Planted(Deliveries, "_write", _undercount_deliveries),
    "drop_without_notice": Planted(Subscription, "take_notices", _no_notices),
    "deliver_expired": Planted(Deliveries, "_write_queued", _deliver_expired),
    "confirm_unstored_events": Planted(DurableDelivery, "lost", _acknowledge_unstored),
    "done_overtakes_deliveries": Planted(Connection, "send", _done_overtakes),
    "confirm_dropped_events": Planted(Confirmations, "fail", _fail_silently),
    "keep_the_old_filter": Planted(SubscriptionIndex, "change", _keep_old_index),
    "ignore_durable_window": Planted(DurableDelivery, "_takes_delivery", _ignore_window),
    "forget_refusals": Planted(Admission, "remember", _do_nothing),
    "count_reports_twice": Planted(ClientReports, "_drop", _forget_totals),
    "close_without_notice": Planted(Subscriptions, "close_full", _close_without_notice),
    "lose_the_place_in_a_take_over": Planted(DurableRequests, "_take_over", _lose_the_place, "durables"),
    "forget_the_filter_before": Planted(DurableSubscription, "remember_filter", _do_nothing, "durables"),
    "forget_earlier_filters_on_restart": Planted(broker, "recover", _forget_earlier_filters, "durables"),
    "keep_positions_of_a_lost_log": Planted(Handle, "new_session", _keep_positions, "lost log"),
}
"""Every bug, by name."""


def planted(name: str) -> AbstractContextManager[None]:
    """Plant a bug by its name."""
    return PLANTED[name].plant()
