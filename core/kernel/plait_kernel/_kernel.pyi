"""The native module."""

from collections.abc import Sequence
from typing import TypeAlias

from plait_core.filters import Filter
from plait_core.limits import WireLimits
from plait_core.values import Attributes

_Buffer: TypeAlias = bytes | bytearray | memoryview
_Refusal: TypeAlias = tuple[str, str]

class Splitter:
    """Split buffers into the frames of one protocol version, after the handshake. `splitter_for` makes one."""

    def __new__(cls, limits: WireLimits, version: int, controls: list[tuple[int, bool, bool]]) -> Splitter: ...
    def split(self, buffer: _Buffer) -> tuple[list[tuple[int, int, int, int]], int, _Refusal | None]:
        """Split the frames at the start of a buffer.

        Return the frames as (type, start, body, end), the bytes that they take up, and the refusal of the next frame as
        (fault, message), or None. `frame_error` converts a refusal to a FrameError.
        """

class Index:
    """Filters under ids (0 to 2**63 - 1). Results are exact, without duplicates, and in ascending order."""

    def __new__(cls) -> Index: ...
    def add(self, id: int, filter: Filter) -> None:
        """Store `filter` under `id`. Raise IndexMisuse if the id is taken, FilterTooComplex if the filter is."""

    def remove(self, id: int) -> None:
        """Remove `id`; raise IndexMisuse if it is unknown."""

    def text(self, id: int) -> str:
        """Return the text of the filter under `id`; raise IndexMisuse if the id is unknown."""

    def match(self, attributes: Attributes) -> list[int]:
        """Return the ids whose filters are true of plain attributes."""

    def match_many(
        self, buffer: _Buffer, splitter: Splitter
    ) -> tuple[list[tuple[int, int, int, int, list[int] | None]], int, _Refusal | None]:
        """Split as `Splitter.split` does, and add the matches of each publish or forward frame; None for others."""

    def covering(self, filter: Filter) -> list[int]:
        """Return the ids whose filters cover `filter` (as `Filter.covers` decides)."""

    def covered(self, filter: Filter) -> list[int]:
        """Return the ids whose filters `filter` covers."""

    def intersecting(self, filter: Filter) -> list[int]:
        """Return the ids whose filters intersect `filter` (as `Filter.intersects` decides)."""

    def settle(self) -> None:
        """Wait until all added filters are merged into segments. Results do not depend on it."""

    def stats(self) -> dict[str, int]:
        """Return statistics of the index.

        These are filters, classes of equal filters, segments, conjunctions in and outside them, merges, and
        candidates that the last match tested.
        """

    def __len__(self) -> int: ...
    def __contains__(self, id: object) -> bool: ...

def measure_match(index: Index, events: Sequence[Attributes]) -> list[tuple[int, int]]:
    """Return nanoseconds in the kernel for each event, and the number of ids found. For benchmarks."""

def measure_covering(index: Index, filters: Sequence[Filter]) -> list[tuple[int, int]]:
    """Return nanoseconds in the kernel for each filter, and the number of ids found. For benchmarks."""

def measure_add(index: Index, ids: Sequence[int], filters: Sequence[Filter]) -> list[int]:
    """Return nanoseconds in the kernel for each addition. For benchmarks."""

def measure_remove(index: Index, ids: Sequence[int]) -> list[int]:
    """Return nanoseconds in the kernel for each removal. For benchmarks."""

def measure_match_many(index: Index, buffer: _Buffer, splitter: Splitter) -> tuple[int, int]:
    """Return nanoseconds in the kernel to split and match a buffer, and the number of its frames. For benchmarks."""
