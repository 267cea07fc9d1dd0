"""How the costs of a publisher's broker grow with the number of brokers."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from plait_broker.server.gc_tuning import tune_collector

from ...experiments.peers.drawing import Lines, draw_figure
from ..groups import Session
from ..reports import number_text, table
from .group_costs import LONE_RATE, group_cost
from .root_memory import GROUP, measure_root
from .single_costs import single_cost
from .wide_root import WideRoot

BURST: Final = 8
"""Events of a turn, if not one."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The costs of one broker in an overlay of this size. Each name ends in its unit.

    `group`: events go to all others in a stream group. `single`: they name each destination.
    """

    brokers: int
    links: int
    group_publish_us: float
    """Processor time to publish an event to all others, of 8 in a turn."""
    group_alone_publish_us: float
    """Processor time to publish an event that shares its batch with no other."""
    single_publish_us: float
    group_bytes: float
    """Bytes on the broker's own links above the event itself, all together."""
    group_alone_bytes: float
    single_bytes: float
    group_acks_percent: float
    """Share of a core for the acks of 2,000 events/s to all others."""
    single_acks_percent: float
    next_hop_ms: float
    """Processor time from a changed delay until the next hop of the first event is known."""
    all_hops_ms: float
    """Processor time until the next hops of all are known."""
    group_memory_mb: float
    """Memory of the overlay after an event to all others."""
    single_memory_mb: float


class Panel(NamedTuple):
    """One panel of a plot."""

    title: str
    y: str
    columns: dict[str, str]
    """The column of each line, by its label."""


class Plot(NamedTuple):
    """One file."""

    title: str
    panels: tuple[Panel, ...]


TOGETHER: Final = f"stream group, {BURST} events a turn"
ALONE: Final = "stream group, a lone event"
SINGLY: Final = "single destinations"

PLOTS: Final = {
    "wide-events.png": Plot(
        "An event to all brokers: what it costs its publisher's broker",
        (
            Panel(
                "publish an event",
                "processor time, us",
                {TOGETHER: "group_publish_us", SINGLY: "single_publish_us", ALONE: "group_alone_publish_us"},
            ),
            Panel(
                "bytes on the broker's own links",
                "bytes above the event",
                {TOGETHER: "group_bytes", SINGLY: "single_bytes", ALONE: "group_alone_bytes"},
            ),
            Panel(
                "acks of 2,000 events/s",
                "share of a core, %",
                {"stream group": "group_acks_percent", SINGLY: "single_acks_percent"},
            ),
        ),
    ),
    "wide-brokers.png": Plot(
        "One broker of a wide overlay: changes of the map, and memory",
        (
            Panel(
                "the delay of a link changes",
                "processor time, ms",
                {"until the first event takes its path": "next_hop_ms", "until all paths are known": "all_hops_ms"},
            ),
            Panel(
                "memory of the overlay",
                "MB",
                {"with a stream group": "group_memory_mb", "with single destinations": "single_memory_mb"},
            ),
        ),
    ),
}


@contextmanager
def broker_collector() -> Iterator[None]:
    """Collect garbage as a broker's process does. Otherwise scans of the other brokers' objects count as its costs."""
    thresholds = gc.get_threshold()
    tune_collector()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def measure_growth(session: Session, brokers: int) -> Growth:
    """Measure an overlay of this many brokers, each with six links on average."""
    seed, others, links = session.seed, brokers - 1, 3 * (brokers - 1)
    seconds = session.size(20, 1) / 10
    session.progress(f"{brokers:,} brokers: events in a stream group")
    with broker_collector():
        group = group_cost(seed, others, seconds, burst=BURST, settings=GROUP)
    with broker_collector():
        alone = group_cost(seed, others, seconds / 2, burst=1, rate=LONE_RATE, settings=GROUP)
    session.progress(f"{brokers:,} brokers: events that name each destination")
    with broker_collector():
        single = single_cost(seed, others, seconds / 2, burst=BURST)
    session.progress(f"{brokers:,} brokers: changes of the map")
    with broker_collector():
        root = WideRoot(seed, brokers, links)
        changes = [root.change_delay() for _ in range(session.size(20, 3))]
    first_ms, all_ms = (1e3 * median(times) for times in zip(*changes, strict=True))
    session.progress(f"{brokers:,} brokers: memory of the overlay")
    return Growth(
        brokers,
        links,
        1e6 * group.publish_s,
        1e6 * alone.publish_s,
        1e6 * single.publish_s,
        group.bytes,
        alone.bytes,
        single.bytes,
        100 * group.acks_core,
        100 * single.acks_core,
        first_ms,
        all_ms,
        measure_root("group", brokers, seed),
        measure_root("single", brokers, seed),
    )


def growth_table(rows: Sequence[Growth]) -> str:
    """Return a line for each measure, and a column for each size of the overlay."""
    headings = ["brokers", *(f"{row.brokers:,}" for row in rows)]
    lines = [
        [f"{panel.title}, {label}: {panel.y}", *(number_text(getattr(row, column)) for row in rows)]
        for plot in PLOTS.values()
        for panel in plot.panels
        for label, column in panel.columns.items()
    ]
    return table(headings, lines)


def draw_growth(rows: Sequence[Growth], folder: Path) -> list[Path]:
    """Draw all plots. Return their files: none without matplotlib."""
    drawn = []
    for name, plot in PLOTS.items():
        panels = [(panel.title, "brokers", panel.y, _lines(rows, panel.columns)) for panel in plot.panels]
        if draw_figure(panels, plot.title, folder / name, logarithmic=True):
            drawn.append(folder / name)
    return drawn


def _lines(rows: Sequence[Growth], columns: dict[str, str]) -> Lines:
    values = [asdict(row) for row in rows]
    return {label: [(row["brokers"], row[column]) for row in values] for label, column in columns.items()}
