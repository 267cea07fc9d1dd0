"""Replay a seed: `python -m plait_lab.simulation --seed S [--scenario X] [--planted BUG] [--all]`.

Prints the violations in the history and the lines of the nodes concerned. Exits 1 if there are any.

`--check-hashes` plays 370 histories of all kinds of worlds, compares their hashes with those recorded
(`history_hashes.py`), and exits 1 if some differ.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from . import history_hashes
from .one_broker.faults import SCENARIOS
from .one_broker.planted_bugs import PLANTED
from .one_broker.seeded_histories import Verdict, play

_NAMED = re.compile(r"\b[0-9a-f]{16}-\d+\b|\bapp\d+(?:/\w+)?\b|\bwitness\b")
"""Names in a violation: events, applications and their subscriptions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m plait_lab.simulation",
        description="Replay one simulated history, or compare many with the recorded ones.",
    )
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--seed", type=int, help="replay this history of one broker")
    for option, does in (("--check-hashes", "compare"), ("--record-hashes", "write")):
        task.add_argument(
            option,
            nargs="?",
            type=Path,
            const=history_hashes.FILE,
            metavar="FILE",
            help=f"play 370 histories and {does} the hashes in FILE, by default those of the repository",
        )
    task.add_argument("--history", type=_history, metavar="GROUP/NUMBER", help="print one of the recorded histories")
    parser.add_argument("--scenario", choices=SCENARIOS, default="any")
    parser.add_argument("--planted", choices=PLANTED, default=None, help="with this bug planted")
    parser.add_argument("--all", action="store_true", help="print the whole history")
    given = parser.parse_args(arguments)
    if given.check_hashes:
        if not given.check_hashes.is_file():
            parser.error(f"--check-hashes: there is no file {given.check_hashes}")
        return 0 if history_hashes.check_hashes(given.check_hashes) else 1
    if given.record_hashes:
        return 0 if history_hashes.record_hashes(given.record_hashes) else 1
    if given.history:
        history_hashes.print_history(*given.history)
        return 0
    planted = PLANTED[given.planted].plant() if given.planted else None
    verdict = play(given.seed, given.scenario, planted)
    _print_history(verdict, whole=given.all)
    _print_verdict(verdict)
    return 1 if verdict.violations else 0


def _history(text: str) -> tuple[str, int]:
    """Return the group and the number in GROUP/NUMBER."""
    group, _, number = text.partition("/")
    known = history_hashes.GROUPS.get(group)
    if known is None or not number.isdecimal() or int(number) >= known.count:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a group is one of {', '.join(history_hashes.GROUPS)}, numbers from 0"
        )
    return group, int(number)


def _print_history(verdict: Verdict, *, whole: bool) -> None:
    named = {name for violation in verdict.violations[:3] for name in _NAMED.findall(str(violation))}
    for at, *what in verdict.recorder.lines:
        text = " ".join(str(part) for part in what)
        always = what[0] in ("FAULT", "HEAL", "BREACH", "restart", "close")
        if whole or (named and (always or any(name in text for name in named))):
            print(f"{at:10.6f}  {text}")


def _print_verdict(verdict: Verdict) -> None:
    redrawn = f" (redrawn as {verdict.drawn})" if verdict.drawn != verdict.seed else ""
    print(
        f"seed {verdict.seed}{redrawn}: {verdict.published} published, {verdict.confirmed} confirmed, "
        f"{verdict.received} received, {verdict.faults} faults, {verdict.steps} steps, history {verdict.history}"
    )
    for violation in verdict.violations:
        print(f"  {violation}")
    print("  holds" if not verdict.violations else f"  {len(verdict.violations)} violations")


if __name__ == "__main__":
    sys.exit(main())
