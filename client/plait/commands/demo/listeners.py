"""Listeners of the demo: a plain one, one with a delay bound, a durable one, a slow one, one with rare matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plait_core import Filter, parse

from ...options.settings import DEFAULT_BUFFER, Buffer

KILLED: Final = "london"
"""The broker that is killed. A durable listener is connected to it, and events pass through it by then."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Name, place and subscription options of one subscriber."""

    name: str
    filter: Filter
    about: str
    """Description, for people."""
    at: str = "tokyo"
    """Its broker."""
    within: float | None = None
    durable: str | None = None
    buffer: Buffer = DEFAULT_BUFFER
    pause_s: float = 0.0
    """Time that it spends on each event."""

    @property
    def loses_its_broker(self) -> bool:
        """Whether its own broker is killed and keeps no log for it."""
        return self.at == KILLED and self.durable is None


WATCHER: Final = "nyse-watch"
"""The listener whose events are rerouted: published in new-york, delivered in tokyo."""

LISTENERS: Final = (
    Listener(WATCHER, parse("exchange == 'NYSE' and price < 150"), "a plain filter"),
    Listener("big-tech", parse("sector == 'tech' and volume >= 500"), "delay bound 50 ms", within=0.050),
    Listener("nyse-ledger", parse("exchange == 'NYSE'"), "durable: must miss nothing", KILLED, durable="nyse-ledger"),
    Listener(
        "slow-screen",
        parse("volume >= 100"),
        "too slow: drop_oldest beyond 32",
        "sydney",
        buffer=Buffer(items=32, full="drop_oldest"),
        pause_s=0.02,
    ),
    Listener("halts", parse("halted"), "rare matches", KILLED),
)
