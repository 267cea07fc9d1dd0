"""Single measurements that the groups of benchmarks put into tables, and the workloads that they use."""
