"""Stream groups: one stream from a publisher's broker to many brokers, along a tree."""
