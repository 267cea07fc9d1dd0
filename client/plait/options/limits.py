"""All bounds of the client, each with its reason. Bounds of events and frames are in `plait_core.limits`."""

from __future__ import annotations

PUBLISHERS_MAX = 1024
"""Publishers whose duplicates one subscription recognises, half a KiB each. The oldest is forgotten first."""

NOTICES_MAX = 1024
"""Notices that wait to be read. Consecutive losses share one notice. The oldest is discarded."""

BUFFER_ITEMS = 65_536
"""Events that wait for the application, per subscription: half a second at full rate."""

BUFFER_BYTES = 64 << 20
"""Bytes of events that wait for the application, per subscription."""

OUTBOX_ITEMS = 10_000
"""Publishes that wait to be sent or confirmed: some 50 ms at full rate. During an outage this is all that is kept."""

OUTBOX_BYTES = 16 << 20
"""Bytes of publishes that wait to be sent or confirmed."""

NOT_LOST_MAX = 65_536
"""Publishes above the highest confirmed one that were never sent or were given up. They must not be counted as lost."""

WRITE_BYTES = 256 << 10
"""Bytes of publishes per write: a full publish queue must not move into the transport's buffer."""

REQUESTS_MAX = 65_536
"""Requests that wait for an answer of the broker: subscriptions and advertisements being opened or changed."""

PINGS_MAX = 1024
"""Pings that wait for a pong."""

HEARTBEATS_MISSED_MAX = 3
"""Heartbeat periods without a byte from the broker after which the connection counts as lost."""

RETRY_REFUSED_S = 1.0
"""Seconds before a re-subscription that the broker refused for now is retried."""

STABLE_S = 5.0
"""Age of a connection in seconds at which the reconnect backoff is reset."""

URLS_MAX = 64
"""Addresses of one client, tried in turn."""

YIELD_EVERY = 512
"""Events that an iteration returns before it lets the event loop run: about two milliseconds."""

CLOSE_S = 1.0
"""Seconds that closing waits for the broker to close its end, or for another byte to be sent."""

NESTING_MAX = 8
"""Depth of nested mappings, dataclasses and models that are published as dotted names. It also ends cycles."""
