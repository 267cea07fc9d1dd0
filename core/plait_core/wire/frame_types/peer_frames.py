"""The control frames between peers without brokers: whom they know, whom they ask, what they forward (thesis ch. 2).

Gossip carries what peers say of themselves (2.4.2.2). Connect to DetectCycle are the messages of Algorithm 1, Pulse and
Beat keep its connections alive and their delays known (2.7), Happening is the EVENT of Algorithm 2, Enrol,
Enrolled and Taken are custody of it. Meeting and Between belong to the links between processes. Sub-spaces travel as
texts of 0 and 1, sets of them in canonical order. Bounds and delays are hops or seconds: all peers of a group agree.
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
    PROOF_BYTES,
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
"""How far a cycle is chased; and no event that a peer takes has made more hops."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a peer says of itself; of two, the higher version is the later."""

    peer: U64
    version: U64
    dz: DzTexts
    """Its peer-level subscription, or the advertisement of a publisher."""
    bound: Delay
    """The delay that it tolerates; 0 for a publisher."""
    delay: Delay = UNREACHED
    """The longest that relevant publishers' events take to it."""
    free: Count = 0
    """How many more children it would take without sending one away."""
    rates: Annotated[tuple[Rate, ...], AtMost(PEER_DZ_MAX)] = ()
    """Events a second in each of `dz`, as it measures them."""
    recent_numbers: Annotated[tuple[U64, ...], AtMost(PEER_RECENT_MAX)] = ()
    """Of a publisher: some of its last events, so that subscribers learn what they should have received."""
    recent_dz: Annotated[tuple[DzText, ...], AtMost(PEER_RECENT_MAX)] = ()
    address: Name = ""

    @property
    def publisher(self) -> bool:
        """Whether it publishes, and does not subscribe."""
        return self.bound == 0.0

    def problem(self) -> str:
        """What is wrong between fields that are each right."""
        if self.rates and len(self.rates) != len(self.dz):
            return "a rate for each sub-space, or none at all"
        if len(self.recent_numbers) != len(self.recent_dz):
            return "a sub-space for each recent event"
        return dz_problem(self.dz) or next((text_problem(dz) for dz in self.recent_dz if text_problem(dz)), "")


def text_problem(dz: str) -> str:
    """What keeps a text from being a plain dz-expression."""
    return "a sub-space is a text of 0 and 1" if dz.strip("01") else ""


def dz_problem(texts: tuple[str, ...]) -> str:
    """What keeps texts from being a set of dz-expressions in canonical order: sorted, none covering another."""
    if any(dz.strip("01") for dz in texts):
        return "a sub-space is a text of 0 and 1"
    # In order, whatever a text covers follows it at once.
    ordered = all(a < b and not b.startswith(a) for a, b in pairwise(texts))
    return "" if ordered else "sub-spaces are sorted, and none covers another"


Profiles: TypeAlias = Annotated[tuple[Profile, ...], AtMost(PEER_SAMPLE_MAX)]
Hints: TypeAlias = Annotated[tuple[Profile, ...], AtMost(PEER_HINTS_MAX)]


def _profiles_problem(profiles: tuple[Profile, ...]) -> str:
    return next((problem for profile in profiles if (problem := profile.problem())), "")


@control(0x60)
@dataclass(frozen=True, slots=True)
class Gossip(ControlFrame):
    """Half of an exchange of the peer sampling service; who is asked answers with one that is a reply."""

    reply: bool
    profiles: Profiles
    ages: Annotated[tuple[Age, ...], AtMost(PEER_SAMPLE_MAX)]
    """For each, how many periods ago it came from its peer, roughly."""
    adverts: Profiles = ()
    """Publishers, told to everyone by everyone: there are few, and all that they concern must know them soon."""
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
    """A child says all that it wants of a parent from now on (Algorithm 1, line 15); again, and nothing changes."""

    profile: Profile
    dz: DzTexts

    def problem(self) -> str:
        return self.profile.problem() or dz_problem(self.dz) or ("" if self.dz else "a connection for nothing")


@control(0x62)
@dataclass(frozen=True, slots=True)
class Accept(ControlFrame):
    """A parent takes a child for these sub-spaces: the ACK of line 26, to the peer that joins."""

    profile: Profile
    dz: DzTexts
    sources: Annotated[tuple[U64, ...], AtMost(PEER_SOURCES_MAX)]
    """The publishers whose events it passes on, itself if it is one."""
    delays: Annotated[tuple[Delay, ...], AtMost(PEER_SOURCES_MAX)]
    """How long their events take to the parent."""

    def problem(self) -> str:
        same = len(self.sources) == len(self.delays)
        return (self.profile.problem() or dz_problem(self.dz)) if same else "a delay for each source"


