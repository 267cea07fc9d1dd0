"""Audits the demo's books: deliveries against what the filters say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .record import Ear, Record


def faults(record: Record) -> list[str]:
    """What is not as it has to be; empty if all is well."""
    found = [fault for ear in record.ears for fault in _faults_of(record, ear)]
    unconfirmed = sum(not event.confirmed for event in record.published.values())
    if unconfirmed:  # the feeds' own brokers lived, and whoever was away is back
        found.append(f"{unconfirmed} of {len(record.published)} events were never confirmed")
    if not record.moved:
        found.append("events did not leave the slowed link")
    return found


def _faults_of(record: Record, ear: Ear) -> list[str]:
    name, heard = ear.listener.name, set(ear.heard)
    matched = set(record.matched(ear.listener))
    found = []
    if ear.repeated:
        found.append(f"{name} got {ear.repeated} events twice")
    if false := heard - matched:
        found.append(f"{name} got {len(false)} events that its filter is not true of")
    if ear.listener.durable:
        confirmed = {id for id in matched if record.published[id].confirmed}
        if lost := confirmed - heard:
            found.append(f"{name} is durable and lost {len(lost)} of {len(confirmed)} confirmed events")
    before = set(record.matched(ear.listener, "calm", "slow"))
    if (unknown := len(before - heard) - ear.dropped_before) > 0:
        found.append(f"{name} did not get {unknown} of {len(before)} events before the crash, and was not told")
    dropped = ear.subscription.stats.dropped
    if ear.listener.struck:
        exact = set(record.matched(ear.listener, "calm", "slow", "after"))
        if not dropped and (missing := exact - heard):
            found.append(f"{name} did not get {len(missing)} of {len(exact)} events outside the crash")
    else:  # its own broker lived: whatever happened elsewhere, it gets all that was confirmed
        due = {key for key in matched if record.published[key].confirmed}
        if (unknown := len(due - heard) - dropped) > 0:
            found.append(f"{name} did not get {unknown} of {len(due)} confirmed events, and was not told")
    return found
