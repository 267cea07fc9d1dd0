"""The benchmarks' command: `python -m plait_lab.bench`. Runs the groups, prints their tables, writes the document.

Progress goes to stderr, results to stdout. A missed target is shown and is no failure: machines differ. A figure
without a result is shown as failed, and the run continues. A wrong answer ends the run. Both give exit code 1.

`--trial NAME --seed N --json` is a contract between states of the source: `compare` runs it in another checkout
(`reference_trials.py`).
"""

from __future__ import annotations

import argparse
import datetime
import json
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .benchmarks.groups import Group, Session, find_groups
from .benchmarks.measurement.baselines import WrongAnswer
from .benchmarks.reports import (
    Figure,
    Machine,
    figure_record,
    figure_table,
    machine,
    replace_section,
    sources,
    write_whole,
)
from .reference_trials import TRIALS

DOCUMENT = Path(__file__).parents[1] / "BENCHMARKS.md"


class Progress:
    """One line on stderr for each step, with the time since the start."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def show(self, step: str) -> None:
        print(f"[{time.monotonic() - self._started:5.1f} s] {step}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.quick and options.write:
        parser.error("--quick figures mean nothing: they are not written to the document")
    if options.trial and options.write:
        parser.error("--trial: a single trial has no section in the document")
    if options.write and not options.write.parent.is_dir():
        parser.error(f"--write: there is no folder {options.write.parent}")
    seed = secrets.randbits(32) if options.seed is None else options.seed
    session = Session(seed, options.quick, Progress().show)
    groups = [TRIALS[options.trial]] if options.trial else _chosen(parser, options.only, session)
    try:
        return _run(groups, session, options.json, options.write)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _chosen(parser: argparse.ArgumentParser, only: list[str] | None, session: Session) -> list[Group]:
    groups = find_groups(session.progress)
    names = [group.name for group in groups]
    if unknown := sorted(set(only or ()) - set(names)):
        parser.error(f"--only: no group {', '.join(unknown)}; there are: {', '.join(names)}")
    return [group for group in groups if not only or group.name in only]


def _run(groups: list[Group], session: Session, as_json: bool, document: Path | None) -> int:
    here = machine()
    _print_machine(here, session, as_json)
    status = 0
    for group in groups:
        session.progress(f"{group.name}: {group.title}")
        try:
            figures = [_judged(figure, session) for figure in group.run(session)]
        except WrongAnswer as error:
            print(f"{group.name}: WRONG ANSWER with seed {session.seed}: {error}", file=sys.stderr)
            return 1
        _print(group, figures, as_json)
        status |= any(figure.failed for figure in figures)
        if document:
            text = document.read_text(encoding="utf-8") if document.exists() else "# Benchmarks\n"
            write_whole(document, replace_section(text, group.name, section(group, figures, here, session.seed)))
            session.progress(f"{group.name}: written to {document}")
    return status


def _judged(figure: Figure, session: Session) -> Figure:
    """Return the figure without its target in a quick run: targets apply to the full sizes."""
    return replace(figure, target=None) if session.quick else figure


def section(group: Group, figures: list[Figure], here: Machine, seed: int) -> str:
    """Return a group's section of the document."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    made = f"Made on {today} by `python -m plait_lab.bench --only {group.name} --seed {seed} --write`; {here}."
    return f"## {group.title}\n\n{made}\n\n{figure_table(figures)}"


def _print_machine(here: Machine, session: Session, as_json: bool) -> None:
    if as_json:
        head = {"machine": str(here), "seed": session.seed, "quick": session.quick, "sources": sources()}
        print(json.dumps(head), flush=True)
        return
    quick = "; quick: small sizes, the figures mean nothing" if session.quick else ""
    print(f"{here}\nseed {session.seed}{quick}", flush=True)


def _print(group: Group, figures: list[Figure], as_json: bool) -> None:
    if as_json:
        for figure in figures:
            print(json.dumps({"group": group.name, **figure_record(figure)}), flush=True)
        return
    missed = sum(figure.met is False for figure in figures)
    aimed = sum(figure.target is not None for figure in figures)
    print(f"\n{group.title}\n\n{figure_table(figures)}", flush=True)
    if aimed:
        print(f"\n{aimed - missed} of {aimed} targets reached", flush=True)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plait_lab.bench",
        description="Measure Plait next to what it is compared with, in one run, against its targets.",
        epilog="Exit codes: 0 done, targets reached or not; 1 a wrong answer or a failed figure; 2 wrong use;"
        " 130 interrupted.",
    )
    parser.add_argument("--quick", action="store_true", help="seconds in place of minutes: shows that it works")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--only", action="append", metavar="NAME", help="run this group; may be given again")
    chosen.add_argument("--trial", choices=TRIALS, help="run one trial of Plait alone, for python -m plait_lab.compare")
    parser.add_argument("--seed", type=_seed, metavar="N", help="draw the same workloads as a run that printed N")
    parser.add_argument("--json", action="store_true", help="one JSON object a line in place of tables")
    parser.add_argument(
        "--write",
        nargs="?",
        type=Path,
        const=DOCUMENT,
        metavar="FILE",
        help=f"rewrite each group's section of FILE ({DOCUMENT.parent.name}/{DOCUMENT.name} when not given)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
