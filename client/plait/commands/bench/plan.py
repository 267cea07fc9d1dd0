"""Parameters of one benchmark run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Plan:
    """Number, size and rate of the events of one run, and its subscribers."""

    mode: Literal["pub", "sub", "pair", "fanout", "latency"]
    run: str
    """Name of the run, an attribute of its events. It keeps two runs at one broker apart."""
    count: int
    size: int
    rate: float | None
    """Events in a second. None means as fast as possible."""
    subscribers: int
    wait_s: float
    """Time that a subscriber waits for the next event before it counts the rest as lost."""
