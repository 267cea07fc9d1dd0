"""Tables computed from the telemetry of brokers: subscriptions, links, brokers, publishers and end-to-end audits.

`inventory.py` finds segments and `batches.py` reads them. `definitions.py` defines each table once for both engines;
`duckdb_engine.py` and `spark_engine.py` compute the tables. `lake.py` stores them as Parquet.
"""

from .records.inventory import Inventory, SegmentFile, take_inventory
from .tables.definitions import TABLES
from .tables.lake import Lake, read
from .tables.table import Table

__all__ = ["TABLES", "Inventory", "Lake", "SegmentFile", "Table", "read", "take_inventory"]
