"""Offsets of a live analysis: where a batch begins and ends, and which of its records count.

An offset is `{"at": {SHARD: [segment, records]}, "seen_us", "horizon_us"}`. It determines the batch completely: reading
a batch again gives the same records, with the same ones late. `seen_us` is the newest record's time so far. Records
after `horizon_us` come from a wrong calendar; they are set aside and do not move the watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from plait_core.telemetry import RecordKind
from plait_core.values import Json

from .batches import COUNTED_RECORDS, packed
from .columns import Columns, Slice, chunks, length, of_those
from .counts import COUNTED, counted, merged_batch
from .counts import SCHEMA as COUNTS
from .growing_segments import SHARDS_MAX, GrowingSegments, Position, chosen

AHEAD_US: Final = 60_000_000
"""Microseconds by which a broker's calendar may be ahead of this machine's."""

PIECE_RECORDS: Final = 1 << 17
"""Records of a slice, so that parts are about equal."""

GOOD, LATE, ODD = 0, 1, 2
"""States of records: they count, their window is closed, or their time or kind is invalid."""

SCHEMA: Final = COUNTS.append(pa.field("at", pa.timestamp("us", tz="UTC"))).append(pa.field("state", pa.int32()))

Offset: TypeAlias = Json


class Portion(NamedTuple):
    """The slices that one worker reads, and the limits that classify their records."""

    slices: list[Slice]
    window_us: int
    closed_us: int
    horizon_us: int


class StreamPositions:
    """The positions of a stream in growing segments: `{SHARD: [segment, records]}`. It keeps no state of its own."""

    def __init__(self, shards: GrowingSegments) -> None:
        self._shards = shards
        self._last: dict[str, Position] | None = None

    def end_of_all(self) -> dict[str, list[int]]:
        """Return the current end of the segments."""
        places = {}
        for name, shard in self._shards.scan().items():
            for stretch in self._shards.unread(shard, (0, 0)):
                places[name] = [stretch.number, stretch.piece.records]
        return places

    def stop_here(self) -> None:
        """Make the current end of the segments the last position."""
        self._last = {name: (number, records) for name, (number, records) in self.end_of_all().items()}

    def advance(
        self, at: Mapping[str, Sequence[int]], most: int | None
    ) -> tuple[dict[str, list[int]], dict[str, list[Slice]]]:
        """Return the positions about `most` records later, and the records up to them by shard."""
        places = {name: list(place) for name, place in at.items()}
        unread = {}
        for name, shard in self._shards.scan().items():
            last = self._last.get(name, (0, 0)) if self._last is not None else None
            stretches = self._shards.unread(shard, _position(places.get(name)), last)
            if stretches:
                unread[name] = stretches
        taken = chosen(unread, most) if unread else {}
        for name, pieces in taken.items():
            numbers = {stretch.piece.path: stretch.number for stretch in unread[name]}
            places[name] = [numbers[pieces[-1].path], pieces[-1].first + pieces[-1].records]
        kept = sorted(places, key=lambda name: name.rpartition("-")[2])[-SHARDS_MAX:]
        return {name: places[name] for name in sorted(kept)}, taken

    def between(
        self, start: Mapping[str, Sequence[int]], end: Mapping[str, Sequence[int]], report: Callable[[str], None]
    ) -> list[Slice]:
        """Return the records from one position to another."""
        shards, slices = self._shards.scan(), []
        for name, place in end.items():
            if _position(start.get(name)) == _position(place):
                continue
            if name not in shards:
                report(f"{name}: its segments were deleted before they were read")
                continue
            stretches = self._shards.unread(shards[name], _position(start.get(name)), _position(place))
            slices += [stretch.piece for stretch in stretches]
        return slices


class StreamOffsets:
    """The driver's half: it keeps no state that is not in an offset."""

    def __init__(self, shards: GrowingSegments, window_us: int, late_us: int) -> None:
        self._positions = StreamPositions(shards)
        self._window_us = window_us
        self._late_us = late_us
        self.stop_here = self._positions.stop_here

    def begin(self) -> Offset:
        """Return the offset before the first record."""
        return {"at": {}, "seen_us": 0, "horizon_us": 0}

    def end(self, start: Offset, most: int | None, now_us: int) -> Offset:
        """Return the end of the next batch, about `most` records after `start`; `start` itself without new records."""
        places, taken = self._positions.advance(start["at"], most)
        if not taken:
            return start
        horizon_us, seen_us = now_us + AHEAD_US, start["seen_us"]
        for pieces in taken.values():
            seen_us = max(seen_us, _newest(pieces, horizon_us))
        return {"at": places, "seen_us": seen_us, "horizon_us": horizon_us}

    def portions(self, start: Offset, end: Offset, parts: int, report: Callable[[str], None]) -> list[Portion]:
        """Return the records between two offsets in `parts` portions."""
        slices = self._positions.between(start["at"], end["at"], report)
        if not slices:
            return []
        closed_us = start["seen_us"] - self._late_us
        return [Portion(part, self._window_us, closed_us, end["horizon_us"]) for part in packed(divided(slices), parts)]


def read_portion(portion: Portion) -> Iterator[pa.RecordBatch]:
    """The worker's half: yield partial counts by the state of their records."""
    held: dict[int, list[pa.RecordBatch]] = {GOOD: [], LATE: [], ODD: []}
    for records, broker in chunks(portion.slices, COUNTED_RECORDS, COUNTED):
        states = _states(records, portion)
        for state, batches in held.items():
            mine = of_those(records, states == state)
            if length(mine):
                batches.extend(counted(mine, broker, portion.window_us))
    for state, batches in held.items():
        if batches:
            yield _live(merged_batch(batches), state)


def _position(place: Sequence[int] | None) -> Position:
    return (place[0], place[1]) if place is not None else (0, 0)


def divided(slices: Sequence[Slice]) -> list[Slice]:
    """Divide slices, so that parts made of them are about equal."""
    return [
        piece._replace(first=piece.first + first, records=min(PIECE_RECORDS, piece.records - first))
        for piece in slices
        for first in range(0, piece.records, PIECE_RECORDS)
    ]


def _states(records: Columns, portion: Portion) -> np.ndarray:
    times, kinds = records["ts_us"], records["kind"]
    kinds_odd = (kinds < int(min(RecordKind))) | (kinds > int(max(RecordKind)))
    first, last = int(times.min()), int(times.max())
    ends_us = first - first % portion.window_us + portion.window_us
    if first >= 0 and last <= portion.horizon_us and ends_us > portion.closed_us and not kinds_odd.any():
        return np.full(len(times), GOOD)  # the usual case
    ends = times // portion.window_us * portion.window_us + portion.window_us
    odd = (times > portion.horizon_us) | (times < 0) | kinds_odd
    return np.where(odd, ODD, np.where(ends <= portion.closed_us, LATE, GOOD))


def _newest(pieces: Sequence[Slice], horizon_us: int) -> int:
    """Return the greatest valid time in these records."""
    newest = 0
    for records, _ in chunks(pieces, COUNTED_RECORDS, ["ts_us"]):
        times = records["ts_us"]
        greatest = int(times.max())
        newest = max(newest, greatest if greatest <= horizon_us else int(times[times <= horizon_us].max(initial=0)))
    return newest


def _live(batch: pa.RecordBatch, state: int) -> pa.RecordBatch:
    at = batch.column("ts_max").cast(pa.timestamp("us", tz="UTC"))
    states = pa.array(np.full(batch.num_rows, state, np.int32))
    return pa.RecordBatch.from_arrays([*batch.columns, at, states], schema=SCHEMA)
