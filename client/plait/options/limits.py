"""Every bound of the client, by name, with its reason; those of events and frames are in `plait_core.limits`."""

from __future__ import annotations

PUBLISHERS_MAX = 1024
"""Publishers whose duplicates one subscription tells apart, half a KiB each; the first known is forgotten first."""

NOTICES_MAX = 1024
"""Gaps and other notices that wait to be read; drops in a row share one. The oldest goes, and is counted."""

BUFFER_ITEMS = 65_536
"""Events that wait for the application, per subscription: half a second at full speed."""

BUFFER_BYTES = 64 << 20
"""Bytes of events that wait for the application, per subscription."""

OUTBOX_ITEMS = 10_000
"""Publishes that wait to be sent or confirmed: some 50 ms at full speed, and all that an outage keeps."""

OUTBOX_BYTES = 16 << 20
"""Bytes of publishes that wait to be sent or confirmed."""

NOT_LOST_MAX = 65_536
"""Publishes beyond the highest confirmed that never went out, or were given up, and must not be taken for lost."""

WRITE_BYTES = 256 << 10
"""Bytes of publishes given to the transport at once, so that a full outbox does not move into its buffer."""

REQUESTS_MAX = 65_536
"""Requests that wait for an answer: subscriptions and advertisements being opened or changed."""

PINGS_MAX = 1024
"""Pings that wait for a pong."""

SILENT_HEARTBEATS = 3
"""Heartbeats without a byte from the broker after which the connection is taken for dead."""

RETRY_REFUSED_S = 1.0
"""Wait before a re-subscription that the broker could not serve is tried again."""

STABLE_S = 5.0
"""A connection that lived this long was a good one: the backoff starts anew after it."""

URLS_MAX = 64
"""Addresses that are tried in turn."""

YIELD_EVERY = 512
"""Events that an iteration hands out before it lets the event loop run: about two milliseconds."""

CLOSE_S = 1.0
"""How long closing waits for the broker to close its end, or for another byte to leave."""
