"""The exchange between brokers: flooded documents, messages from one broker to others, and the frames of one link.

LinkState, Advertisement and DurableInterest are documents. Each floods to all brokers in a `Signed` frame.
InterestUpdate, InterestAck, StreamAck, StreamSkip and DeliveryOutcome are messages. Each goes hop by hop, along the
cheapest paths, in an `EndToEnd` frame (`envelope_frames.py`). DatabaseSummary, Announcement, ClockStamp and StampEcho
are frames of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, TypeAlias

from ...limits import (
    ADDRESS_TEXT_MAX,
    BROKERS_MAX,
    DEPOSIT_BYTES_MAX,
    FILTER_TEXT_MAX,
    INTEREST_FILTERS_MAX,
    MISSING_MAX,
    NAME_BYTES_MAX,
    NEIGHBOURS_MAX,
    SEGMENTS_MAX,
    SUMMARY_DOCUMENTS_MAX,
    VALUES_SKETCH_BYTES_MAX,
)
from .frame_schema import FROM_ENVELOPE, U64, AtMost, Between, Body, ControlFrame, body, control

Name: TypeAlias = Annotated[str, AtMost(NAME_BYTES_MAX)]
FilterText: TypeAlias = Annotated[str, AtMost(FILTER_TEXT_MAX)]
Deposit: TypeAlias = Annotated[bytes, AtMost(DEPOSIT_BYTES_MAX)]
"""Routing tokens. No representation shows them: who has one can test events for its credential."""

Key: TypeAlias = Annotated[bytes, AtMost(64)]
DelayUs: TypeAlias = Annotated[int, Between(1, 2**32 - 1)]
Address: TypeAlias = Annotated[str, AtMost(ADDRESS_TEXT_MAX)]
EnvelopeU64: TypeAlias = Annotated[int, Between(0, 2**64 - 1), FROM_ENVELOPE]
Rate: TypeAlias = Annotated[float, Between(0.0, 1e15)]

# Flags of a forward frame.
CONFIRM: Final = 1  # its publisher's broker awaits a DeliveryOutcome
LOGGED: Final = 2  # for durable subscriptions alone: the others had their chance, or were not there yet
ACK_NOW: Final = 8  # its publisher's broker waits for the ack of its destination

# --- documents --------------------------------------------------------------------------------------------------------


@body(0x40)
@dataclass(frozen=True, slots=True)
class LinkState(Body):
    """A broker's name and address, its links, and the delay that it has measured on each."""

    origin: EnvelopeU64
    version: EnvelopeU64
    name: Name
    neighbours: Annotated[tuple[U64, ...], AtMost(NEIGHBOURS_MAX)]
    delays_us: Annotated[tuple[DelayUs, ...], AtMost(NEIGHBOURS_MAX)]
    incarnation: U64 = 0
    """Names the log of the broker, 0 for none. A broker that restarts has another id and the same incarnation."""
    born: U64 = 0
    """When the broker started, by its own calendar. Of two with one incarnation, the later is alive."""
    public_keys: Key = b""
    """The origin's public keys. Its id is their hash."""
    incarnation_key: Key = b""
    """The public key of the log."""
    incarnation_proof: Key = b""
    """The signature, made with the log's key, that this broker holds the log."""
    address: Address = ""
    """HOST:PORT where other brokers may connect; empty while it is not known."""
    capacities: Annotated[tuple[U64, ...], AtMost(NEIGHBOURS_MAX)] = ()
    """For each neighbour, the bytes/s that the link carries, 0 for unknown; () when none is known. Reserved."""
    segments: Annotated[tuple[Name, ...], AtMost(SEGMENTS_MAX)] = ()
    """The network segments that the broker is attached to. Reserved."""

    def problem(self) -> str:
        if len(self.neighbours) != len(self.delays_us):
            return "a delay for each neighbour"
        if len(set(self.neighbours)) != len(self.neighbours) or self.origin in self.neighbours:
            return "a neighbour comes twice, or is the broker itself"
        if self.capacities and len(self.capacities) != len(self.neighbours):
            return "a capacity for each neighbour, or none"
        return ""


@body(0x41)
@dataclass(frozen=True, slots=True)
class Advertisement(Body):
    """The events that clients of a broker will publish. The filter is empty when it is withdrawn."""

    origin: EnvelopeU64
    number: EnvelopeU64
    version: EnvelopeU64
    filter: FilterText = ""
    rate: Rate = 0.0
    """Events per second that the publisher expects to send, 0 for unknown. Reserved."""
    values: Annotated[bytes, AtMost(VALUES_SKETCH_BYTES_MAX)] = b""
    """A sketch of the distribution of the values; empty when there is none. Reserved."""


@body(0x49)
@dataclass(frozen=True, slots=True)
class DurableInterest(Body):
    """A filter of durable subscriptions, for all publishers' brokers. It holds while the home broker is away. The
    filter is empty when it is withdrawn."""

    origin: EnvelopeU64
    number: EnvelopeU64
    version: EnvelopeU64
    filter: FilterText = ""


Document: TypeAlias = LinkState | Advertisement | DurableInterest

# --- messages from one broker to others -------------------------------------------------------------------------------


