"""`spark.read.format("plait")`: recorded telemetry, or the tables made of it, in any session of PySpark 4.

    spark.read.format("plait").load(DIR)                                     the records of brokers
    spark.readStream.format("plait").load(DIR)                               the records as they are written
    spark.read.format("plait").option("table", "subscriptions").load(OUT)    the current rows of a table

PySpark imports `pyspark_plait`, so nothing needs to be registered. The driver chooses what is read; the workers read it
and need plait-analytics installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from ..commands.console import progress
from ..records.batches import packed, slices_of
from ..records.columns import Slice
from ..records.growing_segments import GrowingSegments
from ..records.id_names import read_names
from ..records.inventory import take_inventory
from ..records.readable_records import SCHEMA, read_readable
from ..records.stream_offsets import StreamPositions, divided
from ..records.words import IdNames
from .source_options import SourceError, SourceOptions
from .spark_types import ddl, spark_schema

try:
    from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

    _Streaming: tuple[type, ...] = (DataSourceStreamReader, SupportsTriggerAvailableNow)
except ImportError:  # before PySpark 4.2, whose streams read all that there is in one batch
    ReadMaxRows, _Streaming = None, (DataSourceStreamReader,)

FORMAT: Final = "plait"

PARTS_MAX: Final = 256
"""Partitions of a read. Each has a slice of records or several, so a small read has few."""


class Files(InputPartition):
    """A file of a table."""

    def __init__(self, path: str) -> None:
        super().__init__(0)
        self.path = path


class Records(InputPartition):
    """The records that one task reads, and the names of ids in them."""

    def __init__(self, slices: Sequence[Slice], names: IdNames) -> None:
        super().__init__(0)
        self.slices = list(slices)
        self.names = names


class TableReader(DataSourceReader):
    """Reads the current files of a table."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions. Called on the driver."""
        lake = self._options.lake
        return [Files(str(lake.directory / file)) for file in lake.files(self._options.table)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition. Called in a worker."""
        assert isinstance(partition, Files)
        try:
            table = pq.read_table(partition.path, partitioning=None)
        except FileNotFoundError:
            raise SourceError(f"{partition.path} is gone: the table was replaced long ago, read it again") from None
        yield from table.cast(spark_schema(table.schema)).to_batches()


class RecordReader(DataSourceReader):
    """Reads the records that there are."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions. Called on the driver."""
        inventory = take_inventory(self._options.directories)
        for finding in inventory.findings:
            progress(f"left out: {finding.path}: {finding.why}")
        slices = slices_of(inventory.segments, between=self._options.between)
        names = IdNames(read_names(inventory))
        return [Records(part, names) for part in packed(slices, min(PARTS_MAX, max(1, len(slices)))) if part]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition. Called in a worker."""
        assert isinstance(partition, Records)
        return read_readable(partition.slices, self._options.kinds, partition.names)


class RecordStream(*_Streaming):  # type: ignore[misc]
    """Reads records as they are written. An offset is `{"at": {SHARD: [segment, records]}}`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._opened: StreamPositions | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset at which the stream begins."""
        return {"at": self._positions.end_of_all() if self._options.starting == "latest" else {}}

    def getDefaultReadLimit(self) -> Any:
        """Return the record limit of a batch."""
        return ReadMaxRows(self._options.records_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Make the current end of the segments the last offset."""
        self._positions.stop_here()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """Return the offset at which the next batch ends. PySpark before 4.2 gives no start."""
        if start is None:
            return {"at": self._positions.end_of_all()}
        return {"at": self._positions.advance(start["at"], self._options.records_max)[0]}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions. Called on the driver."""
        slices = [
            piece._replace(from_us=self._options.between[0])
            for piece in self._positions.between(start["at"], end["at"], progress)
        ]
        if not slices:
            return []
        names = IdNames(read_names(take_inventory(self._options.directories, verify=False)))
        pieces = divided(slices)
        return [Records(part, names) for part in packed(pieces, min(PARTS_MAX, len(pieces))) if part]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition. Called in a worker."""
        assert isinstance(partition, Records)
        return read_readable(partition.slices, self._options.kinds, partition.names)

    @property
    def _positions(self) -> StreamPositions:
        if self._opened is None:  # not when a worker unpickles the reader
            self._opened = StreamPositions(GrowingSegments(self._options.directories, progress))
        return self._opened


class PlaitSource(DataSource):
    """The data source. `source_options.py` has its options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """Return the schema as a Spark DDL string."""
        options = SourceOptions(self.options)
        if not options.table:
            options.refuse_tables()
            return ddl(SCHEMA)
        (file, *_) = options.lake.files(options.table)
        return ddl(spark_schema(pq.read_schema(options.lake.directory / file)))

    def reader(self, schema: object) -> DataSourceReader:
        options = SourceOptions(self.options)
        if options.starting == "latest":
            raise SourceError("startingTime latest is for streams", hint="give a time")
        return TableReader(options) if options.table else RecordReader(options)

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        options = SourceOptions(self.options)
        if options.table or options.bounded:
            raise SourceError("a stream reads records and does not end: read tables, and up to a time, with spark.read")
        return RecordStream(options)