@control(0x63)
@dataclass(frozen=True, slots=True)
class PotentialParent(ControlFrame):
    """A hint to better parents (lines 24 and 29): instead of an Accept, or after a Disconnect."""

    refused: bool
    """Whether it answers a Connect."""
    dz: DzTexts
    """What the hints are for."""
    hints: Hints = ()
    bar_volume: Annotated[float, Within(0.0, 1e9)] = 0.0
    """Of the child that would have to go next: its share of the event space, ..."""
    bar_bound: Delay = UNREACHED
    """... and the delay that it tolerates. As given, anyone beats it: the parent was not full."""

    def problem(self) -> str:
        return dz_problem(self.dz) or _profiles_problem(self.hints)


@control(0x64)
@dataclass(frozen=True, slots=True)
class Disconnect(ControlFrame):
    """Nothing goes between us any more, in either direction (lines 23 and 38)."""

    reason: Name = ""


@control(0x65)
@dataclass(frozen=True, slots=True)
class DetectCycle(ControlFrame):
    """Chases a cycle down the connections for one sub-space (lines 35 and 42)."""

    originator: U64
    dz: DzText
    bound: Delay
    hops: Annotated[int, Within(0, CHASE_HOPS_MAX)] = 0

    def problem(self) -> str:
        return text_problem(self.dz)


@control(0x66)
@dataclass(frozen=True, slots=True)
class Pulse(ControlFrame):
    """A child is alive, and asks its parent for a Beat."""

    number: U64
    profile: Profile | None = None
    """When it has changed since the last."""

    def problem(self) -> str:
        return self.profile.problem() if self.profile else ""


@control(0x67)
@dataclass(frozen=True, slots=True)
class Beat(ControlFrame):
    """A parent is alive, and says whose events it passes on, and how late they are (thesis 2.7)."""

    number: U64
    """Of the Pulse that it answers; 0 for none."""
    sources: Annotated[tuple[U64, ...], AtMost(PEER_SOURCES_MAX)]
    delays: Annotated[tuple[Delay, ...], AtMost(PEER_SOURCES_MAX)]
    profile: Profile | None = None

    def problem(self) -> str:
        if len(self.sources) != len(self.delays):
            return "a delay for each source"
        return self.profile.problem() if self.profile else ""


@control(0x68)
@dataclass(frozen=True, slots=True)
class Happening(ControlFrame):
    """An event on its way from peer to peer (Algorithm 2)."""

    publisher: U64
    number: U64
    dz: DzText
    """The finest sub-space that it lies in."""
    delay: Delay
    """What has accumulated on the way."""
    hops: Annotated[int, Within(0, CHASE_HOPS_MAX)]
    block: Annotated[bytes, AtMost(PAYLOAD_BYTES_MAX)] = b""
    round: Count = 0
    """Its publisher keeps it until all have it: 1 down the tree, more when it is brought again; 0 when it does not."""

    def problem(self) -> str:
        return text_problem(self.dz)


@control(0x69)
@dataclass(frozen=True, slots=True)
class Enrol(ControlFrame):
    """A subscriber is owed what its publisher is to confirm in these sub-spaces. Said anew, it is a sign of life."""

    number: U64
    dz: DzTexts
    """Nothing when it leaves."""

    def problem(self) -> str:
        return dz_problem(self.dz)


@control(0x6A)
@dataclass(frozen=True, slots=True)
class Taken(ControlFrame):
    """Events of the receiver that the sender's application has dealt with."""

    numbers: Annotated[tuple[U64, ...], AtMost(ACKNOWLEDGED_MAX)]


@control(0x6D)
@dataclass(frozen=True, slots=True)
class Enrolled(ControlFrame):
    """A publisher has a subscriber on its list; or, with number 0, tries to reach it."""

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
    | Happening
    | Enrol
    | Taken
    | Enrolled
)
"""Whatever one peer says to another."""


@control(0x6B)
@dataclass(frozen=True, slots=True)
class Meeting(ControlFrame):
    """The first frame of either end of a link between two processes with peers, after hello and welcome."""

    group: Name
    space: Name
    """A digest of the event space: whoever has another one names other sub-spaces by the same texts."""
    address: Annotated[str, AtMost(ADDRESS_TEXT_MAX)]
    """Where its sender listens."""
    proof: Annotated[bytes, AtMost(PROOF_BYTES)]
    """Of the group's secret, over what both have said in hello and welcome; empty where there is none."""
    profiles: Profiles = ()
    """Peers that live there, and others that it knows of."""

    def problem(self) -> str:
        return _profiles_problem(self.profiles)


@control(0x6C)
@dataclass(frozen=True, slots=True)
class LinkPair(ControlFrame):
    """Who says to whom all that follows on this link, until the next of these: many peers may share one link."""

    sender: U64
    receiver: U64
