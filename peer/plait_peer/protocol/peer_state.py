"""Who a peer is: what it wants and receives, what it tells others of itself, and what it has to say.

`wanted` is the exact mapping of the user-level subscription, `dz` the peer-level one: the same, or coarser (2.3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from plait_core.ids import Randomness
from plait_core.wire.frame_types.peer_frames import UNREACHED, Happening, PeerFrame, Profile

from .outputs import Output, PeerId, Send
from .settings import DelayMetric, DelayUnit, PeerSettings
from .subspaces import Texts, covers


@dataclass(slots=True)
class Counters:
    """What happened, for dashboards and studies."""

    delivered: int = 0
    false_positives: int = 0
    duplicates: int = 0
    outside: int = 0
    late: int = 0
    connects_sent: int = 0
    control_sent: int = 0
    events_sent: int = 0
    coarsened: int = 0
    refined: int = 0
    cycles: int = 0
    shunned: int = 0


class PeerState:
    """What all parts of one peer share."""

    __slots__ = (
        "address",
        "bound",
        "counters",
        "dropped",
        "dz",
        "id",
        "out",
        "period",
        "profile",
        "rng",
        "settings",
        "strategies",
        "wanted",
    )

    def __init__(
        self, me: PeerId, wanted: Texts, dz: Texts, bound: float, settings: PeerSettings, rng: Randomness, address: str
    ) -> None:
        assert me, "id 0 is nobody's"
        assert bound >= 0.0, "a bound is 0 for publishers, and more for subscribers"
        assert all(covers(dz, each) for each in wanted), "property 2 of 2.5.1: nothing that is wanted is left out"
        self.id = me
        self.wanted = wanted
        self.dz = dz
        self.bound = bound
        self.address = address
        self.settings = settings
        self.strategies = settings.strategies
        self.rng = rng
        self.out: list[Output] = []
        self.dropped: Callable[[Happening, str], None] | None = None
        """Is told of events that end here, and why, if somebody records that."""
        self.period = 0
        self.counters = Counters()
        delay = 0.0 if bound == 0.0 else float("inf")
        self.profile = Profile(me, 1, dz, bound, delay, settings.children_max, address=address)

    @property
    def publisher(self) -> bool:
        return self.bound == 0.0

    def send(self, to: PeerId, frame: PeerFrame, address: str = "") -> None:
        """Say something to a peer."""
        assert to != self.id, "nobody talks to himself"
        self.counters.control_sent += 1
        self.out.append(Send(to, address, frame))

    def renew(self, **changed: object) -> None:
        """Tell something else of myself from now on."""
        self.profile = replace(self.profile, version=self.profile.version + 1, **changed)  # type: ignore[arg-type]

    def link_delay(self, measured_s: float | None) -> float:
        """What a link adds to an event's delay."""
        if self.strategies.unit is DelayUnit.HOPS:
            return 1.0
        return self.settings.seconds_typical if measured_s is None else measured_s

    def suits(self, parent: Profile, bound: float, link: float) -> bool:
        """Whether a child with this bound may be below such a parent, by what is known of it (line 17, or 2.7)."""
        if self.strategies.metric is DelayMetric.REQUIREMENT:
            return parent.bound <= bound
        return expected(parent.delay, parent.bound) + link <= bound


def expected(delay: float, bound: float) -> float:
    """A peer's delay: as it experiences it; or until events reach it, its bound, since it will not stand more."""
    return delay if delay < UNREACHED else bound
