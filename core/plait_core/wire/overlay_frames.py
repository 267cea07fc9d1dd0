"""The control frames between brokers: what each says of its links, what is advertised, who wants what, what arrived.

Sheet and Offer flood to all brokers. Want, Heard, Took, Skip and Outcome go from one broker to one other (Want to
several), hop by hop along the cheapest paths; whoever they are not for passes them on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from ..limits import BROKERS_MAX, DIGEST_MAX, FILTER_TEXT_MAX, MISSING_MAX, NAME_BYTES_MAX, NEIGHBOURS_MAX, WANTS_MAX
from .schema import U64, AtMost, Between, ControlFrame, control

Name: TypeAlias = Annotated[str, AtMost(NAME_BYTES_MAX)]
FilterText: TypeAlias = Annotated[str, AtMost(FILTER_TEXT_MAX)]
DelayUs: TypeAlias = Annotated[int, Between(1, 2**32 - 1)]

# Flags of a forward frame.
CONFIRM: Final = 1  # tell its publisher's broker when the subscribers have it
LOGGED: Final = 2  # for durable subscriptions alone: the others had their chance, or were not there yet


@control(0x40)
@dataclass(frozen=True, slots=True)
class Sheet(ControlFrame):
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

    def problem(self) -> str:
        if len(self.neighbours) != len(self.delays_us):
            return "a delay for each neighbour"
        if len(set(self.neighbours)) != len(self.neighbours) or self.origin in self.neighbours:
            return "a neighbour comes twice, or is the broker itself"
        return ""


@control(0x41)
@dataclass(frozen=True, slots=True)
class Offer(ControlFrame):
    """An advertisement: what clients of a broker will publish. Withdrawn, its filter is empty."""

    origin: U64
    number: U64
    version: U64
    filter: FilterText

    def problem(self) -> str:
        return "" if self.number else "number 0 is the sheet's"


@control(0x42)
@dataclass(frozen=True, slots=True)
class Digest(ControlFrame):
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
class Want(ControlFrame):
    """What a broker's subscribers want of some publishers' brokers: a change from one version to the next, or all."""

    to: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX)]
    source: U64
    versions: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX)]
    """For each of `to`, the version that this makes of what it knows."""
    whole: bool
    """Whether it is all there is; else it is a change of the version before."""
    added: Annotated[tuple[U64, ...], AtMost(WANTS_MAX)]
    filters: Annotated[tuple[FilterText, ...], AtMost(WANTS_MAX)]
    removed: Annotated[tuple[U64, ...], AtMost(WANTS_MAX)]
    hops: Annotated[int, Between(0, 255)] = 0

    def problem(self) -> str:
        if len(self.to) != len(self.versions) or len(self.added) != len(self.filters):
            return "a version for each broker, a filter for each number"
        return ""


@control(0x44)
@dataclass(frozen=True, slots=True)
class Heard(ControlFrame):
    """A publisher's broker knows what is wanted of it, up to this version."""

    to: U64
    source: U64
    version: U64
    hops: Annotated[int, Between(0, 255)] = 0


@control(0x45)
@dataclass(frozen=True, slots=True)
class Took(ControlFrame):
    """A home broker has charge of all events up to a position, and misses some that it knows must have been sent."""

    to: U64
    source: U64
    up_to: U64
    missing: Annotated[tuple[U64, ...], AtMost(MISSING_MAX)] = ()
    hops: Annotated[int, Between(0, 255)] = 0


@control(0x46)
@dataclass(frozen=True, slots=True)
class Skip(ControlFrame):
    """Positions up to this one will not come, unless they came already: they were given up, or are before the first."""

    to: U64
    source: U64
    up_to: U64
    hops: Annotated[int, Between(0, 255)] = 0


@control(0x47)
@dataclass(frozen=True, slots=True)
class Outcome(ControlFrame):
    """What became, at a home broker, of an event that is to be confirmed by subscribers."""

    to: U64
    source: U64
    position: U64
    matched: Annotated[int, Between(0, 2**32 - 1)]
    code: Name = ""
    """Empty when all of them have it."""
    hops: Annotated[int, Between(0, 255)] = 0


Errand: TypeAlias = Heard | Took | Skip | Outcome
"""From one broker to one other."""
