"""The reference page of `format("plait")`."""

from __future__ import annotations

from typing import Final

from ..records.readable_records import COLUMNS, SCHEMA
from .source_options import OPTIONS
from .spark_types import SQL_TYPES

HEAD: Final = """# Telemetry in Spark

`format("plait")` reads telemetry in any session of PySpark 4. Nothing is registered: PySpark finds the module
`pyspark_plait` by its name. The Python of Spark's driver and workers needs `plait-analytics[spark]` installed. In an
active virtual environment it is the same Python; elsewhere `PYSPARK_PYTHON` names it.

```text
spark.read.format("plait").option("kinds", "delivery,drop").load(DIR)     records
spark.readStream.format("plait").load(DIR)                                records as they are written
spark.read.format("plait").option("table", "subscriptions").load(OUT)     the current rows of a table
```

[Analyse telemetry](../how-to/analyse.md#with-spark-and-live) has an example that runs.

- `read` on a directory of telemetry returns the records of all brokers below it, each once. Damaged segments are listed
  on stderr and left out.
- `readStream` returns records as they are written, with a checkpoint each exactly once. `load` takes one directory.
- `read` with the option `table` returns the current rows of a [table](tables.md). The columns are those of the table.
  The files are chosen when the query begins: a query that ends within a minute is not disturbed by a replacement, and a
  later task reports that the table was replaced.

Wrong options and directories are errors that say what would be right.
"""


def source_page() -> str:
    """Return the page as Markdown, without its first line."""
    options = [f"| `{name}` | {text} |" for name, text in OPTIONS.items()]
    columns = [f"| {name} | {SQL_TYPES[SCHEMA.field(name).type]} | {text} |" for name, (_, text) in COLUMNS.items()]
    return "\n".join(
        [
            HEAD,
            "## Options",
            "",
            "| option | meaning |",
            "|---|---|",
            *options,
            "",
            "## Columns of records",
            "",
            "A value that does not apply to a kind of record is null. [Telemetry](telemetry.md) has the kinds.",
            "",
            "| column | type | meaning |",
            "|---|---|---|",
            *columns,
            "",
        ]
    )
