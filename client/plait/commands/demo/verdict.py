"""Audits the demo's books: deliveries against what the filters say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .record import Ear, Record


def faults(record: Record) -> list[str]:
    """What is not as it has to be; empty if all is well."""
    return [fault for ear in record.ears for fault in _faults_of(record, ear)]


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
    calm = set(record.matched(ear.listener, "calm"))
    if (unknown := len(calm - heard) - ear.dropped_while_calm) > 0:
        found.append(f"{name} did not get {unknown} of {len(calm)} events of the calm, and was not told")
    if not ear.subscription.stats.dropped:
        exact = set(record.matched(ear.listener, "calm", "after"))
        if missing := exact - heard:
            found.append(f"{name} did not get {len(missing)} of {len(exact)} events outside the crash")
    return found
