"""What the telemetry of Plait's brokers says: tables of subscriptions, links, brokers, publishers and journeys.

`inventory.py` finds segments, `batches.py` reads them, `definitions.py` says what is computed, once for both engines;
`duckdb_engine.py` and `spark_engine.py` compute it, `lake.py` keeps it as Parquet.
"""

from .records.inventory import Inventory, SegmentFile, take_inventory
from .tables.definitions import TABLES
from .tables.lake import Lake
from .tables.table import Table

__all__ = ["TABLES", "Inventory", "Lake", "SegmentFile", "Table", "take_inventory"]
