"""Our interest at one publisher's broker: what was announced to it, and the changes that it has not acked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

AGAIN_S: Final = 0.5
"""Retransmission timeout of a change. It doubles with each retransmission, up to `AGAIN_MAX_S`."""

OUTDATED: Final = math.inf
"""Above every version: an announced filter that must be announced again."""


@dataclass(frozen=True, slots=True)
class FilterChange:
    """The step from one version of a broker's table of our filters to the next."""

    version: int
    whole: bool
    added: tuple[int, ...]
    filters: tuple[str, ...]
    removed: tuple[int, ...]
    offers: int
    """The fingerprint of the advertisements that it was computed against."""
    more: bool = False
    """Whether further parts of the whole table follow."""
    routing: tuple[bytes, ...] = field(default=(), repr=False)
    """The routing tokens of each filter; () when no filter has any."""
    within_us: tuple[int, ...] = ()
    """The delay bound of each filter; () when no filter has one."""


@dataclass(slots=True)
class PeerInterest:
    """Our interest at one publisher's broker. Invariant: acked <= sent <= version.

    There is one for every other broker, mostly with nothing pending: an empty list takes 56 bytes, a deque 760.
    """

    refcount: dict[int, int] = field(default_factory=dict)
    """By exported filter, how many of its advertisements it meets."""
    announced: dict[int, float] = field(default_factory=dict)
    """By announced filter, the version that announced it; `OUTDATED` where the filter has been replaced since."""
    dirty: dict[int, None] = field(default_factory=dict)
    """Filters that may have to be announced or removed."""
    version: int = 0
    offers: int = 0
    """The fingerprint of its advertisements, as they are known here."""
    offers_announced: int = 0
    offers_there: int | None = None
    """The fingerprint in its last ack."""
    agree_from: int = 0
    """Acks of versions up to this one are older than its last return into reach: their fingerprints are ignored."""
    agreed: bool = False
    """Whether both sides have agreed on its advertisements since it came into reach. From then on it waits for our
    interest before it uses a new one."""
    sent: int = 0
    acked: int = 0
    unacked: list[FilterChange] = field(default_factory=list)
    again_at: float = 0.0
    again_s: float = AGAIN_S
    tries: int = 0
    """Retransmissions in a row without an ack."""
    asked: list[int] = field(default_factory=list)
    """Filters that it must ack even if they meet none of its advertisements."""
    again_to: int = 0
    """The last version that was retransmitted."""
    moved_at: float = -math.inf
    """The time of its last ack of a new version."""
    mute: bool = False
    """Whether its ack timed out, and it has acked no new version since."""
    stores_nothing: bool = False
    """Whether its ack of stored durable interest timed out, and it has acked no new version since."""
    counted: bool = False
    """Whether `InstallWatch` counts its acks of announced filters: it is in reach and not mute."""
    stores: list[tuple[int, int]] = field(default_factory=list)
    """Filters that it must ack in any case, each with the version to ack, in order."""
    stores_counted: bool = False
    """Whether `InstallWatch` counts these acks."""
    whole: bool = False
    """Whether the next change replaces its whole table: we had forgotten it, and it may have older filters of ours."""
