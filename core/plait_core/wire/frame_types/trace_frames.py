"""The control frames by which the overlay explains itself: a marked event's steps, and what one broker asks another.

Trace goes from a client to its home broker, which answers each Step of the event as it hears of it. Step, Inquiry and
Finding go from one broker to one other, hop by hop and proved, as the errands of `overlay_frames.py` do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from ...limits import FRAME_BYTES_MAX, NAME_BYTES_MAX
from .connection_frames import Proof
from .frame_schema import U64, AtMost, Between, ControlFrame, control

Name: TypeAlias = Annotated[str, AtMost(NAME_BYTES_MAX)]
U32: TypeAlias = Annotated[int, Between(0, 2**32 - 1)]
Hops: TypeAlias = Annotated[int, Between(0, 255)]

PARTIES_MAX: Final = 64
"""Subscriptions or brokers that one step names; `count` has them all."""

FACTS_CHARACTERS_MAX: Final = 64 * 1024
"""Of what a broker answers to one inquiry, or is asked by it: a few filters and paths at their longest."""

# A flag of a forward frame, beside those of `overlay_frames.py`.
MARKED: Final = 4  # whoever has it tells its publisher's broker what becomes of it


class StepKind(StrEnum):
    """What happens to a marked event. Frames carry it as text: newer brokers may know more."""

    PUBLISHED = "published"  # its publisher's broker has matched it; parties: brokers that it is for
    SENT = "sent"  # handed to a neighbour; parties: brokers that this copy is for
    CAME = "came"  # a broker on its way has it, or one that it is for and where it ends; parties: brokers beyond
    ARRIVED = "arrived"  # a broker that it is for has matched it
    DELIVERED = "delivered"  # written to a client; parties: subscriptions
    QUEUED = "queued"  # it waits there for a client that does not take it now
    STORED = "stored"  # it is for durable subscriptions, and goes to the log first
    DROPPED = "dropped"  # it ends there, for these subscriptions or altogether
    LOST = "lost"  # a copy of it ends there; parties: brokers that it was for


@control(0x2C)
@dataclass(frozen=True, slots=True)
class Trace(ControlFrame):
    """Publishes an event of which every step is told. Done follows when it is taken, Failed when it is not."""

    request: U32
    block: Annotated[bytes, AtMost(FRAME_BYTES_MAX)]
    """The event's block, as in a publish frame."""


@control(0x50)
@dataclass(frozen=True, slots=True)
class TraceStep(ControlFrame):
    """One step of a marked event, told by the broker where it happened."""

    to: U64
    source: U64
    publisher: U64
    sequence: U64
    kind: Name
    delay_us: U64 = 0
    """How long the event had been under way by then."""
    took_us: U64 = 0
    """What that step took: to match it, or how long it had waited."""
    link_us: U64 = 0
    """The measured delay of the link that it was sent over."""
    peer: U64 = 0
    """The broker that it came from, or was handed to."""
    count: U32 = 0
    """Of how many subscriptions, or brokers, it speaks."""
    parties: Annotated[tuple[U64, ...], AtMost(PARTIES_MAX)] = ()
    """The first of them."""
    reason: Name = ""
    hops: Hops = 0
    proof: Proof = b""


@control(0x51)
@dataclass(frozen=True, slots=True)
class Query(ControlFrame):
    """A question to another broker; `text` is JSON of whatever the topic asks for."""

    to: U64
    source: U64
    number: U64
    topic: Name
    text: Annotated[str, AtMost(FACTS_CHARACTERS_MAX)]
    hops: Hops = 0
    proof: Proof = b""


@control(0x52)
@dataclass(frozen=True, slots=True)
class QueryResult(ControlFrame):
    """Its answer: an object of JSON."""

    to: U64
    source: U64
    number: U64
    text: Annotated[str, AtMost(FACTS_CHARACTERS_MAX)]
    hops: Hops = 0
    proof: Proof = b""


TraceMessage: TypeAlias = TraceStep | Query | QueryResult
"""From one broker to one other."""
