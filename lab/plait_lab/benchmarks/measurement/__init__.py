"""Single measurements used by the groups of benchmarks, and their workloads."""
