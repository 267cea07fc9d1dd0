"""Measure how the costs of a publisher's broker grow with the number of brokers: `python -m plait_lab.wide`.

One production broker's overlay runs; the others are links, keys and documents (`benchmarks/wide/`). Writes a table and
plots to a folder, if matplotlib is installed.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from plait_core.limits import DESTINATIONS_MAX

from .bench import Progress, seed_of
from .benchmarks.groups import Session
from .benchmarks.reports import Machine, machine
from .benchmarks.wide.growth import Growth, draw_growth, growth_table, measure_growth
from .experiments.peers.drawing import RESULTS, read_lines, write_lines

BROKERS: Final = (30, 100, 300, 1000)
QUICK: Final = (10, 20)
BROKERS_MIN: Final = 10
"""The broker that runs has six neighbours, and others have links among each other."""

TABLE: Final = "wide.csv"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.into and not options.into.is_dir():
        parser.error(f"--into: there is no folder {options.into}")
    if options.draw and (options.quick or options.brokers):
        parser.error("--draw measures nothing: it takes neither --quick nor --brokers")
    folder = options.into or (None if options.quick else RESULTS)
    try:
        return _draw(folder or RESULTS) if options.draw else _run(options, folder)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"wide: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace, folder: Path | None) -> int:
    """Measure all sizes, print the rows, and write them only when all are measured."""
    seed = secrets.randbits(32) if options.seed is None else options.seed
    session, here = Session(seed, options.quick, Progress().show), machine()
    if options.json:
        print(json.dumps({"machine": str(here), "seed": seed, "quick": options.quick}), flush=True)
    rows = []
    for brokers in options.brokers or (QUICK if options.quick else BROKERS):
        rows.append(measure_growth(session, brokers))
        if options.json:
            print(json.dumps(asdict(rows[-1])), flush=True)
    if not options.json:
        _print(rows, here, session)
    if folder is not None:
        path = folder / TABLE
        write_lines([asdict(row) for row in rows], path)
        session.progress(f"written: {path}")
        _show_drawn(rows, folder, session)
    return 0


def _draw(folder: Path) -> int:
    """Draw the table that is there."""
    rows = [Growth(**row) for row in read_lines(folder / TABLE)]  # type: ignore[arg-type]
    _show_drawn(rows, folder, Session(0, quick=False, progress=Progress().show))
    return 0


def _show_drawn(rows: Sequence[Growth], folder: Path, session: Session) -> None:
    drawn = draw_growth(rows, folder)
    for path in drawn:
        session.progress(f"written: {path}")
    if not drawn:
        session.progress("no plot: matplotlib is not installed; `sh scripts/setup.sh --plots`, then add --draw")


def _print(rows: Sequence[Growth], here: Machine, session: Session) -> None:
    quick = "; quick: small sizes, the figures mean nothing" if session.quick else ""
    print(f"{here}\nseed {session.seed}{quick}\n")
    print(growth_table(rows))


def _brokers(text: str) -> list[int]:
    found = []
    for part in text.split(","):
        if not part.isdecimal() or not BROKERS_MIN <= int(part) <= DESTINATIONS_MAX:
            raise argparse.ArgumentTypeError(f"{part!r} is no number from {BROKERS_MIN} to {DESTINATIONS_MAX}")
        found.append(int(part))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plait_lab.wide",
        description="Measure how the costs of a publisher's broker grow with the number of brokers: publishing, bytes,"
        " acks, changes of the map, memory. A stream group is compared with single destinations.",
        epilog="Exit codes: 0 done; 1 a measurement failed, or a file cannot be read or written; 2 wrong use;"
        " 130 interrupted.",
    )
    sizes = ",".join(map(str, BROKERS))
    parser.add_argument("--brokers", type=_brokers, metavar="N[,N]", help=f"sizes of the overlay ({sizes})")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works; writes no file")
    parser.add_argument("--seed", type=seed_of, metavar="N", help="draw the same overlays as a run that printed N")
    parser.add_argument("--json", action="store_true", help="one JSON object a line in place of a table")
    parser.add_argument(
        "--into", type=Path, metavar="FOLDER", help="write here, with --quick too (lab/results when not given)"
    )
    parser.add_argument("--draw", action="store_true", help="only draw the table that is there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
