"""Ids and randomness. Protocols draw ids from a generator that they are given: same seed, same run (law 3)."""

from __future__ import annotations

from typing import Protocol


class Randomness(Protocol):
    """What protocols need of `random.Random`; the faces pass `random.SystemRandom()`."""

    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...


def new_id(randomness: Randomness) -> int:
    """A 64-bit id, never 0: 0 says "none" on the wire."""
    while True:
        drawn = randomness.getrandbits(64)
        if drawn:
            return drawn


def id_text(number: int) -> str:
    """An id as people see it: 16 hex digits."""
    return f"{number:016x}"
