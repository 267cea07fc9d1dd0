"""Two live peers beside Zenoh's and ZeroMQ's, and beside peers with plain links, in turn: events a second and delay.
Then twenty peers: start, loss, repair.

The subscriber's processor time for an event is listed, too, since it is meaningful on a busy machine. A trial without a
measurement is repeated. A figure whose trials all failed is shown as failed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from ..attempts import Attempts
from .groups import Group, Session
from .measurement.peers import group
from .measurement.peers.pairs import PAIRS, PairResult, measured_pair
from .reports import Figure, Target

MODULES: Final = {"zenoh": "zenoh", "zeromq": "zmq"}
ENCRYPTED_AND_PLAIN: Final = ("plait", "plain")
ROUNDS: Final = 3
RATE: Final = 1000.0


def peers_figures(session: Session) -> Iterator[Figure]:
    """Yield all figures of peers."""
    pairs = [key for key in PAIRS if key not in MODULES or importlib.util.find_spec(MODULES[key]) is not None]
    for missing in PAIRS.keys() - set(pairs):
        session.progress(f"{missing} left out: pip install {'eclipse-zenoh' if missing == 'zenoh' else 'pyzmq'}")
    count, few = session.size(200_000, 2_000), session.size(5_000, 500)
    titles = {key: PAIRS[key]().title for key in pairs}
    attempts = Attempts(session.progress, {titles[key] for key in pairs if key in MODULES})
    fast: dict[str, PairResult | None] = dict.fromkeys(pairs)
    for turn in range(session.size(ROUNDS, 1)):
        for key in pairs:
            session.progress(f"round {turn + 1}: {titles[key]}")
            result = attempts.measure(titles[key], "two peers", partial(measured_pair, key, count))
            best = fast[key]
            if result is not None and (best is None or result.events_per_s > best.events_per_s):
                fast[key] = result
    late: dict[str, PairResult | None] = dict.fromkeys(pairs)
    for turn in range(session.size(ROUNDS, 1)):
        for key in pairs if turn == 0 else ENCRYPTED_AND_PLAIN:
            session.progress(f"at {RATE:g}/s: {titles[key]}")
            result = attempts.measure(titles[key], f"at {RATE:g}/s", partial(measured_pair, key, few, RATE))
            best = late[key]
            if result is not None and (best is None or result.p50_us < best.p50_us):
                late[key] = result
    yield _figure(
        "two peers, events of 128 bytes, the best of three", "events_per_s", "/s", fast, Target(">=", 150_000)
    )
    yield _figure("the same: processor time of the subscriber, an event", "cpu_us", "us", fast, None)
    yield _figure("two peers at 1,000/s, delay p50", "p50_us", "us", late, Target("<=", 150))
    yield _figure("two peers at 1,000/s, delay p99", "p99_us", "us", late, None)
    yield from _encryption(fast, late)
    yield from _twenty(session, attempts)
    yield from attempts.figures()


def _encryption(fast: dict[str, PairResult | None], late: dict[str, PairResult | None]) -> Iterator[Figure]:
    """Compare encrypted links with plain ones of the same run."""
    encrypted, plain = fast["plait"], fast["plain"]
    share = None if encrypted is None or plain is None else 100 * encrypted.events_per_s / plain.events_per_s
    yield Figure("encrypted links: share of the plain links' events a second", share, "%", Target(">=", 80))
    encrypted, plain = late["plait"], late["plain"]
    more_us = None if encrypted is None or plain is None else encrypted.p50_us - plain.p50_us
    yield Figure("encrypted links at 1,000/s: p50 above that of plain links", more_us, "us", Target("<=", 20))


def _twenty(session: Session, attempts: Attempts) -> Iterator[Figure]:
    """Measure a publisher and nineteen subscribers, with at most three children each."""
    subscribers, seconds, rate = session.size(19, 5), session.size(10, 2), session.size(2000, 100)
    session.progress(f"{subscribers + 1} peers at {rate}/s")
    what = f"{subscribers + 1} peers"
    outcome = attempts.measure(PAIRS["plait"]().title, what, lambda: group.measured_group(subscribers, seconds, rate))

    def figure(measure: str, value: Callable[[group.GroupOutcome], float], unit: str, target: Target) -> Figure:
        return Figure(measure, None if outcome is None else value(outcome), unit, target)

    cold = f"{subscribers + 1} peer processes, from cold to subscribed"
    within = Target("<=", 2)
    several = f"1 -> {subscribers} at {rate:,}/s of 128 bytes"
    yield figure(cold, lambda one: one.cold_s, "s", Target("<=", 10))
    yield figure(f"{several}: not received", lambda one: one.lost, "", Target("<=", 0))
    yield figure("the same, and through two deaths: received twice", lambda one: one.duplicates, "", Target("<=", 0))
    yield figure("an inner peer is killed: all receive everything after", lambda one: one.killed_s, "s", within)
    yield figure("an inner peer is stopped: all receive everything after", lambda one: one.stopped_s, "s", within)
    killed = "events confirmed by all subscribers while one is killed"
    yield figure(killed, lambda one: one.confirmed, "", Target(">=", rate))
    yield figure(f"{killed}: not received", lambda one: one.confirmed_lost, "", Target("<=", 0))


def _figure(measure: str, field: str, unit: str, result: dict[str, PairResult | None], target: Target | None) -> Figure:
    values = {PAIRS[key]().title: None if one is None else float(getattr(one, field)) for key, one in result.items()}
    return Figure(measure, values.pop(PAIRS["plait"]().title), unit, target, values)


GROUP = Group("peers", "Two live peers", peers_figures)
