"""The benchmarks' command: `python -m plait_lab.bench`. Runs the groups, prints their tables, writes the document.

Progress goes to stderr, results to stdout. A missed target is shown and is no failure: machines differ. A figure
without a result is shown as failed, and the run continues, as it does after a group that raised an error. A wrong
answer ends the run. Each gives exit code 1.

A figure is written when it is measured: to stderr, with `--json` to stdout, with `--write` to the document. So a run
that ends early loses none.

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
import traceback
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
    number_text,
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
        results = GroupResults(group, session, here, document, as_json=as_json)
        try:
            results.collect()
        except WrongAnswer as error:
            print(f"{group.name}: WRONG ANSWER with seed {session.seed}: {error}", file=sys.stderr)
            return 1
        except Exception:
            traceback.print_exc()
            print(f"{group.name}: ended with an error after {len(results.figures)} figures", file=sys.stderr)
            status = 1
        finally:
            results.show()
        status |= any(figure.failed for figure in results.figures)
    return status


class GroupResults:
    """The figures of one group, each written as it comes."""

    def __init__(self, group: Group, session: Session, here: Machine, document: Path | None, *, as_json: bool) -> None:
        self.figures: list[Figure] = []
        self._group = group
        self._session = session
        self._here = here
        self._document = document
        self._as_json = as_json

    def collect(self) -> None:
        """Run the group to its end."""
        for figure in self._group.run(self._session):
            self.figures.append(_judged(figure, self._session))
            self._write(self.figures[-1])
        if self._document:
            self._write_section(complete=True)
            self._session.progress(f"{self._group.name}: written to {self._document}")

    def show(self) -> None:
        """Print the table of the figures so far. JSON lines are printed already."""
        if self._as_json or not self.figures:
            return
        missed = sum(figure.met is False for figure in self.figures)
        aimed = sum(figure.target is not None for figure in self.figures)
        print(f"\n{self._group.title}\n\n{figure_table(self.figures)}", flush=True)
        if aimed:
            print(f"\n{aimed - missed} of {aimed} targets reached", flush=True)

    def _write(self, figure: Figure) -> None:
        if self._as_json:
            print(json.dumps({"group": self._group.name, **figure_record(figure)}), flush=True)
        else:
            self._session.progress(f"{figure.measure}: {number_text(figure.reached)} {figure.unit}".rstrip())
        if self._document:
            self._write_section(complete=False)

    def _write_section(self, *, complete: bool) -> None:
        assert self._document is not None, "there is a document to write to"
        text = self._document.read_text(encoding="utf-8") if self._document.exists() else "# Benchmarks\n"
        body = section(self._group, self.figures, self._here, self._session.seed, complete=complete)
        write_whole(self._document, replace_section(text, self._group.name, body))


def _judged(figure: Figure, session: Session) -> Figure:
    """Return the figure without its target in a quick run: targets apply to the full sizes."""
    return replace(figure, target=None) if session.quick else figure


def section(group: Group, figures: list[Figure], here: Machine, seed: int, *, complete: bool = True) -> str:
    """Return a group's section of the document. A group that has not run to its end is marked as incomplete."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    made = f"Made on {today} by `python -m plait_lab.bench --only {group.name} --seed {seed} --write`; {here}."
    made += "" if complete else "\n\n**Incomplete:** the run has not reached the end of this group."
    return f"## {group.title}\n\n{made}\n\n{figure_table(figures)}"


def _print_machine(here: Machine, session: Session, as_json: bool) -> None:
    if as_json:
        head = {"machine": str(here), "seed": session.seed, "quick": session.quick, "sources": sources()}
        print(json.dumps(head), flush=True)
        return
    quick = "; quick: small sizes, the figures mean nothing" if session.quick else ""
    print(f"{here}\nseed {session.seed}{quick}", flush=True)


def seed_of(text: str) -> int:
    """Return the seed that an argument names."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plait_lab.bench",
        description="Measure Plait next to what it is compared with, in one run, against its targets.",
        epilog="Exit codes: 0 done, targets reached or not; 1 a wrong answer, a failed figure or group; 2 wrong use;"
        " 130 interrupted.",
    )
    parser.add_argument("--quick", action="store_true", help="seconds in place of minutes: shows that it works")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--only", action="append", metavar="NAME", help="run this group; may be given again")
    chosen.add_argument("--trial", choices=TRIALS, help="run one trial of Plait alone, for python -m plait_lab.compare")
    parser.add_argument("--seed", type=seed_of, metavar="N", help="draw the same workloads as a run that printed N")
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
