"""Compare the speed of two states of the source in one run: `python -m plait_lab.compare BASE_CHECKOUT`.

Each trial runs in both states, one after the other. The next round swaps their order, so a load on the machine that
lasts longer than a round affects both alike. A state is a checkout, and its own `plait_lab.bench` measures it; trials
that it may not have are programs of this state, which run with its packages (`reference_trials`). Both states use this
interpreter with its dependencies. Each has the native kernel of its own source, built if necessary.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final

from plait_core.values import Json

from .bench import Progress
from .benchmarks.groups import ShowProgress
from .benchmarks.measurement.cpu_time import OtherLoad
from .benchmarks.measurement.source_state import Broken, State
from .benchmarks.measures import median
from .benchmarks.reports import commit_of, number_text, table
from .reference_trials import MEASURES, SCRIPTS, Measure

HERE: Final = Path(__file__).parents[2]
REPEATS: Final = 5
"""Rounds: all trials of both states then take about six minutes, and those of sealed events alone one."""

QUIET: Final = 0.05
"""Share of the processors' time that other processes may use: from here on throughputs vary by more than the bars."""
LOOK_S: Final = 2.0
"""For a look at whether the machine is quiet."""

HEADINGS: Final = ("measure", "base", "here", "here/base", "at equal speed", "bar", "holds", "failed trials")


@dataclass(slots=True)
class Comparison:
    """One measure of one trial in both states."""

    trial: str
    measure: Measure
    base: list[float | None] = field(default_factory=list)
    here: list[float | None] = field(default_factory=list)
    yardstick: Comparison | None = None
    """The measure of the same trials that shows the machine's speed, if this one is judged by it."""

    @property
    def medians(self) -> tuple[float | None, float | None]:
        """Return the medians of both states, without failed trials."""
        base, here = (median(value for value in values if value is not None) for values in (self.base, self.here))
        return base, here

    @property
    def ratio(self) -> float | None:
        """Return the second median divided by the first, or None if a state has no result."""
        base, here = self.medians
        return here / base if base and here is not None else None

    @property
    def at_equal_speed(self) -> float | None:
        """Return the ratio of the medians after each value was divided by the yardstick of its trial."""
        if self.yardstick is None:
            return None
        base = _quotients(self.base, self.yardstick.base)
        return Comparison(self.trial, self.measure, base, _quotients(self.here, self.yardstick.here)).ratio

    @property
    def failed(self) -> int:
        """Return the number of failed trials."""
        return sum(value is None for value in (*self.base, *self.here))

    @property
    def holds(self) -> bool | None:
        """Return whether the ratio reaches its bar. None: there is no bar. False: a trial failed."""
        if self.failed:
            return False
        ratio = self.ratio if self.yardstick is None else self.at_equal_speed
        return None if self.measure.bar is None else ratio is not None and self.measure.bar.met_by(ratio)

    def record(self) -> Json:
        """Return the comparison as a JSON object."""
        base, here = self.medians
        bar = self.measure.bar
        return {
            "trial": self.trial,
            "measure": self.measure.name,
            "unit": self.measure.unit,
            "base": base,
            "here": here,
            "ratio": self.ratio,
            "at_equal_speed": self.at_equal_speed,
            "bar": None if bar is None else {"sense": bar.sense, "value": bar.value},
            "holds": self.holds,
            "failed": self.failed,
            "base_values": self.base,
            "here_values": self.here,
        }

    def cells(self) -> list[str]:
        """Return its row of the table."""
        bar = self.measure.bar
        return [
            f"{self.trial}: {self.measure.name}, {self.measure.unit}",
            *(number_text(value) for value in self.medians),
            *("" if ratio is None else f"{ratio:.3f}" for ratio in (self.ratio, self.at_equal_speed)),
            "" if bar is None else f"{bar.sense} {bar.value}",
            {True: "yes", False: "NO", None: ""}[self.holds],
            str(self.failed or ""),
        ]


