"""Run whole overlays of up to 1,000 production brokers on virtual time: `python -m plait_lab.wide_overlay`.

`events`: one publisher, a subscriber at every broker, one link in a hundred cut meanwhile. What is lost, repeated or
out of order? `start`: a start from cold with many subscriptions, then churn. When do all brokers agree? Both write a
table to a folder, and a plot if matplotlib is installed.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from .bench import Progress
from .benchmarks.reports import machine, number_text, table
from .benchmarks.wide_overlay.cold_start import ColdStart, measure_cold_start
from .benchmarks.wide_overlay.exactly_once import Deliveries, measure_deliveries
from .experiments.peers.drawing import RESULTS, draw_figure, write_lines

BROKERS: Final = (30, 100, 300)
QUICK: Final = (30,)
BROKERS_MIN: Final = 5
BROKERS_MAX: Final = 1000
EVENTS: Final = 10_000
QUICK_EVENTS: Final = 200
SUBSCRIPTIONS_A_BROKER: Final = 1000
QUICK_SUBSCRIPTIONS: Final = 20
CHURN_S: Final = 3600.0
QUICK_CHURN_S: Final = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 1 also if something was lost, or brokers did not agree."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.into and not options.into.is_dir():
        parser.error(f"--into: there is no folder {options.into}")
    try:
        return _run(options)
    except OSError as error:
        print(f"wide_overlay: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    seed = secrets.randbits(32) if options.seed is None else options.seed
    folder = options.into or (None if options.quick else RESULTS)
    print(f"{machine()}\nseed {seed}\n", flush=True)
    sizes = options.brokers or (QUICK if options.quick else BROKERS)
    rows = _events(options, seed, sizes) if options.study == "events" else _starts(options, seed, sizes)
    values = [asdict(row) for row in rows]
    lines = [[name.replace("_", " "), *(number_text(row[name]) for row in values)] for name in values[0]]
    print(table(lines[0], lines[1:]))
    if folder is not None:
        path = folder / f"wide-overlay-{options.study}.csv"
        write_lines(values, path)
        print(f"written: {path}")
        picture = path.with_suffix(".png")
        if _draw(options.study, values, picture):
            print(f"written: {picture}")
        else:
            print("no plot: matplotlib is not installed; see `sh scripts/setup.sh --plots`")
    right = all(row.agreed if isinstance(row, ColdStart) else not row.wrong for row in rows)
    return 0 if right else 1


def _events(options: argparse.Namespace, seed: int, sizes: Sequence[int]) -> list[Deliveries | ColdStart]:
    events = options.events or (QUICK_EVENTS if options.quick else EVENTS)
    progress, rows = Progress().show, []
    for brokers in sizes:
        row = measure_deliveries(seed, brokers, events, progress)
        print(
            f"1 -> {brokers:,} brokers, {events:,} events, {row.cut_links} of {row.links:,} links cut meanwhile:"
            f" lost {row.lost}, repeated {row.repeated}, out of order {row.disordered}",
            flush=True,
        )
        rows.append(row)
    return [*rows]


def _starts(options: argparse.Namespace, seed: int, sizes: Sequence[int]) -> list[Deliveries | ColdStart]:
    each = QUICK_SUBSCRIPTIONS if options.quick else SUBSCRIPTIONS_A_BROKER
    churn_s = options.churn if options.churn is not None else QUICK_CHURN_S if options.quick else CHURN_S
    progress = Progress().show
    return [measure_cold_start(seed, brokers, each * brokers, churn_s, progress) for brokers in sizes]


def _draw(study: str, values: Sequence[dict[str, float]], path: Path) -> bool:
    columns = {
        "events": {"processor time, s": "cpu_s", "virtual time, s": "virtual_s", "memory, MB": "memory_mb"},
        "start": {"processor time, s": "converge_cpu_s", "virtual time, s": "converged_s", "memory, MB": "memory_mb"},
    }[study]
    panels = [
        (label, "brokers", label, {"": [(row["brokers"], row[column]) for row in values]})
        for label, column in columns.items()
    ]
    titles = {
        "events": "An event stream to a subscriber at every broker",
        "start": "A start from cold, until all agree",
    }
    return draw_figure(panels, titles[study], path, logarithmic=True)


def _brokers(text: str) -> list[int]:
    found = []
    for part in text.split(","):
        if not part.isdecimal() or not BROKERS_MIN <= int(part) <= BROKERS_MAX:
            raise argparse.ArgumentTypeError(f"{part!r} is no number from {BROKERS_MIN} to {BROKERS_MAX}")
        found.append(int(part))
    return found


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plait_lab.wide_overlay",
        description="Run whole overlays of production brokers on virtual time, with three links a broker.",
        epilog="Exit codes: 0 done, and all is right; 1 an event went wrong, brokers did not agree, or a file cannot be"
        " written; 2 wrong use; 130 interrupted.",
    )
    parser.add_argument("study", choices=("events", "start"), help="what to measure")
    sizes = ",".join(map(str, BROKERS))
    parser.add_argument("--brokers", type=_brokers, metavar="N[,N]", help=f"sizes of the overlay ({sizes})")
    parser.add_argument("--events", type=_count, metavar="N", help=f"events to publish ({EVENTS:,})")
    parser.add_argument("--churn", type=_count, metavar="S", help=f"virtual seconds of churn ({CHURN_S:,.0f})")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works; writes no file")
    parser.add_argument("--seed", type=_count, metavar="N", help="draw the same overlays as a run that printed N")
    parser.add_argument(
        "--into", type=Path, metavar="FOLDER", help="write here, with --quick too (lab/results when not given)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
