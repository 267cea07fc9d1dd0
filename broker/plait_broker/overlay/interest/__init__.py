"""Interest: advertisements, and the filters that home brokers install at publishers' brokers."""
