"""Compares the confirmations with the deliveries, from the files that publishers and subscribers wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SLOW = "slow"
READERS: dict[str, Callable[[str, int], bool]] = {
    "d1": lambda publisher, number: publisher != "p3" and number % 2 == 0,
    "d2": lambda publisher, number: publisher != "p3",
    "s1": lambda publisher, number: publisher == "p3" and number % 2 == 1,
    SLOW: lambda publisher, number: publisher != "p3",
}
"""The filter of each durable subscription."""
PUBLISHERS = ("p1", "p2", "p3")


class Line(NamedTuple):
    publisher: str
    number: int
    at_us: int


@dataclass(frozen=True)
class Reading:
    """The recorded events of one subscriber."""

    lost: list[Line]
    twice: list[tuple[str, int]]
    astray: list[tuple[str, int]]
    """Events that do not match the filter, or that were not published."""
    disordered: int
    arrived: int
    delays_us: list[int]

    @property
    def sound(self) -> bool:
        return not (self.lost or self.twice or self.astray or self.disordered)


def lines(path: Path) -> list[Line]:
    """Return the complete lines. The last one may be incomplete."""
    if not path.exists():
        return []
    text = path.read_text()
    words = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
    return [Line(each[0], int(each[1]), int(each[-1])) for each in words]


def confirmed(out: Path) -> list[Line]:
    return [line for publisher in PUBLISHERS for line in lines(out / f"{publisher}.confirmed")]


def unsure(out: Path) -> list[Line]:
    return [line for publisher in PUBLISHERS for line in lines(out / f"{publisher}.unsure")]


def judge(out: Path, reader: str) -> Reading:
    wants, got = READERS[reader], lines(out / f"{reader}.arrived")
    promised = {(line.publisher, line.number): line for line in confirmed(out) if wants(line.publisher, line.number)}
    published = {line.publisher: line.number for publisher in PUBLISHERS for line in lines(out / f"{publisher}.done")}
    times = Counter((line.publisher, line.number) for line in got)
    first = {(line.publisher, line.number): line.at_us for line in reversed(got)}
    astray = [key for key in times if not (wants(*key) and key[1] < published.get(key[0], 1 << 62))]
    return Reading(
        lost=[line for key, line in sorted(promised.items()) if key not in times],
        twice=[key for key, count in times.items() if count > 1],
        astray=astray,
        disordered=_disordered(got),
        arrived=len(times),
        delays_us=sorted(first[key] - line.at_us for key, line in promised.items() if key in first),
    )


def _disordered(got: list[Line]) -> int:
    """Events received after a later event of the same publisher."""
    last: dict[str, int] = {}
    found = 0
    for line in got:
        found += line.number < last.get(line.publisher, -1)
        last[line.publisher] = max(line.number, last.get(line.publisher, -1))
    return found


def all_is_there(out: Path) -> bool:
    """Return whether all confirmed events have arrived."""
    return all(not judge(out, reader).lost for reader in READERS)


def at(sorted_values: list[int], share: float) -> int:
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))] if sorted_values else 0
