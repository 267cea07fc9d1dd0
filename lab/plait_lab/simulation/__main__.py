"""Replay a seed: `python -m plait_lab.simulation --seed S [--scenario X] [--planted BUG] [--around N]`.

Prints what is wrong with the history, and the lines of it that speak of whom it is about. Exits 1 when something is.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from ..planted import PLANTED
from .faults import SCENARIOS
from .swarm import Verdict, play

_SPEAKS_OF = re.compile(r"\b[0-9a-f]{16}-\d+\b|\bapp\d+(?:/\w+)?\b|\bwitness\b")
"""Names in a complaint: events, applications and their subscriptions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m plait_lab.simulation", description="Replay one simulated history.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--scenario", choices=SCENARIOS, default="any")
    parser.add_argument("--planted", choices=PLANTED, default=None, help="with this bug planted")
    parser.add_argument("--all", action="store_true", help="print the whole history")
    given = parser.parse_args(arguments)
    planted = PLANTED[given.planted].plant() if given.planted else None
    verdict = play(given.seed, given.scenario, planted)
    _print_history(verdict, whole=given.all)
    _print_verdict(verdict)
    return 1 if verdict.complaints else 0


def _print_history(verdict: Verdict, *, whole: bool) -> None:
    named = {name for complaint in verdict.complaints[:3] for name in _SPEAKS_OF.findall(str(complaint))}
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
    for complaint in verdict.complaints:
        print(f"  {complaint}")
    print("  holds" if not verdict.complaints else f"  {len(verdict.complaints)} complaints")


if __name__ == "__main__":
    sys.exit(main())
