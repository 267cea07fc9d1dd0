"""PySpark imports every module named `pyspark_*` and registers its `DefaultSource`: here that of `format("plait")`."""

from plait_analytics.engines.plait_source import PlaitSource as DefaultSource

__all__ = ["DefaultSource"]
