"""Records of the audit log. A request that matters has a line of its own; the others are counted.

Counted are lines that are refused before they are read, requests that are invalid, and those of strangers that are not
granted. So a flood costs one line per caller and interval, not one each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from plait_core.values import Json

from .limits import TALLIES_MAX

OTHERS: Final = "others"
"""The address in the line of callers beyond TALLIES_MAX."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The known facts about the sender of a request."""

    address: str
    holder: str = ""
    """The name in its certificate, which this server's authority signed; empty without one."""
    certificate: str = ""
    """The serial number of its certificate, in hexadecimal."""

    @property
    def key(self) -> str:
        """The name under which its budgets and turns are counted. No address is a holder's name."""
        return self.holder or f"[{self.address}]"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the audit log. It never contains a key, a token, or data from which they could be guessed."""

    at_us: int
    caller: Caller
    asked: str
    outcome: str
    details: Mapping[str, Any] = field(default_factory=dict)
    counted: bool = False
    """Whether it is counted instead of written."""

    def line(self) -> Json:
        """Return the JSON fields of the line."""
        certificate = {"certificate": self.caller.certificate} if self.caller.certificate else {}
        return {
            "at_us": self.at_us,
            "address": self.caller.address,
            "holder": self.caller.holder,
            **certificate,
            "asked": self.asked,
            "outcome": self.outcome,
            **self.details,
        }


class Tallies:
    """Counts of one interval, per caller, request and outcome."""

    def __init__(self, tallies_max: int = TALLIES_MAX) -> None:
        self._tallies_max = tallies_max
        self._counts: dict[tuple[str, str, str, str], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, record: Record) -> None:
        """Count a record."""
        key = (record.caller.address, record.caller.holder, record.asked, record.outcome)
        if key not in self._counts and len(self._counts) >= self._tallies_max:
            key = (OTHERS, "", record.asked, record.outcome)
        first_us, count = self._counts.get(key, (record.at_us, 0))
        self._counts[key] = first_us, count + 1

    def take(self, now_us: int) -> list[Json]:
        """Return a line for each count, and begin the next interval."""
        counts, self._counts = self._counts, {}
        return [
            Record(first_us, Caller(address, holder), asked, outcome, {"count": count, "until_us": now_us}).line()
            for (address, holder, asked, outcome), (first_us, count) in counts.items()
        ]
