"""Check that ARCHITECTURE.md's table of the places where an event may wait names only what the sources contain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from plait_broker.drop_reasons import DropReason

ROOT: Final = Path(__file__).parent.parent
LIMITS: Final = ("client/plait/options/limits.py", "broker/plait_broker/settings.py")
"""Files of limits that other files use."""

COUNTERS: Final = (
    "broker/plait_broker/web/metrics/broker_metrics.py",
    "broker/plait_broker/web/metrics/overlay_metrics.py",
    "client/plait/protocol/session.py",
    "client/plait/protocol/subscription_state.py",
)
CLIENT_REASONS: Final = {"queue_full"}
CODES: Final = {"publish", "try_publish", "TEST_S", "when_full"}
"""Words in the column of what happens that are no reasons."""


class Place(NamedTuple):
    number: int
    name: str
    file: str
    bounds: list[str]
    reasons: list[str]
    counters: list[str]


def places() -> list[Place]:
    section = (ROOT / "ARCHITECTURE.md").read_text().partition("## Where an event may wait")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if re.match(r"\| \d+ \|", line)]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [
        Place(int(row[0]), row[1], _quoted(row[2])[0], _quoted(row[3]), _quoted(row[4]), _quoted(row[5]))
        for row in rows
    ]


def _quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_all_eleven_places_are_listed() -> None:
    assert [place.number for place in places()] == list(range(1, 12))


def test_bounds_are_defined_in_the_file_or_among_the_limits() -> None:
    for place in places():
        sources = "\n".join((ROOT / name).read_text() for name in (place.file, *LIMITS))
        assert place.bounds
        for bound in place.bounds:
            assert re.search(rf"^\s*{bound}\b.* = ", sources, re.MULTILINE), f"{place.name}: {bound}"


def test_drop_reasons_exist() -> None:
    known = set(DropReason) | CLIENT_REASONS | CODES
    for place in places():
        assert set(place.reasons) <= known, place


def test_counters_exist() -> None:
    sources = "\n".join((ROOT / name).read_text() for name in COUNTERS)
    for place in places():
        assert place.counters
        for counter in place.counters:
            assert re.search(rf"\b{counter}\b", sources), f"{place.name}: {counter}"
