"""Audit of the demo's record: compares the deliveries with the filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .record import Record, Subscriber


def find_faults(record: Record) -> list[str]:
    """Return a line for each fault; an empty list if there is none."""
    found = [fault for subscriber in record.subscribers for fault in _faults_of(record, subscriber)]
    unconfirmed = sum(not event.confirmed for event in record.published.values())
    if unconfirmed:  # the feeds' own brokers were not killed, and all brokers are back
        found.append(f"{unconfirmed} of {len(record.published)} events were never confirmed")
    if not record.rerouted:
        found.append("events did not leave the slowed link")
    return found


def _faults_of(record: Record, subscriber: Subscriber) -> list[str]:
    listener, received = subscriber.listener, set(subscriber.received)
    name, matched = listener.name, set(record.matched(listener))
    found = []
    if subscriber.repeated:
        found.append(f"{name} got {subscriber.repeated} events twice")
    if false := received - matched:
        found.append(f"{name} got {len(false)} events that do not match its filter")
    if listener.durable:
        confirmed = {id for id in matched if record.published[id].confirmed}
        if lost := confirmed - received:
            found.append(f"{name} is durable and lost {len(lost)} of {len(confirmed)} confirmed events")
    before = set(record.matched(listener, "calm", "slow"))
    if (unknown := len(before - received) - subscriber.dropped_before) > 0:
        found.append(f"{name} did not get {unknown} of {len(before)} events before the crash, without a notice")
    dropped = subscriber.subscription.stats.dropped
    if listener.loses_its_broker:
        exact = set(record.matched(listener, "calm", "slow", "after"))
        if not dropped and (missing := exact - received):
            found.append(f"{name} did not get {len(missing)} of {len(exact)} events outside the crash")
    else:  # its own broker was not killed, so it gets all confirmed events
        due = {key for key in matched if record.published[key].confirmed}
        if (unknown := len(due - received) - dropped) > 0:
            found.append(f"{name} did not get {unknown} of {len(due)} confirmed events, without a notice")
    return found
