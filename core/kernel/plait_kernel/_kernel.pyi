"""The native module."""

from collections.abc import Sequence
from typing import TypeAlias

from plait_core.filters import Filter
from plait_core.limits import WireLimits
from plait_core.values import Attributes

_Buffer: TypeAlias = bytes | bytearray | memoryview
_Refusal: TypeAlias = tuple[str, str]

class Splitter:
    """Cuts buffers into the frames of one protocol version, past the handshake. `splitter_for` makes one."""

    def __new__(cls, limits: WireLimits, version: int, controls: list[tuple[int, bool, bool]]) -> Splitter: ...
    def split(self, buffer: _Buffer) -> tuple[list[tuple[int, int, int, int]], int, _Refusal | None]:
        """The frames at the start of a buffer as (type, start, body, end), the bytes that they take up, and why the
        next is none: (fault, message), which `frame_error` makes a FrameError of."""

class Index:
    """Filters under ids (0 to 2**63 - 1). Answers are exact, free of duplicates, and in ascending order."""

    def __new__(cls) -> Index: ...
    def add(self, id: int, filter: Filter) -> None:
        """Keep `filter` under `id`; IndexMisuse when the id is taken, FilterTooComplex as the filter says."""

    def remove(self, id: int) -> None:
        """Forget `id`; IndexMisuse when it is not here."""

    def match(self, attributes: Attributes) -> list[int]:
        """The ids whose filters are true of plain attributes."""

    def match_many(
        self, buffer: _Buffer, splitter: Splitter
    ) -> tuple[list[tuple[int, int, int, int, list[int] | None]], int, _Refusal | None]:
        """As `Splitter.split`, with the ids that the event of each publish or forward frame matches; None in others."""

    def covering(self, filter: Filter) -> list[int]:
        """The ids whose filters cover `filter` (as `Filter.covers` decides)."""

    def covered(self, filter: Filter) -> list[int]:
        """The ids whose filters `filter` covers."""

    def intersecting(self, filter: Filter) -> list[int]:
        """The ids whose filters intersect `filter` (as `Filter.intersects` decides)."""

    def settle(self) -> None:
        """Wait until everything that was added is laid out for good. Answers do not depend on it."""

    def stats(self) -> dict[str, int]:
        """How it is doing: filters, classes of equal ones, segments, conjunctions in and outside them, merges, and
        candidates that the last match looked at."""

    def __len__(self) -> int: ...
    def __contains__(self, id: object) -> bool: ...

def measure_match(index: Index, events: Sequence[Attributes]) -> list[tuple[int, int]]:
    """For benchmarks: nanoseconds in the kernel for each event, and ids found."""

def measure_covering(index: Index, filters: Sequence[Filter]) -> list[tuple[int, int]]:
    """For benchmarks: nanoseconds in the kernel for each filter, and ids found."""

def measure_add(index: Index, ids: Sequence[int], filters: Sequence[Filter]) -> list[int]:
    """For benchmarks: nanoseconds in the kernel for each addition."""

def measure_remove(index: Index, ids: Sequence[int]) -> list[int]:
    """For benchmarks: nanoseconds in the kernel for each removal."""

def measure_match_many(index: Index, buffer: _Buffer, splitter: Splitter) -> tuple[int, int]:
    """For benchmarks: nanoseconds in the kernel to split and match a buffer, and its frames."""