@body(0x43)
@dataclass(frozen=True, slots=True)
class InterestUpdate(Body):
    """The filters of a home broker that meet some publishers' brokers' advertisements: a change, or all of them."""

    to: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX), FROM_ENVELOPE]
    source: EnvelopeU64
    versions: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX), FROM_ENVELOPE]
    """For each of `to`, the version of its interest table after this update."""
    offers: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX), FROM_ENVELOPE]
    """For each of `to`, the fingerprint of its advertisements that the update was computed against."""
    whole: bool
    """Whether these are all filters; else a change of the version before."""
    added: Annotated[tuple[U64, ...], AtMost(INTEREST_FILTERS_MAX)]
    filters: Annotated[tuple[FilterText, ...], AtMost(INTEREST_FILTERS_MAX)]
    removed: Annotated[tuple[U64, ...], AtMost(INTEREST_FILTERS_MAX)]
    more: bool = False
    """Whether more parts of all filters follow. The filters before hold until the last part."""
    routing: Annotated[tuple[Deposit, ...], AtMost(INTEREST_FILTERS_MAX)] = field(default=(), repr=False)
    """For each filter, the routing tokens that test the tags of sealed events; () when no filter has any."""
    within_us: Annotated[tuple[U64, ...], AtMost(INTEREST_FILTERS_MAX)] = ()
    """For each filter, the delay bound of its subscription, 0 for none; () when no filter has one. Reserved."""

    def problem(self) -> str:
        if not len(self.to) == len(self.versions) == len(self.offers):
            return "a version and a fingerprint for each broker"
        if len(self.added) != len(self.filters):
            return "a filter for each number"
        if any(terms and len(terms) != len(self.filters) for terms in (self.routing, self.within_us)):
            return "terms for each filter, or none"
        return ""


@body(0x44)
@dataclass(frozen=True, slots=True)
class InterestAck(Body):
    """A publisher's broker has received interest updates up to this version."""

    to: EnvelopeU64
    source: EnvelopeU64
    version: U64
    offers: U64
    """The fingerprint of its advertisements now."""
    asked: U64
    """The version that this acknowledges. A late ack does not count for a version that was forgotten since."""


@body(0x45)
@dataclass(frozen=True, slots=True)
class StreamAck(Body):
    """A home broker has charge of all events up to a position, and misses these of the later ones."""

    to: EnvelopeU64
    source: EnvelopeU64
    up_to: EnvelopeU64
    missing: Annotated[tuple[U64, ...], AtMost(MISSING_MAX)] = ()
    window: EnvelopeU64 = 0
    """Bytes of events beyond `up_to` that may be on their way; 0 leaves it as it was."""


@body(0x46)
@dataclass(frozen=True, slots=True)
class StreamSkip(Body):
    """Positions up to this one will not come, unless they came already: they were given up, or precede the stream."""

    to: EnvelopeU64
    source: EnvelopeU64
    up_to: U64


@body(0x47)
@dataclass(frozen=True, slots=True)
class DeliveryOutcome(Body):
    """The result, at a home broker, of an event that subscribers are to confirm."""

    to: EnvelopeU64
    source: EnvelopeU64
    position: U64
    matched: Annotated[int, Between(0, 2**32 - 1)]
    code: Name = ""
    """Empty when all of them have it."""


OverlayMessage: TypeAlias = InterestUpdate | InterestAck | StreamAck | StreamSkip | DeliveryOutcome

# --- frames of one link -----------------------------------------------------------------------------------------------


@control(0x42)
@dataclass(frozen=True, slots=True)
class DatabaseSummary(ControlFrame):
    """The documents that its sender has: origin, kind, number and version of each. `first` begins a summary."""

    first: bool
    last: bool
    origins: Annotated[tuple[U64, ...], AtMost(SUMMARY_DOCUMENTS_MAX)]
    kinds: Annotated[tuple[Annotated[int, Between(0, 65_535)], ...], AtMost(SUMMARY_DOCUMENTS_MAX)]
    numbers: Annotated[tuple[U64, ...], AtMost(SUMMARY_DOCUMENTS_MAX)]
    versions: Annotated[tuple[U64, ...], AtMost(SUMMARY_DOCUMENTS_MAX)]

    def problem(self) -> str:
        same = len(self.origins) == len(self.kinds) == len(self.numbers) == len(self.versions)
        return "" if same else "origin, kind, number and version of each"


@control(0x48)
@dataclass(frozen=True, slots=True)
class Announcement(ControlFrame):
    """The address of a broker, in a datagram to its network segment, with a proof behind it."""

    overlay: Name
    broker: U64
    name: Name
    number: U64
    """Rises with every announcement of this broker, so that a replayed one is ignored."""
    port: Annotated[int, Between(1, 65_535)]
    host: Address = ""
    """Empty for the host that the datagram comes from."""


@control(0x4B)
@dataclass(frozen=True, slots=True)
class ClockStamp(ControlFrame):
    """The sender's clock when it writes what follows. By how it varies against its own clock, the receiver knows how
    long each write was held up."""

    at_us: U64
    waits: bool = False
    """Whether events wait for room in the sender's lane. The receiver then echoes whenever events arrive."""


@control(0x4C)
@dataclass(frozen=True, slots=True)
class StampEcho(ControlFrame):
    """All events before this ClockStamp have arrived, and so many after it. So their writer knows how long they were on
    their way, and how many still are."""

    at_us: U64
    since: U64
