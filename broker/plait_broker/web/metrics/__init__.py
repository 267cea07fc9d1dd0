"""The broker's metrics in the format of Prometheus."""
