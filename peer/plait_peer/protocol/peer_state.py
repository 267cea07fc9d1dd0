"""The state that all parts of one peer share: its interest, its subscription, its profile and its outputs.

`interest` is the exact mapping of the user-level subscription, `dz` the peer-level subscription: equal to it, or
coarser (2.3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from plait_core.ids import Randomness
from plait_core.wire.frame_types.peer_frames import PeerEvent, PeerFrame, Profile

from .outputs import Output, PeerId, Send
from .settings import PeerSettings
from .subspaces import Texts, covers


@dataclass(slots=True)
class Counters:
    """Event and control counters, for dashboards and studies."""

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
    """The state that all parts of one peer share."""

    __slots__ = (
        "address",
        "bound",
        "counters",
        "dz",
        "id",
        "interest",
        "on_drop",
        "out",
        "period",
        "policies",
        "profile",
        "rng",
        "settings",
    )

    def __init__(
        self,
        id: PeerId,
        interest: Texts,
        dz: Texts,
        bound: float,
        settings: PeerSettings,
        rng: Randomness,
        address: str,
    ) -> None:
        assert id, "id 0 is reserved"
        assert bound >= 0.0, "a bound is 0 for publishers and positive for subscribers"
        assert all(covers(dz, each) for each in interest), "property 2 of 2.5.1: the subscription covers the interest"
        self.id = id
        self.interest = interest
        self.dz = dz
        self.bound = bound
        self.address = address
        self.settings = settings
        self.policies = settings.policies
        self.rng = rng
        self.out: list[Output] = []
        self.on_drop: Callable[[PeerEvent, str], None] | None = None
        """Callback for events that end at this peer, with the reason; None when nothing records them."""
        self.period = 0
        self.counters = Counters()
        delay = 0.0 if bound == 0.0 else float("inf")
        self.profile = Profile(id, 1, dz, bound, delay, settings.children_max, address=address)

    @property
    def publisher(self) -> bool:
        return self.bound == 0.0

    def send(self, to: PeerId, frame: PeerFrame, address: str = "") -> None:
        """Queue a frame for a peer."""
        assert to != self.id, "a peer sends no frame to itself"
        self.counters.control_sent += 1
        self.out.append(Send(to, address, frame))

    def update_profile(self, **changed: object) -> None:
        """Change fields of the profile, under a new version."""
        self.profile = replace(self.profile, version=self.profile.version + 1, **changed)  # type: ignore[arg-type]

    def link_cost(self, peer: Profile | None = None, measured_s: float | None = None) -> float:
        """Return what the link to a peer adds to a delay."""
        return self.policies.link_cost.cost(peer, measured_s)

    def may_join(self, parent: Profile, bound: float) -> bool:
        """Return whether a child with this bound may connect to a parent, by the parent's profile."""
        may_connect = self.policies.may_connect
        return may_connect.allows(parent, parent.delay, parent.bound, bound, self.link_cost(parent))
