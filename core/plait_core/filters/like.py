"""`like` without a regular expression: % is any text, _ any character. Matching time is bounded for every pattern.

A run of plain characters is found by substring search. A run that contains _ is found with bit sets, all places at
once: the positions of each of its characters, shifted back by the character's offset, are intersected.
"""

from __future__ import annotations

from .atoms import like_pieces


class LikePattern:
    """A compiled `like` pattern."""

    __slots__ = ("_first", "_gapped", "_last", "_middle", "_shortest")

    def __init__(self, pattern: str) -> None:
        runs: list[list[str | None]] = [[]]
        for piece in like_pieces(pattern):
            if piece == "":
                runs.append([])
            else:
                runs[-1].append(piece)
        self._first = runs[0]
        self._last = runs[-1] if len(runs) > 1 else None
        self._middle = [run if None in run else "".join(map(str, run)) for run in runs[1:-1] if run]
        self._gapped = any(isinstance(run, list) for run in self._middle)
        self._shortest = sum(map(len, runs))

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        if len(text) < self._shortest or not _run_at(self._first, text, 0):
            return False
        if self._last is None:
            return len(text) == self._shortest
        end = len(text) - len(self._last)
        if not _run_at(self._last, text, end):
            return False
        places = _places(text) if self._gapped else {}
        at = len(self._first)
        for run in self._middle:  # the leftmost place leaves most room for the rest, so the search never backtracks
            at = text.find(run, at, end) if isinstance(run, str) else _find_gapped(run, places, at, end)
            if at < 0:
                return False
            at += len(run)
        return True


def _run_at(run: list[str | None], text: str, at: int) -> bool:
    return all(piece is None or piece == text[at + i] for i, piece in enumerate(run))


def _places(text: str) -> dict[str, int]:
    """Return the positions of each character as a bit set: bit i for text[i]."""
    places: dict[str, int] = {}
    for i, char in enumerate(text):
        places[char] = places.get(char, 0) | 1 << i
    return places


def _find_gapped(run: list[str | None], places: dict[str, int], start: int, end: int) -> int:
    """Return the leftmost place of `run` within [start, end), or -1."""
    starts = (1 << max(end - len(run) + 1, start)) - (1 << start)
    for offset, piece in enumerate(run):
        if not starts:
            return -1
        if piece is not None:
            starts &= places.get(piece, 0) >> offset
    return (starts & -starts).bit_length() - 1
