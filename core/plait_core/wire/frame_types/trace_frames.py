"""The frames by which the overlay explains itself: a marked event's steps, and queries between brokers.

Trace goes from a client to its home broker, which sends the client each TraceStep of the event as it learns of it.
Between brokers TraceStep, Query and QueryResult are messages in an `EndToEnd` envelope.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from ...limits import FRAME_BYTES_MAX, NAME_BYTES_MAX
from .frame_schema import FROM_ENVELOPE, U64, AtMost, Between, Body, ControlFrame, body, control

Name: TypeAlias = Annotated[str, AtMost(NAME_BYTES_MAX)]
U32: TypeAlias = Annotated[int, Between(0, 2**32 - 1)]
EnvelopeU64: TypeAlias = Annotated[int, Between(0, 2**64 - 1), FROM_ENVELOPE]

PARTIES_MAX: Final = 64
"""Subscriptions or brokers that one step names; `count` counts all."""

FACTS_CHARACTERS_MAX: Final = 64 * 1024
"""Characters of a query, and of its result: a few filters and paths at their longest."""

# A flag of a forward frame, beside those of `overlay_frames.py`.
MARKED: Final = 4  # each broker that has it sends a TraceStep to its publisher's broker


class StepKind(StrEnum):
    """The steps of a marked event. Frames carry them as text: newer brokers may know more."""

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
    """Publish an event and report each of its steps. Done follows when it is admitted, Failed when it is not."""

    request: U32
    block: Annotated[bytes, AtMost(FRAME_BYTES_MAX)]
    """The event's block, as in a publish frame."""


@control(0x50)
@body(0x50)
@dataclass(frozen=True, slots=True)
class TraceStep(ControlFrame):
    """One step of a marked event, from the broker where it happened; a frame of its own only to the client."""

    to: EnvelopeU64
    source: EnvelopeU64
    publisher: U64
    sequence: U64
    kind: Name
    delay_us: U64 = 0
    """How long the event had been under way by then."""
    took_us: U64 = 0
    """The time that the step took: to match the event, or how long it had waited."""
    link_us: U64 = 0
    """The measured delay of the link that it was sent over."""
    peer: U64 = 0
    """The broker that it came from, or was sent to."""
    count: U32 = 0
    """The number of subscriptions, or of brokers, that the step is about."""
    parties: Annotated[tuple[U64, ...], AtMost(PARTIES_MAX)] = ()
    """The first of them."""
    reason: Name = ""


@body(0x51)
@dataclass(frozen=True, slots=True)
class Query(Body):
    """A question to another broker; `text` is JSON, and its topic defines the content."""

    to: EnvelopeU64
    source: EnvelopeU64
    number: U64
    topic: Name
    text: Annotated[str, AtMost(FACTS_CHARACTERS_MAX)]


@body(0x52)
@dataclass(frozen=True, slots=True)
class QueryResult(Body):
    """The answer to a query: an object of JSON."""

    to: EnvelopeU64
    source: EnvelopeU64
    number: U64
    text: Annotated[str, AtMost(FACTS_CHARACTERS_MAX)]


TraceMessage: TypeAlias = TraceStep | Query | QueryResult
"""Messages from one broker to one other."""
