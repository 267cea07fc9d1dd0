"""The control frames of brokerless peers: gossip, tree maintenance, events and confirmed delivery (thesis ch. 2).

Gossip carries the profiles of peers (2.4.2.2). Connect to DetectCycle are the messages of Algorithm 1. Pulse and Beat
keep its connections alive and measure their delays (2.7). PeerEvent is the EVENT of Algorithm 2; Enrol, Enrolled and
Taken confirm its delivery. Meeting and LinkPair belong to the links between processes. Sub-spaces are texts of 0 and 1,
and sets of them are in canonical order. Bounds and delays are in hops or in seconds, the same for a whole group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Final, TypeAlias

from ...limits import (
    ACKNOWLEDGED_MAX,
    ADDRESS_TEXT_MAX,
    DZ_BITS_MAX,
    NAME_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PEER_DZ_MAX,
    PEER_HINTS_MAX,
    PEER_RECENT_MAX,
    PEER_SAMPLE_MAX,
    PEER_SOURCES_MAX,
)
from .frame_schema import U64, AtMost, ControlFrame, control
from .frame_schema import Between as Within

Name: TypeAlias = Annotated[str, AtMost(NAME_BYTES_MAX)]
DzText: TypeAlias = Annotated[str, AtMost(DZ_BITS_MAX)]
DzTexts: TypeAlias = Annotated[tuple[DzText, ...], AtMost(PEER_DZ_MAX)]
Delay: TypeAlias = Annotated[float, Within(0.0, math.inf)]
Rate: TypeAlias = Annotated[float, Within(0.0, 1e12)]
Age: TypeAlias = Annotated[int, Within(0, 2**31)]
Count: TypeAlias = Annotated[int, Within(0, 2**31)]

UNREACHED: Final = math.inf
"""The delay of a peer that some relevant publisher's events do not reach."""
CHASE_HOPS_MAX: Final = 64
"""Hops after which the search for a cycle ends, and the most hops of an event that a peer accepts."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A peer's description of itself. The higher of two versions is the later."""

    peer: U64
    version: U64
    dz: DzTexts
    """The peer-level subscription, or the advertisement of a publisher."""
    bound: Delay
    """The delay that the peer tolerates; 0 for a publisher."""
    delay: Delay = UNREACHED
    """The longest delay of relevant publishers' events to the peer."""
    free: Count = 0
    """Number of further children that the peer would accept without dropping one."""
    rates: Annotated[tuple[Rate, ...], AtMost(PEER_DZ_MAX)] = ()
    """Measured events a second in each of `dz`."""
    recent_numbers: Annotated[tuple[U64, ...], AtMost(PEER_RECENT_MAX)] = ()
    """Of a publisher: numbers of some of its last events, so that subscribers notice missing ones."""
    recent_dz: Annotated[tuple[DzText, ...], AtMost(PEER_RECENT_MAX)] = ()
    address: Name = ""

    @property
    def publisher(self) -> bool:
        """True if the peer publishes, and does not subscribe."""
        return self.bound == 0.0

    def problem(self) -> str:
        """Describe an inconsistency between fields that are each valid. Empty if there is none."""
        if self.rates and len(self.rates) != len(self.dz):
            return "a rate for each sub-space, or none at all"
        if len(self.recent_numbers) != len(self.recent_dz):
            return "a sub-space for each recent event"
        return dz_problem(self.dz) or next((text_problem(dz) for dz in self.recent_dz if text_problem(dz)), "")


def text_problem(dz: str) -> str:
    """Return the reason why a text is not a plain dz-expression; empty if it is one."""
    return "a sub-space is a text of 0 and 1" if dz.strip("01") else ""


def dz_problem(texts: tuple[str, ...]) -> str:
    """Return the reason why texts are not a set of dz-expressions in canonical order: sorted, none covering another."""
    if any(dz.strip("01") for dz in texts):
        return "a sub-space is a text of 0 and 1"
    # In sorted order, a text is directly followed by those that it covers.
    ordered = all(a < b and not b.startswith(a) for a, b in pairwise(texts))
    return "" if ordered else "sub-spaces are sorted, and none covers another"


Profiles: TypeAlias = Annotated[tuple[Profile, ...], AtMost(PEER_SAMPLE_MAX)]
Hints: TypeAlias = Annotated[tuple[Profile, ...], AtMost(PEER_HINTS_MAX)]


def _profiles_problem(profiles: tuple[Profile, ...]) -> str:
    return next((problem for profile in profiles if (problem := profile.problem())), "")


@control(0x60)
@dataclass(frozen=True, slots=True)
class Gossip(ControlFrame):
    """Half of an exchange of the peer sampling service. The receiver answers a request with a reply."""

    reply: bool
    profiles: Profiles
    ages: Annotated[tuple[Age, ...], AtMost(PEER_SAMPLE_MAX)]
    """For each profile, the number of periods since its peer sent it, roughly."""
    adverts: Profiles = ()
    """Profiles of publishers, gossiped to every peer: there are few, and peers need them soon."""
    advert_ages: Annotated[tuple[Age, ...], AtMost(PEER_SAMPLE_MAX)] = ()

    def problem(self) -> str:
        if len(self.profiles) != len(self.ages) or len(self.adverts) != len(self.advert_ages):
            return "an age for each profile"
        if not all(profile.publisher for profile in self.adverts):
            return "adverts are those of publishers"
        return _profiles_problem(self.profiles) or _profiles_problem(self.adverts)


@control(0x61)
@dataclass(frozen=True, slots=True)
class Connect(ControlFrame):
    """A child's complete request to a parent (Algorithm 1, line 15).

    It replaces earlier ones; repeating it is harmless.
    """

    profile: Profile
    dz: DzTexts

    def problem(self) -> str:
        return self.profile.problem() or dz_problem(self.dz) or ("" if self.dz else "a connection for nothing")


