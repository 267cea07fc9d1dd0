"""Wide overlays: what up to 1,000 brokers cost one of them.

One production broker's overlay runs; the others are links, keys and documents (`wide/`). Time is virtual. What is
measured is the processor time of the one that runs, and the memory of the filters that others have installed there.

Full lanes run in a simulated overlay of production brokers, on virtual time. Their figures depend neither on the
machine nor on the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from ..simulation.overlay.worlds.full_lanes import (
    BESIDE_RATIO,
    BESIDE_S,
    CONTROL_RATIO,
    CONTROL_S,
    COPIES_MAX,
    GOODPUT_MIN,
    LOAD_S,
    LOADS,
    FullLane,
    LaneReport,
    LanesBeside,
)
from .groups import Group, Session
from .reports import Figure, Target
from .wide.group_costs import LONE_RATE, group_cost
from .wide.installing import turns_ms
from .wide.remote_filters import measure_memory
from .wide.stream_acks import ack_cost
from .wide.wide_root import WideRoot


def wide_figures(session: Session) -> Iterator[Figure]:
    """Yield all figures of wide overlays."""
    yield from _acks(session)
    yield from _groups(session)
    yield from _installing(session)
    yield from _routing(session)
    yield from _remote_filters(session)
    yield from _full_lanes(session)
    yield from _lanes_beside(session)


GROUP = Group("wide", "Wide overlays: up to 1,000 brokers, as they cost one of them, and full lanes", wide_figures)


def _acks(session: Session) -> Iterator[Figure]:
    for destinations, core_max in ((session.size(300, 30), 4), (session.size(1000, 60), 6)):
        session.progress(f"acks of {destinations:,} destinations")
        cost = ack_cost(session.seed, destinations, session.size(20, 2) / 10)
        yield Figure(
            f"acks of {destinations:,} destinations, 2,000 events/s: processor of the publisher's broker",
            100 * cost.core, "% of a core", Target("<=", core_max),
            {"acks/s": cost.acks_per_s, "us an ack": 1e6 * cost.core / cost.acks_per_s},
        )  # fmt: skip


def _groups(session: Session) -> Iterator[Figure]:
    destinations = session.size(1000, 80)  # more than `destinations_max`
    session.progress(f"events for {destinations:,} brokers in a stream group")
    seconds = session.size(20, 2) / 10
    costs = {burst: group_cost(session.seed, destinations, seconds, burst=burst) for burst in (1, 2, 8)}
    lone = group_cost(session.seed, destinations, seconds / 2, burst=1, rate=LONE_RATE)
    label = f"publish to {destinations:,} brokers"
    for burst, cost in costs.items():
        yield Figure(
            f"{label}, 2,000 events/s, {burst} a turn: processor of the publisher's broker",
            1e6 * cost.publish_s, "us", Target("<=", 60),
        )  # fmt: skip
    for burst, cost in costs.items():
        yield Figure(
            f"{label}, 2,000 events/s, {burst} a turn: bytes on its links above the event",
            cost.bytes, "bytes", Target("<=", 400),
        )  # fmt: skip
    yield Figure(f"{label}, a lone event: processor of the publisher's broker", 1e6 * lone.publish_s, "us")
    yield Figure(f"{label}, a lone event: bytes on its links above the event", lone.bytes, "bytes")
    yield Figure(
        f"acks of a stream group of {destinations:,}, 2,000 events/s: processor of the publisher's broker",
        100 * costs[8].acks_core, "% of a core", Target("<=", 6),
    )  # fmt: skip


def _installing(session: Session) -> Iterator[Figure]:
    brokers, filters = session.size(300, 20), session.size(10_000, 300)
    session.progress(f"{filters:,} filters that are being installed at {brokers:,} brokers")
    idle_ms, ack_ms, longest_ms = turns_ms(session.seed, brokers, filters)
    yield Figure(
        f"{filters:,} filters being installed at {brokers:,} brokers: interest, a turn with an ack",
        ack_ms, "ms", Target("<=", 1), {"a turn with nothing": idle_ms, "longest, thousands installed": longest_ms},
    )  # fmt: skip


def _routing(session: Session) -> Iterator[Figure]:
    brokers, links = session.size(1000, 60), session.size(3000, 180)
    session.progress(f"changes of the map among {brokers:,} brokers")
    root = WideRoot(session.seed, brokers, links)
    changes = [root.change_delay() for _ in range(session.size(20, 3))]
    first_ms, all_ms = (1e3 * median(times) for times in zip(*changes, strict=True))
    yield Figure(
        f"{brokers:,} brokers, {links:,} links: a delay changes, until the first event takes the new path",
        first_ms, "ms", Target("<=", 15), {"until the next hops of all are known": all_ms},
    )  # fmt: skip


def _remote_filters(session: Session) -> Iterator[Figure]:
    filters = session.size(1_000_000, 20_000)
    label = f"{filters:,} remote filters at one publisher's broker"
    session.progress(label)
    bands, names = measure_memory("bands", filters), measure_memory("names", filters)
    beside = {
        "right after loading": bands.loaded_mb, "most while loading": bands.most_mb,
        "one name in each filter": names.settled_mb, "most while loading these": names.most_mb,
    }  # fmt: skip
    yield Figure(f"{label}: growth of the process", bands.settled_mb, "MB", Target("<=", 400), beside)
    yield Figure(
        f"{label}: to install one", bands.install_us, "us", Target("<=", 60), {"with one name": names.install_us}
    )


def _full_lanes(session: Session) -> Iterator[Figure]:
    for_s = session.size(round(LOAD_S), 5)
    session.progress(f"a bare lane for {for_s} s of virtual time")
    bare = FullLane().measure(0.0, for_s)
    for load in LOADS:
        session.progress(f"a lane offered {load} times its capacity for {for_s} s of virtual time")
        yield from _full_lane(f"a lane offered {load} times its capacity for {for_s} s", load, bare, for_s)


def _full_lane(label: str, load: float, bare: LaneReport, for_s: float) -> Iterator[Figure]:
    full = FullLane().measure(load, for_s)
    yield Figure(f"{label}: links declared dead", full.links_dead, "links", Target("<=", 0))
    yield Figure(f"{label}: copies an event", full.copies, "copies", Target("<=", COPIES_MAX))
    yield Figure(
        f"{label}: goodput", 100 * full.goodput, "% of its capacity", Target(">=", 100 * GOODPUT_MIN),
        {"offered": 100 * load},
    )  # fmt: skip
    yield Figure(
        f"{label}: delay of a keepalive, p99", 1e3 * full.ping_s, "ms",
        Target("<=", 1e3 * (CONTROL_RATIO * bare.ping_s + CONTROL_S)), {"the bare lane": 1e3 * bare.ping_s},
    )  # fmt: skip


def _lanes_beside(session: Session) -> Iterator[Figure]:
    for_s = session.size(round(BESIDE_S), 5)
    session.progress("the lanes of four neighbours, one of them full")
    idle = LanesBeside().measure(0.0, for_s)
    for load in LOADS:
        reached = LanesBeside().measure(load, for_s)
        yield Figure(
            f"one of four neighbours' lanes is offered {load} times its capacity: events over the others, p99",
            1e3 * reached, "ms", Target("<=", 1e3 * BESIDE_RATIO * idle), {"it is idle": 1e3 * idle},
        )  # fmt: skip
