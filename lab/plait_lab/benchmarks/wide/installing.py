"""Turns of a broker while many of its filters are being installed at many publishers' brokers."""

from __future__ import annotations

from random import Random
from statistics import fmean
from time import thread_time

from plait_broker.overlay.interest.advertisement_table import AdvertisementTable
from plait_broker.overlay.interest.install_watch import InstallDeadlines
from plait_broker.overlay.interest.interest_sync import InterestSync
from plait_core.filters import parse
from plait_core.matching import new_index
from plait_core.wire.frame_types.overlay_frames import Advertisement

WAIT_S = 12.0
PER_TURN = 20
"""Filters that clients add in one turn."""


def turns_ms(seed: int, brokers: int, filters: int) -> tuple[float, float, float]:
    """Add filters while no broker acks, then let all brokers ack, one in a turn, up to a third of what they got.

    Return the mean processor time in milliseconds of a turn in which nothing happens, of one with an ack, and the
    longest of one with an ack.
    """
    rng = Random(f"installing/{seed}")
    sync, table, now = InterestSync(0, new_index), AdvertisementTable(0), 1.0
    for root in range(1, brokers + 1):
        advertisement = Advertisement(root, 1, 1, "x >= 0")
        filter, _ = table.learn(advertisement)
        assert filter is not None
        sync.offer(root, 1, filter)
        sync.offered(root, table.fingerprint(root))
    for number in range(1, filters + 1):
        sync.add(number, parse(f"x == {number}"), terms=InstallDeadlines(now, WAIT_S, WAIT_S / 2))
        if number % PER_TURN == 0 or number == filters:
            sync.take_updates(now, lambda root: 1000)
    assert len(sync.installing) == filters
    idle: list[float] = []
    for _ in range(100):
        began = thread_time()
        sync.take_updates(now, lambda root: 1000)
        idle.append(thread_time() - began)
    versions = {root: peer.version for root, peer in sync._peers.items()}
    steps = [(root, part) for part in (1, 2, 3) for root in versions]
    acking: list[float] = []
    for root, part in sorted(steps, key=lambda step: (step[1], rng.random())):
        now += 0.0002  # no timeout is over in all turns together
        first = sync._peers[root].acked
        version = versions[root] if part == 3 else first + max(1, (versions[root] - first) // (4 - part))
        began = thread_time()
        sync.receive_ack(root, min(version, versions[root]), table.fingerprint(root), versions[root], now)
        sync.take_updates(now, lambda root: 1000)
        acking.append(thread_time() - began)
    assert not sync.installing, "all have acked"
    assert len(sync.installed) == filters
    return 1e3 * fmean(idle), 1e3 * fmean(acking), 1e3 * max(acking)
