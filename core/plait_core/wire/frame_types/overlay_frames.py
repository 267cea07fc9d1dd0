"""The control frames between brokers: what each says of its links, what is advertised, who wants what, what arrived.

Sheet, Offer and Standing flood to all brokers. Want, Heard, Took, Skip and Outcome go from one broker to one other
(Want to several), hop by hop along the cheapest paths; whoever they are not for passes them on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from ...limits import (
    ADDRESS_TEXT_MAX,
    BROKERS_MAX,
    DEPOSIT_BYTES_MAX,
    DIGEST_MAX,
    FILTER_TEXT_MAX,
    FRAME_BYTES_MAX,
    MISSING_MAX,
    NAME_BYTES_MAX,
    NEIGHBOURS_MAX,
    PROOF_BYTES,
    WANTS_MAX,
)
from .frame_schema import U64, AtMost, Between, ControlFrame, control

Name: TypeAlias = Annotated[str, AtMost(NAME_BYTES_MAX)]
FilterText: TypeAlias = Annotated[str, AtMost(FILTER_TEXT_MAX)]
Deposit: TypeAlias = Annotated[bytes, AtMost(DEPOSIT_BYTES_MAX)]
Key: TypeAlias = Annotated[bytes, AtMost(64)]
ROUTE_MAX: Final = 64
"""Brokers on a detour."""

DelayUs: TypeAlias = Annotated[int, Between(1, 2**32 - 1)]
Address: TypeAlias = Annotated[str, AtMost(ADDRESS_TEXT_MAX)]
Proof: TypeAlias = Annotated[bytes, AtMost(PROOF_BYTES)]

DURABLE_NUMBERS_FROM: Final = 1 << 63
"""Numbers from here on are Standing documents', those below offers'."""

# Flags of a forward frame.
CONFIRM: Final = 1  # tell its publisher's broker when the subscribers have it
LOGGED: Final = 2  # for durable subscriptions alone: the others had their chance, or were not there yet


@control(0x40)
@dataclass(frozen=True, slots=True)
class LinkState(ControlFrame):
    """What a broker says of itself: its name, and its links with the delay that it has measured on each."""

    origin: U64
    version: U64
    name: Name
    neighbours: Annotated[tuple[U64, ...], AtMost(NEIGHBOURS_MAX)]
    delays_us: Annotated[tuple[DelayUs, ...], AtMost(NEIGHBOURS_MAX)]
    log: U64 = 0
    """Which log it keeps, 0 for none: a broker that has started anew has another id and the same log."""
    born: U64 = 0
    """When it started, by its own calendar: of two with the same log, the one that is alive is the later."""
    card: Key = b""
    """The origin's public keys, of which its id is the name."""
    log_key: Key = b""
    log_proof: Key = b""
    """The log's public key, and that who holds it says that its broker is this one."""
    signature: Key = b""
    address: Address = ""
    """HOST:PORT where other brokers may connect to it; empty while it does not know that."""

    def problem(self) -> str:
        if len(self.neighbours) != len(self.delays_us):
            return "a delay for each neighbour"
        if len(set(self.neighbours)) != len(self.neighbours) or self.origin in self.neighbours:
            return "a neighbour comes twice, or is the broker itself"
        return ""


@control(0x41)
@dataclass(frozen=True, slots=True)
class Advertisement(ControlFrame):
    """An advertisement: what clients of a broker will publish. Withdrawn, its filter is empty."""

    origin: U64
    number: U64
    version: U64
    filter: FilterText
    signature: Key = b""

    def problem(self) -> str:
        return "" if self.number else "number 0 is the sheet's"


@control(0x49)
@dataclass(frozen=True, slots=True)
class DurableInterest(ControlFrame):
    """What durable subscriptions of a broker want of everyone, for when the broker itself cannot say it. Withdrawn, its
    filter is empty."""

    origin: U64
    number: U64
    version: U64
    filter: FilterText
    signature: Key = b""

    def problem(self) -> str:
        return "" if self.number >= DURABLE_NUMBERS_FROM else "a number among those of offers"


@control(0x42)
@dataclass(frozen=True, slots=True)
class DatabaseSummary(ControlFrame):
    """What its sender knows of what floods: (origin, number, version) each; number 0 is a sheet. `first` begins one."""

    first: bool
    last: bool
    origins: Annotated[tuple[U64, ...], AtMost(DIGEST_MAX)]
    numbers: Annotated[tuple[U64, ...], AtMost(DIGEST_MAX)]
    versions: Annotated[tuple[U64, ...], AtMost(DIGEST_MAX)]

    def problem(self) -> str:
        same = len(self.origins) == len(self.numbers) == len(self.versions)
        return "" if same else "origin, number and version of each"


