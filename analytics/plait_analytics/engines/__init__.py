"""What computes the tables: DuckDB, or Spark."""
