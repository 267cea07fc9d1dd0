"""Segments as a Spark data source, packed into as many partitions as there are cores.

The driver chooses the slices, so the records it verified are the records that are read. A partition yields Arrow
batches; Spark makes no row objects of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ..records.batches import SCHEMA as RECORDS
from ..records.batches import WEIGHTS, packed, read_counts, read_pieces, read_slices, read_weights
from ..records.columns import Slice
from ..records.counts import SCHEMA as COUNTS
from ..records.event_fragments import SCHEMA as PIECES
from .spark_types import ddl

FORMAT = "plait-telemetry"

PIECES_OF = "(pieces)"
WEIGHTS_OF = "(weights)"
"""Names that stand for the fragment and weight schemas in the option `columns`."""


class Part(InputPartition):
    """The slices that one task reads."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(0)
        self.slices = list(slices)


class SegmentReader(DataSourceReader):
    """Reads slices: as records, as partial counts, or as event fragments."""

    def __init__(
        self, slices: Sequence[Slice], parts: int, columns: Sequence[str], window_us: int, weight: int
    ) -> None:
        self._slices = slices
        self._parts = parts
        self._columns = columns
        self._window_us = window_us
        self._weight = weight

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions. Called on the driver."""
        return [Part(slices) for slices in packed(self._slices, self._parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition. Called in a worker."""
        assert isinstance(partition, Part)
        if self._window_us:
            return read_counts(partition.slices, self._window_us)
        if self._columns == [PIECES_OF]:
            return read_pieces(partition.slices, self._weight)
        if self._columns == [WEIGHTS_OF]:
            return read_weights(partition.slices)
        return read_slices(partition.slices, self._columns)


class SegmentSource(DataSource):
    """The data source of this package. Its options are `slices` (JSON), `parts`, and either `columns` or `window_us`.

    `columns` selects record columns, fragments or weights; `window_us` selects counts. `weight` applies to fragments.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """Return the schema as a Spark DDL string."""
        if "window_us" in self.options:
            return ddl(COUNTS)
        if self.options["columns"] == PIECES_OF:
            return ddl(PIECES)
        if self.options["columns"] == WEIGHTS_OF:
            return ddl(WEIGHTS)
        return ddl(pa.schema([RECORDS.field(name) for name in self.options["columns"].split(",")]))

    def reader(self, schema: object) -> DataSourceReader:
        slices = [Slice(*piece) for piece in json.loads(self.options["slices"])]
        columns, window_us = self.options.get("columns", "").split(","), int(self.options.get("window_us", 0))
        weight = int(self.options.get("weight", 1))
        return SegmentReader(slices, int(self.options["parts"]), columns, window_us, weight)


def records_of(spark: SparkSession, slices: Sequence[Slice], parts: int, columns: Sequence[str]) -> DataFrame:
    """Return a data frame of the records in slices."""
    return _source(spark, slices, parts).option("columns", ",".join(columns)).load()


def counts_of(spark: SparkSession, slices: Sequence[Slice], parts: int, window_us: int) -> DataFrame:
    """Return a data frame of partial counts. Workers count what they read, so few rows reach Spark."""
    return _source(spark, slices, parts).option("window_us", window_us).load()


def fragments_source(spark: SparkSession, slices: Sequence[Slice], parts: int, weight: int) -> DataFrame:
    """Return a data frame of event fragments, for the events that a sampling of one in `weight` keeps."""
    return _source(spark, slices, parts).option("columns", PIECES_OF).option("weight", weight).load()


def weights_of(spark: SparkSession, slices: Sequence[Slice], parts: int) -> DataFrame:
    """Return a data frame of the greatest weight of each chunk."""
    return _source(spark, slices, parts).option("columns", WEIGHTS_OF).load()


def _source(spark: SparkSession, slices: Sequence[Slice], parts: int) -> DataFrameReader:
    spark.dataSource.register(SegmentSource)
    return spark.read.format(FORMAT).option("slices", json.dumps(slices)).option("parts", parts)
