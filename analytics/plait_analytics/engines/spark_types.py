"""Arrow schemas as Spark's: the types that tables and records have."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_WIDE: Final = pa.decimal128(20, 0)
"""The type of unsigned numbers of 64 bits, as Spark's own Parquet reader chooses it."""

SQL_TYPES: Final = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
    _WIDE: "decimal(20,0)",
}


def ddl(schema: pa.Schema) -> str:
    """Return a schema as a Spark DDL string."""
    return ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in schema)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the types in which Spark takes batches."""
    return pa.schema([pa.field(f.name, _WIDE if f.type == pa.uint64() else f.type) for f in schema])
