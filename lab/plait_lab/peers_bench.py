"""Two live peers beside Zenoh's and ZeroMQ's, in turn on the same machine: how many events a second, how late.

What each event costs the one who hears it, by the processor's clock, is told as well: it says more on a busy machine.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Final

from .groups import Group, Session
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


def _whole(key: str, count: int, rate: float = 0.0) -> Heard:
    heard = measured(key, count, rate)
    if heard.lost:
        raise RuntimeError(f"{PAIRS[key]().title} lost {heard.lost} of {count} events")
    return heard


def _figure(measure: str, field: str, unit: str, heard: dict[str, Heard], target: Target | None) -> Figure:
    beside = {PAIRS[key]().title: float(getattr(each, field)) for key, each in heard.items() if key != "plait"}
    return Figure(measure, float(getattr(heard["plait"], field)), unit, target, beside)


GROUP = Group("peers", "Two live peers", figures)