@control(0x62)
@dataclass(frozen=True, slots=True)
class Accept(ControlFrame):
    """A parent's acceptance of a child for these sub-spaces: the ACK of line 26."""

    profile: Profile
    dz: DzTexts
    sources: Annotated[tuple[U64, ...], AtMost(PEER_SOURCES_MAX)]
    """The publishers whose events it forwards, including itself if it is one."""
    delays: Annotated[tuple[Delay, ...], AtMost(PEER_SOURCES_MAX)]
    """The delays of their events to the parent."""

    def problem(self) -> str:
        same = len(self.sources) == len(self.delays)
        return (self.profile.problem() or dz_problem(self.dz)) if same else "a delay for each source"


@control(0x63)
@dataclass(frozen=True, slots=True)
class PotentialParent(ControlFrame):
    """Better parents (lines 24 and 29): sent instead of an Accept, or after a Disconnect."""

    refused: bool
    """True if it answers a Connect."""
    dz: DzTexts
    """The sub-spaces that the hints are for."""
    hints: Hints = ()
    bar_volume: Annotated[float, Within(0.0, 1e9)] = 0.0
    """The share of the event space of the child that would be dropped next."""
    bar_bound: Delay = UNREACHED
    """The delay that this child tolerates. With the defaults any child beats it: the parent was not full."""

    def problem(self) -> str:
        return dz_problem(self.dz) or _profiles_problem(self.hints)


@control(0x64)
@dataclass(frozen=True, slots=True)
class Disconnect(ControlFrame):
    """The end of a connection, in both directions (lines 23 and 38)."""

    reason: Name = ""


@control(0x65)
@dataclass(frozen=True, slots=True)
class DetectCycle(ControlFrame):
    """A search for a cycle down the connections for one sub-space (lines 35 and 42)."""

    originator: U64
    dz: DzText
    bound: Delay
    hops: Annotated[int, Within(0, CHASE_HOPS_MAX)] = 0

    def problem(self) -> str:
        return text_problem(self.dz)


@control(0x66)
@dataclass(frozen=True, slots=True)
class Pulse(ControlFrame):
    """A child's keepalive, which requests a Beat from its parent."""

    number: U64
    profile: Profile | None = None
    """Set if it has changed since the last Pulse."""

    def problem(self) -> str:
        return self.profile.problem() if self.profile else ""


@control(0x67)
@dataclass(frozen=True, slots=True)
class Beat(ControlFrame):
    """A parent's keepalive, with the publishers whose events it forwards and their delays (thesis 2.7)."""

    number: U64
    """Number of the Pulse that it answers; 0 for none."""
    sources: Annotated[tuple[U64, ...], AtMost(PEER_SOURCES_MAX)]
    delays: Annotated[tuple[Delay, ...], AtMost(PEER_SOURCES_MAX)]
    profile: Profile | None = None

    def problem(self) -> str:
        if len(self.sources) != len(self.delays):
            return "a delay for each source"
        return self.profile.problem() if self.profile else ""


@control(0x68)
@dataclass(frozen=True, slots=True)
class PeerEvent(ControlFrame):
    """An event on its way from peer to peer (Algorithm 2)."""

    publisher: U64
    number: U64
    dz: DzText
    """The finest sub-space that contains it."""
    delay: Delay
    """The delay accumulated on the way."""
    hops: Annotated[int, Within(0, CHASE_HOPS_MAX)]
    block: Annotated[bytes, AtMost(PAYLOAD_BYTES_MAX)] = b""
    round: Count = 0
    """The delivery round of an event with confirmation: 1 down the tree, more for retransmissions; 0 without
    confirmation.
    """

    def problem(self) -> str:
        return text_problem(self.dz)


@control(0x69)
@dataclass(frozen=True, slots=True)
class Enrol(ControlFrame):
    """A subscriber's registration for a publisher's confirmed events in these sub-spaces. Repeated as a keepalive."""

    number: U64
    dz: DzTexts
    """Empty if the subscriber leaves."""

    def problem(self) -> str:
        return dz_problem(self.dz)


@control(0x6A)
@dataclass(frozen=True, slots=True)
class Taken(ControlFrame):
    """An acknowledgement of the receiver's events that the sender's application has processed."""

    numbers: Annotated[tuple[U64, ...], AtMost(ACKNOWLEDGED_MAX)]


@control(0x6D)
@dataclass(frozen=True, slots=True)
class Enrolled(ControlFrame):
    """A publisher's acknowledgement of an Enrol, or with number 0 its attempt to reach a subscriber."""

    number: U64


PeerFrame: TypeAlias = (
    Gossip
    | Connect
    | Accept
    | PotentialParent
    | Disconnect
    | DetectCycle
    | Pulse
    | Beat
    | PeerEvent
    | Enrol
    | Taken
    | Enrolled
)
"""The frames between peers."""


@control(0x6B)
@dataclass(frozen=True, slots=True)
class Meeting(ControlFrame):
    """The first frame from either end of a link between two processes with peers, after hello and welcome. All of them
    are encrypted: the ends have proved the group's secret to each other before."""

    space: Name
    """A digest of the event space. In another space the same texts name other sub-spaces."""
    address: Annotated[str, AtMost(ADDRESS_TEXT_MAX)]
    """Address at which the sender listens."""
    profiles: Profiles = ()
    """Peers of the sender's process, and others that it knows of."""

    def problem(self) -> str:
        return _profiles_problem(self.profiles)


@control(0x6C)
@dataclass(frozen=True, slots=True)
class LinkPair(ControlFrame):
    """Sender and receiver of all following frames on this link, until the next LinkPair. Many peers may share it."""

    sender: U64
    receiver: U64
