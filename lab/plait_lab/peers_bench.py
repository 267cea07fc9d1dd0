"""Two live peers beside Zenoh's and ZeroMQ's, in turn on the same machine: how many events a second, how late. Then
twenty of them: how soon they are there, what they lose, and how soon they heal.

What each event costs the one who hears it, by the processor's clock, is told as well: it says more on a busy machine.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Final

from .groups import Group, Session
from .peers import twenty
from .peers.pairs import PAIRS, Heard, measured
from .reports import Figure, Target

MODULES: Final = {"zenoh": "zenoh", "zeromq": "zmq"}
ROUNDS: Final = 3
RATE: Final = 1000.0


def figures(session: Session) -> Iterator[Figure]:
    """All of them."""
    pairs = [key for key in PAIRS if key not in MODULES or importlib.util.find_spec(MODULES[key]) is not None]
    for missing in PAIRS.keys() - set(pairs):
        session.tell(f"{missing} left out: pip install {'eclipse-zenoh' if missing == 'zenoh' else 'pyzmq'}")
    count, few = session.size(200_000, 2_000), session.size(5_000, 500)
    fast: dict[str, Heard] = {}
    for turn in range(session.size(ROUNDS, 1)):
        for key in pairs:
            session.tell(f"round {turn + 1}: {PAIRS[key]().title}")
            heard = _whole(key, count)
            if key not in fast or heard.events_per_s > fast[key].events_per_s:
                fast[key] = heard
    late: dict[str, Heard] = {}
    for key in pairs:
        session.tell(f"at {RATE:g}/s: {PAIRS[key]().title}")
        late[key] = _whole(key, few, RATE)
    yield _figure(
        "two peers, events of 128 bytes, the best of three", "events_per_s", "/s", fast, Target(">=", 150_000)
    )
    yield _figure("the same: processor time of the one who hears, an event", "cpu_us", "us", fast, None)
    yield _figure("two peers at 1,000/s, delay p50", "p50_us", "us", late, Target("<=", 150))
    yield _figure("two peers at 1,000/s, delay p99", "p99_us", "us", late, None)
    yield from _twenty(session)


def _twenty(session: Session) -> Iterator[Figure]:
    """A publisher and nineteen subscribers, three children each at most."""
    subscribers, seconds, rate = session.size(19, 5), session.size(10, 2), session.size(2000, 100)
    session.tell(f"{subscribers + 1} peers at {rate}/s")
    outcome = twenty.measured(subscribers, seconds, rate)
    several = f"1 -> {subscribers} at {rate:,}/s of 128 bytes"
    yield Figure(f"{subscribers + 1} peer processes, from cold to subscribed", outcome.cold_s, "s", Target("<=", 10))
    yield Figure(f"{several}: not heard", outcome.lost, "", Target("<=", 0))
    yield Figure("the same, and through two deaths: heard twice", outcome.twice, "", Target("<=", 0))
    yield Figure("a peer in between is killed: all hear everything after", outcome.killed_s, "s", Target("<=", 2))
    yield Figure("a peer in between is stopped: all hear everything after", outcome.stopped_s, "s", Target("<=", 2))
    killed = "events confirmed by all subscribers while one is killed"
    yield Figure(killed, outcome.confirmed, "", Target(">=", rate))
    yield Figure(f"{killed}: not heard", outcome.confirmed_lost, "", Target("<=", 0))


def _whole(key: str, count: int, rate: float = 0.0) -> Heard:
    heard = measured(key, count, rate)
    if heard.lost:
        raise RuntimeError(f"{PAIRS[key]().title} lost {heard.lost} of {count} events")
    return heard


def _figure(measure: str, field: str, unit: str, heard: dict[str, Heard], target: Target | None) -> Figure:
    beside = {PAIRS[key]().title: float(getattr(each, field)) for key, each in heard.items() if key != "plait"}
    return Figure(measure, float(getattr(heard["plait"], field)), unit, target, beside)


GROUP = Group("peers", "Two live peers", figures)
