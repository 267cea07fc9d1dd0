"""Growing segments as a streaming source of Spark. `stream_offsets.py` defines the batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from time import time
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ..commands.console import progress
from ..engines.spark_types import ddl
from ..records.counts import SCHEMA as COUNTS
from ..records.growing_segments import GrowingSegments
from ..records.stream_offsets import Offset, Portion, StreamOffsets, read_portion

FORMAT: Final = "plait-telemetry-live"


class LivePart(InputPartition):
    """The records that one task reads."""

    def __init__(self, portion: Portion) -> None:
        super().__init__(0)
        self.portion = portion


class LiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads records from one offset to the next."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._opened: StreamOffsets | None = None

    def initialOffset(self) -> Offset:
        """Return the offset at the beginning of all segments."""
        return self._following.begin()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the record limit of a batch."""
        return ReadMaxRows(int(self._options["records_max"]))

    def prepareForTriggerAvailableNow(self) -> None:
        """Make the current end of the segments the last offset."""
        self._following.stop_here()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the offset at which the next batch ends."""
        most = None if isinstance(limit, ReadAllAvailable) else int(self._options["records_max"])
        return self._following.end(start, most, round(time() * 1_000_000))

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the partitions. Called on the driver."""
        portions = self._following.portions(start, end, int(self._options["parts"]), progress)
        return [LivePart(portion) for portion in portions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition. Called in a worker."""
        assert isinstance(partition, LivePart)
        return read_portion(partition.portion)

    @property
    def _following(self) -> StreamOffsets:
        if self._opened is None:  # not when a worker unpickles the reader
            shards = GrowingSegments(json.loads(self._options["directories"]), progress)
            self._opened = StreamOffsets(shards, int(self._options["window_us"]), int(self._options["late_us"]))
        return self._opened


class LiveSource(DataSource):
    """The streaming data source. Its options are `directories` (JSON), `parts`, `window_us`, `late_us` and
    `records_max`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """Return the schema as a Spark DDL string."""
        return f"{ddl(COUNTS)}, at timestamp, state int"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return LiveReader(self.options)
