"""Record the figures of benchmark runs in `lab/MEDIANS.json`: `make bench ARGS=--json | python -m plait_lab.medians`.

The input is what `python -m plait_lab.bench --json` printed, from one run or several. Each group in it replaces that
group of the file, with the machine, the commit and the seed of its run, and today's date. Other groups stay.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from plait_core.values import Json

from .benchmarks.reports import write_whole

RECORD: Final = Path(__file__).parents[1] / "MEDIANS.json"
DIGITS: Final = 6
"""Significant digits of a recorded figure: more is noise."""


class Unusable(Exception):
    """The input cannot be recorded. The text gives the reason."""


def groups_of(lines: Iterable[str], date: str) -> dict[str, Json]:
    """Return the groups of benchmark runs with their figures, by name."""
    found: dict[str, Json] = {}
    terms: Json | None = None
    for line in lines:
        entry = json.loads(line)
        if "machine" in entry:
            terms = _terms(entry, date)
            continue
        if terms is None:
            raise Unusable("the input does not begin with the line that names the machine")
        if entry["unit"] == "trials":  # a line about a participant, not a figure
            continue
        group = found.get(entry["group"])
        if group is None or group["commit"] != terms["commit"] or group["seed"] != terms["seed"]:
            group = found[entry["group"]] = {**terms, "figures": {}}
        group["figures"][entry["measure"]] = _figure(entry)
    if not found:
        raise Unusable("the input has no figures")
    return found


def _terms(head: Json, date: str) -> Json:
    if head["quick"]:
        raise Unusable("--quick figures mean nothing: they are not recorded")
    machine, _, commit = head["machine"].rpartition("; commit ")
    return {"machine": machine, "date": date, "commit": commit, "seed": head["seed"]}


def _figure(entry: Json) -> Json:
    if entry["reached"] is None:
        raise Unusable(f"{entry['group']}: {entry['measure']} failed")
    found = {"value": _rounded(entry["reached"]), "unit": entry["unit"]}
    if entry["beside"]:
        found["beside"] = {name: value and _rounded(value) for name, value in entry["beside"].items()}
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m plait_lab.medians",
        description="Record what python -m plait_lab.bench --json prints.",
        epilog="Exit codes: 0 recorded; 1 the input cannot be recorded; 2 wrong use.",
    )
    parser.add_argument("input", nargs="?", type=Path, help="what it printed (standard input when not given)")
    parser.add_argument(
        "--out",
        type=Path,
        default=RECORD,
        metavar="FILE",
        help=f"rewrite FILE ({RECORD.parent.name}/{RECORD.name} when not given)",
    )
    options = parser.parse_args(arguments)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    try:
        lines = options.input.read_text(encoding="utf-8").splitlines() if options.input else sys.stdin
        new = groups_of(lines, today)
    except (Unusable, OSError, json.JSONDecodeError) as error:
        print(f"medians: {error}", file=sys.stderr)
        return 1
    kept = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    write_whole(options.out, json.dumps(dict(sorted({**kept, **new}.items())), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
