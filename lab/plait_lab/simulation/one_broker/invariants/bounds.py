"""Invariant I9: a broker's queues, windows and tables stay within its settings. Checked during a run."""

from __future__ import annotations

from collections.abc import Sequence

from plait_broker import Broker
from plait_broker.clients.connection import BURST_BYTES_MAX
from plait_broker.clients.durable.durable_subscriptions import entry_of
from plait_broker.clients.sessions import Session
from plait_broker.outputs import LogRecord
from plait_core.limits import FRAME_BYTES_MAX


class BoundExceeded(AssertionError):
    """A queue, window or table exceeds its limit."""


def check_bounds(broker: Broker) -> None:
    """Raise BoundExceeded unless every queue, window and table is within its bound."""
    settings = broker.settings
    sessions = broker.sessions.all()
    _hold(len(sessions) <= settings.sessions_max, f"{len(sessions)} sessions")
    _hold(len(broker.interest) <= settings.subscriptions_max, f"{len(broker.interest)} subscriptions")
    for session in sessions:
        _check_session(broker, session)
        pending = broker.confirmations.pending(session.publisher)
        _hold(pending <= settings.unconfirmed_max, f"{pending} unconfirmed events of one publisher")
    for durable in broker.durables.all():
        _hold(durable.pending <= settings.durable_window, f"{durable.name}: {durable.pending} above its place")
        _hold(not durable.in_flight & durable.beyond, f"{durable.name}: in flight and settled at once")


def check_backlogs(broker: Broker, records: Sequence[LogRecord]) -> None:
    """Raise BoundExceeded unless every backlog that is completely counted has the size that the log shows."""
    for durable in broker.durables.all():
        waiting = [
            record
            for record in records
            if record.position > durable.acknowledged
            and record.position not in durable.beyond
            and durable.filter_at(record.position).matches(entry_of(record).frame.attributes())
        ]
        counted = durable.backlog.events
        _hold(
            not durable.backlog.complete or counted == len(waiting),
            f"{durable.name}: {counted} events counted, {len(waiting)} wait",
        )


def _check_session(broker: Broker, session: Session) -> None:
    settings = broker.settings
    subscriptions = list(session.subscriptions.values())
    _hold(len(subscriptions) <= settings.session_subscriptions_max, f"{len(subscriptions)} subscriptions in a session")
    queued = 0
    for subscription in subscriptions:
        outbox = subscription.outbox
        queued += outbox.bytes
        items_max = min(subscription.terms.items_max, settings.outbox_items_max)
        bytes_max = min(subscription.terms.bytes_max, settings.outbox_bytes_max)
        _hold(outbox.items <= items_max, f"{outbox.items} items in an outbox of {items_max}")
        _hold(outbox.bytes <= bytes_max, f"{outbox.bytes} bytes in an outbox of {bytes_max}")
        if subscription.ending is None:
            _hold(len(subscription.awaited) <= len(broker.confirmations), "acknowledgements that nobody waits for")
    _hold(queued == session.queued_bytes, f"{session.queued_bytes} bytes counted, {queued} queued")
    _hold(queued <= settings.session_outbox_bytes_max, f"{queued} bytes queued for one client")
    if session.connection is not None:
        _hold(session.connection.data_bytes <= BURST_BYTES_MAX + FRAME_BYTES_MAX, "more than a burst of deliveries")


def _hold(condition: bool, otherwise: str) -> None:
    if not condition:
        raise BoundExceeded(otherwise)
