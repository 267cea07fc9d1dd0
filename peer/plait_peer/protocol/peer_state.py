"""Who a peer is: what it wants and receives, what it tells others of itself, and what it has to say.

`wanted` is the exact mapping of the user-level subscription, `dz` the peer-level one: the same, or coarser (2.3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from plait_core.ids import Randomness
from plait_core.wire.frame_types.peer_frames import Happening, PeerFrame, Profile

from .outputs import Output, PeerId, Send
from .settings import PeerSettings
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
        "policies",
        "profile",
        "rng",
        "settings",
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
        self.policies = settings.policies
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

    def link_cost(self, peer: Profile | None = None, measured_s: float | None = None) -> float:
        """Return what the link to a peer adds to a delay."""
        return self.policies.link_cost.cost(peer, measured_s)

    def may_join(self, parent: Profile, bound: float) -> bool:
        """Return whether a child with this bound may connect to a parent, by the parent's profile."""
        may_connect = self.policies.may_connect
        return may_connect.allows(parent, parent.delay, parent.bound, bound, self.link_cost(parent))
