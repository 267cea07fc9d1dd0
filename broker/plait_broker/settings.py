"""What the protocol of a broker can be told: times, windows and quotas. Each default says why it is that."""

from __future__ import annotations

from dataclasses import dataclass

from plait_core.limits import DUPLICATE_WINDOW, UNCONFIRMED_MAX


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Immutable; a reload makes a new one."""

    name: str = "broker"
    capabilities: tuple[str, ...] = ("resume", "durable")
    hello_timeout_s: float = 5.0
    """A connection that has not said hello by then is closed: slowloris costs five seconds."""
    heartbeat_s: float = 5.0
    """Silence after which a side pings; after three of them the other is taken for dead. 5,000 idle: 1,000 pings/s."""
    resume_s: float = 10.0
    """How long a session outlives its connection, with its subscriptions and what is queued."""
    sessions_max: int = 10_000
    subscriptions_max: int = 1_000_000
    """Of the whole broker."""
    session_subscriptions_max: int = 10_000
    session_advertisements_max: int = 1_000
    outbox_items_max: int = 65_536
    """A subscription may ask for less than these two, not for more."""
    outbox_bytes_max: int = 64 << 20
    session_outbox_bytes_max: int = 128 << 20
    """All queues of one client together."""
    duplicate_window: int = DUPLICATE_WINDOW
    publishers_max: int = 100_000
    """Publishers remembered for duplicate suppression; the longest silent is forgotten first."""
    unconfirmed_max: int = UNCONFIRMED_MAX
    """Events of one session whose confirmation is pending; more are refused as `limit`."""
    confirm_timeout_s: float = 30.0
    """After which an event that some subscriber has not acknowledged is reported as not confirmed."""
    durables_max: int = 10_000
    durable_window: int = 1024
    """Deliveries of one durable subscription that may await acknowledgement."""
    durable_fetch: int = 256
    """Log records read at once while a durable subscription catches up."""
    durable_tail: int = 4096
    """Log records kept in memory, so that who keeps up is never served from disk."""
    log_filter: str = ""
    """Events that are logged though no durable subscription wants them yet, for `start=all`; empty for none."""
    slow_fraction: float = 0.5
    """How full a subscription's queue is when its subscriber is told that it is slow."""
