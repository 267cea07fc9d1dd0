"""Who listens in the demo, and where: one plain, one in a hurry, one durable, one slow, one rarely served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plait_core import Filter, parse

from ...options.settings import DEFAULT_BUFFER, Buffer

KILLED: Final = "london"
"""The broker that is killed: a durable listener is at home there, and by then events pass through it."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One subscriber."""

    name: str
    filter: Filter
    about: str
    at: str = "tokyo"
    within: float | None = None
    durable: str | None = None
    buffer: Buffer = DEFAULT_BUFFER
    pause_s: float = 0.0
    """How long it takes over each event."""

    @property
    def struck(self) -> bool:
        """Whether its own broker is killed, and it has no log there to fall back on."""
        return self.at == KILLED and self.durable is None


WATCHER: Final = "nyse-watch"
"""The listener whose events are seen to move: published in new-york, heard in tokyo."""

LISTENERS: Final = (
    Listener(WATCHER, parse("exchange == 'NYSE' and price < 150"), "a plain filter"),
    Listener("big-tech", parse("sector == 'tech' and volume >= 500"), "wants it within 50 ms", within=0.050),
    Listener("nyse-ledger", parse("exchange == 'NYSE'"), "durable: may miss nothing", KILLED, durable="nyse-ledger"),
    Listener(
        "slow-screen",
        parse("volume >= 100"),
        "too slow: drop_oldest beyond 32",
        "sydney",
        buffer=Buffer(items=32, full="drop_oldest"),
        pause_s=0.02,
    ),
    Listener("halts", parse("halted"), "rarely served", KILLED),
)
