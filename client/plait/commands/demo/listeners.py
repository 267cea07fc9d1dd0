"""Who listens in the demo: one plain, one in a hurry, one durable, one slow, one rarely served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plait_core import Filter, parse

from ...settings import DEFAULT_BUFFER, Buffer


@dataclass(frozen=True, slots=True)
class Listener:
    """One subscriber."""

    name: str
    filter: Filter
    about: str
    within: float | None = None
    durable: str | None = None
    buffer: Buffer = DEFAULT_BUFFER
    pause_s: float = 0.0
    """How long it takes over each event."""


LISTENERS: Final = (
    Listener("ibm-watch", parse("symbol == 'IBM' and price < 122"), "a plain filter"),
    Listener("big-tech", parse("sector == 'tech' and volume >= 500"), "wants it within 50 ms", within=0.050),
    Listener("nyse-ledger", parse("exchange == 'NYSE'"), "durable: may miss nothing", durable="nyse-ledger"),
    Listener(
        "slow-screen",
        parse("volume >= 100"),
        "too slow: drop_oldest beyond 32",
        buffer=Buffer(items=32, full="drop_oldest"),
        pause_s=0.02,
    ),
    Listener("halts", parse("halted"), "rarely served"),
)