class ComparisonRun:
    """Alternating rounds of trials in both states."""

    def __init__(
        self, states: tuple[State, State], options: argparse.Namespace, seed: int, progress: ShowProgress
    ) -> None:
        self.found: dict[tuple[str, str], Comparison] = {}
        for trial in options.only:
            for measure in MEASURES[trial]:
                yardstick = self.found.get((trial, measure.yardstick))
                self.found[trial, measure.name] = Comparison(trial, measure, yardstick=yardstick)
        self.others: list[float] = []
        """Share of the processors' time that other processes used during each trial."""
        self._states = states
        self._options = options
        self._seed = seed
        self._progress = progress
        self._patient_until = time.monotonic() + 60 * options.wait

    def play(self) -> None:
        """Run all rounds."""
        for number, trial, state in self._turns():
            reached, others = self._measure(trial, state)
            self.others.append(others)
            values = ", ".join(f"{measure} {number_text(value)}" for measure, value in reached.items())
            self._progress(f"round {number} of {self._options.repeats}, {state.name}, {trial}: {values}")
            for measure, value in reached.items():
                one = self.found[trial, measure]
                (one.base if state is self._states[0] else one.here).append(value)

    def _turns(self) -> Iterator[tuple[int, str, State]]:
        """Begin with the base in odd rounds, with the other state in even ones."""
        for number in range(1, self._options.repeats + 1):
            for trial in self._options.only:
                for state in self._states if number % 2 else reversed(self._states):
                    yield number, trial, state

    def _measure(self, trial: str, state: State) -> tuple[dict[str, float | None], float]:
        """Run a trial, again while others disturb it and patience lasts. Return its measures and the others' share."""
        while True:
            self._wait()
            load = OtherLoad()
            reached = state.measure(trial, self._seed, quick=self._options.quick)
            others = load.share()
            if others < QUIET or time.monotonic() > self._patient_until:
                return reached, others
            self._progress(
                f"{trial}, {state.name}: other processes used {others:.0%} of the processors' time; repeated"
            )

    def _wait(self) -> None:
        """Wait until the machine is quiet, while patience lasts."""
        first = True
        while time.monotonic() < self._patient_until:
            load = OtherLoad()
            time.sleep(LOOK_S)
            if (others := load.share()) < QUIET:
                return
            if first:
                self._progress(f"waits: other processes use {others:.0%} of the processors' time")
                first = False


def _quotients(values: list[float | None], divisors: list[float | None]) -> list[float | None]:
    pairs = zip(values, divisors, strict=True)
    return [None if value is None or not divisor else value / divisor for value, divisor in pairs]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    base = options.base.resolve()
    if not (base / "lab" / "pyproject.toml").is_file():
        parser.error(f"BASE_CHECKOUT: {options.base} is no checkout of Plait")
    seed, progress = secrets.randbits(32), Progress().show
    try:
        with tempfile.TemporaryDirectory(prefix="plait-compare-") as folder:
            kernel = any(trial not in SCRIPTS for trial in options.only)
            states = (
                State("base", base, Path(folder), progress, kernel=kernel),
                State("here", HERE, Path(folder), progress, kernel=kernel),
            )
            run = ComparisonRun(states, options, seed, progress)
            run.play()
    except Broken as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    found = list(run.found.values())
    _print(states, found, options, seed, fmean(run.others))
    return 1 if any(one.holds is False for one in found) else 0


def _print(
    states: tuple[State, State], found: list[Comparison], options: argparse.Namespace, seed: int, others: float
) -> None:
    commits = {state.name: commit_of(state.checkout) for state in states}
    if options.json:
        terms = {"repeats": options.repeats, "seed": seed, "quick": options.quick, "others": others}
        print(json.dumps({**commits, **terms}))
        for one in found:
            print(json.dumps(one.record()))
        return
    quick = "; quick: the figures mean nothing" if options.quick else ""
    print(f"base {commits['base']}, here {commits['here']}: medians of {options.repeats}, seed {seed}{quick}\n")
    print(table(HEADINGS, [one.cells() for one in found]))
    uncertain = "" if others < QUIET else ", so the ratios are uncertain: see --wait"
    print(f"\nOther processes used {others:.0%} of the processors' time{uncertain}.")


def _trials(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in MEASURES]:
        raise argparse.ArgumentTypeError(f"no trial {', '.join(unknown)}; there are: {', '.join(MEASURES)}")
    return names


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plait_lab.compare",
        description="Measure another checkout and this one in alternating rounds, and compare their medians.",
        epilog="Exit codes: 0 every ratio reaches its bar; 1 one does not, or a trial failed; 2 wrong use;"
        " 130 interrupted.",
    )
    parser.add_argument("base", type=Path, metavar="BASE_CHECKOUT", help="checkout of the state to compare with")
    parser.add_argument(
        "--only",
        type=_trials,
        default=list(MEASURES),
        metavar="NAME[,NAME]",
        help=f"run these trials of {', '.join(MEASURES)}",
    )
    parser.add_argument("--repeats", type=_count, default=REPEATS, metavar="N", help=f"rounds ({REPEATS} if not given)")
    parser.add_argument(
        "--wait",
        type=_count,
        default=0,
        metavar="MINUTES",
        help="wait for a quiet machine and repeat disturbed trials, for so long in all (0 if not given)",
    )
    parser.add_argument("--quick", action="store_true", help="short trials: shows that it works")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a line, with the value of every trial"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
