"""Segments as a Spark data source: slices chosen by the driver, packed into as many partitions as there are cores.

The driver says which records to read, so that what it has checked is what is computed from. A partition gives Arrow
batches, and Spark makes no row objects of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from .batches import SCHEMA, Slice, packed, read_slices

FORMAT = "plait-telemetry"


class Part(InputPartition):
    """What one task reads."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(0)
        self.slices = list(slices)


class SegmentReader(DataSourceReader):
    """Reads given slices."""

    def __init__(self, slices: Sequence[Slice], parts: int) -> None:
        self._slices = slices
        self._parts = parts

    def partitions(self) -> Sequence[InputPartition]:
        """On the driver."""
        return [Part(slices) for slices in packed(self._slices, self._parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a worker."""
        assert isinstance(partition, Part)
        yield from read_slices(partition.slices)


class SegmentSource(DataSource):
    """Its options: `slices`, a JSON list of them, and `parts`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """As Spark writes that of `batches.py`."""
        return ", ".join(f"{field.name} {'bigint' if pa.types.is_int64(field.type) else 'int'}" for field in SCHEMA)

    def reader(self, schema: object) -> DataSourceReader:
        slices = [Slice(*piece) for piece in json.loads(self.options["slices"])]
        return SegmentReader(slices, int(self.options["parts"]))


def records_of(spark: SparkSession, slices: Sequence[Slice], parts: int) -> DataFrame:
    """The records of slices, as a data frame."""
    spark.dataSource.register(SegmentSource)
    return spark.read.format(FORMAT).option("slices", json.dumps(slices)).option("parts", parts).load()
