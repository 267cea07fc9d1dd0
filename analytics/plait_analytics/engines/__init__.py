"""The engines that compute the tables: DuckDB and Spark."""
