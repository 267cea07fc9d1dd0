"""Ids and randomness. Protocols draw ids from a generator that their caller passes in: same seed, same run (law 3)."""

from __future__ import annotations

from typing import Protocol


class Randomness(Protocol):
    """The part of `random.Random` that protocols use. Production passes `random.SystemRandom()`."""

    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...


def new_id(randomness: Randomness) -> int:
    """Return a random 64-bit id, never 0: 0 means "none" on the wire."""
    while True:
        drawn = randomness.getrandbits(64)
        if drawn:
            return drawn


def id_text(number: int) -> str:
    """Format an id for people: 16 hex digits."""
    return f"{number:016x}"