@control(0x43)
@dataclass(frozen=True, slots=True)
class InterestUpdate(ControlFrame):
    """What a broker's subscribers want of some publishers' brokers: a change from one version to the next, or all."""

    to: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX)]
    source: U64
    versions: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX)]
    """For each of `to`, the version that this makes of what it knows."""
    offers: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX)]
    """For each of `to`, the fingerprint of its offers as its source knows them: what meets them is said with this."""
    whole: bool
    """Whether it is all there is; else it is a change of the version before."""
    added: Annotated[tuple[U64, ...], AtMost(WANTS_MAX)]
    filters: Annotated[tuple[FilterText, ...], AtMost(WANTS_MAX)]
    removed: Annotated[tuple[U64, ...], AtMost(WANTS_MAX)]
    more: bool = False
    """Whether the rest of all there is follows: what it wanted before holds until then."""
    hops: Annotated[int, Between(0, 255)] = 0
    proofs: Annotated[tuple[Proof, ...], AtMost(BROKERS_MAX)] = ()
    """For each of `to`, that its source says this to it."""
    routing: Annotated[tuple[Deposit, ...], AtMost(WANTS_MAX)] = ()
    """For each filter, what was deposited with it to test the tags of sealed events with; () for none of them."""

    def problem(self) -> str:
        if self.routing and len(self.routing) != len(self.filters):
            return "a deposit for each filter, or none"
        if not len(self.to) == len(self.versions) == len(self.offers) or len(self.added) != len(self.filters):
            return "a version and a fingerprint for each broker, a filter for each number"
        if len(set(self.to)) != len(self.to):
            return "each broker once"
        if self.proofs and len(self.proofs) != len(self.to):
            return "a proof for each broker, or none"
        return ""


@control(0x44)
@dataclass(frozen=True, slots=True)
class InterestAck(ControlFrame):
    """A publisher's broker knows what is wanted of it, up to this version."""

    to: U64
    source: U64
    version: U64
    offers: U64
    """The fingerprint of what it offers now."""
    asked: U64
    """The version that this answers: an old answer that comes late says nothing of what has been forgotten."""
    hops: Annotated[int, Between(0, 255)] = 0
    proof: Proof = b""


@control(0x45)
@dataclass(frozen=True, slots=True)
class StreamAck(ControlFrame):
    """A home broker has charge of all events up to a position, and misses some that it knows must have been sent."""

    to: U64
    source: U64
    up_to: U64
    missing: Annotated[tuple[U64, ...], AtMost(MISSING_MAX)] = ()
    hops: Annotated[int, Between(0, 255)] = 0
    proof: Proof = b""


@control(0x46)
@dataclass(frozen=True, slots=True)
class StreamSkip(ControlFrame):
    """Positions up to this one will not come, unless they came already: they were given up, or are before the first."""

    to: U64
    source: U64
    up_to: U64
    hops: Annotated[int, Between(0, 255)] = 0
    proof: Proof = b""


@control(0x47)
@dataclass(frozen=True, slots=True)
class DeliveryOutcome(ControlFrame):
    """What became, at a home broker, of an event that is to be confirmed by subscribers."""

    to: U64
    source: U64
    position: U64
    matched: Annotated[int, Between(0, 2**32 - 1)]
    code: Name = ""
    """Empty when all of them have it."""
    hops: Annotated[int, Between(0, 255)] = 0
    proof: Proof = b""


@control(0x48)
@dataclass(frozen=True, slots=True)
class Announcement(ControlFrame):
    """Where a broker is, as it tells everyone on its network segment: in a datagram, with a proof behind it."""

    overlay: Name
    broker: U64
    name: Name
    number: U64
    """Rises with every announcement of this broker: what was heard before is not heard again."""
    port: Annotated[int, Between(1, 65_535)]
    host: Address = ""
    """Empty: the one that the datagram comes from."""


@control(0x4A)
@dataclass(frozen=True, slots=True)
class SourceRouted(ControlFrame):
    """A frame from one broker to another by a way that is given in full: around one that seems to lose what it gets.
    What it says is answered by the same way, too."""

    route: Annotated[tuple[U64, ...], AtMost(ROUTE_MAX)]
    at: Annotated[int, Between(0, ROUTE_MAX)]
    """Where on the route it is."""
    delay_us: Annotated[int, Between(0, 2**32 - 1)]
    """What its way has taken so far."""
    frame: Annotated[bytes, AtMost(FRAME_BYTES_MAX)]
    number: U64 = 0
    """Rises with every one from the same broker to the same one; 0 for an answer, which is not to be answered so."""
    proof: Proof = b""

    def problem(self) -> str:
        if len(set(self.route)) != len(self.route) or self.at >= len(self.route):
            return "a place on a route without a circle"
        return ""


@control(0x4B)
@dataclass(frozen=True, slots=True)
class ClockStamp(ControlFrame):
    """What its sender's own clock says when it writes what follows. By how that varies against its own, its receiver
    knows what was held up, and for how long."""

    at_us: U64


EndToEnd: TypeAlias = InterestAck | StreamAck | StreamSkip | DeliveryOutcome
"""From one broker to one other."""
