"""Every bound of the core, by name, with its reason.

At a limit the system refuses; it never allocates first and counts later. Parsers take their limits as a parameter, so
that no path can omit them and tests can make them small.
"""

from __future__ import annotations

from dataclasses import dataclass

# --- events -----------------------------------------------------------------------------------------------------------

ATTRIBUTES_MAX = 256
"""Attributes of one event. SNS allows 10, Service Bus 64 KB of them; matching costs a few ns for each."""

NAME_BYTES_MAX = 128
"""Bytes of an attribute or header name, dots included. DNS labels and Prometheus names are much shorter."""

VALUE_BYTES_MAX = 16 * 1024
"""Bytes of one text value. Longer data belongs into the payload, which is opaque and cheap to carry."""

INT_BITS_MAX = 256
"""Bits of an integer attribute: hashes and on-chain amounts fit. Bounds the cost of exact comparison."""

LIST_ITEMS_MAX = 1024
"""Scalars in a list value. Lists are opaque to filters."""

ATTRIBUTES_BYTES_MAX = 64 * 1024
"""Bytes of all attributes of one event on the wire: one socket read."""

HEADERS_MAX = 64
"""Headers of one event: text for applications, never used for routing."""

HEADERS_BYTES_MAX = 16 * 1024
"""Bytes of all headers of one event on the wire; HTTP servers commonly allow 8-16 KiB."""

PAYLOAD_BYTES_MAX = 1024 * 1024
"""Bytes of a payload: NATS' default. Larger objects belong into a store, with their address in the event."""

PRIORITY_MAX = 9
"""Priorities run from 0 (ordinary) to 9 (first), as in JMS."""

# --- filters ----------------------------------------------------------------------------------------------------------

FILTER_TEXT_MAX = 16 * 1024
"""Characters of a filter's text. Solace allows 2,000; ActiveMQ has no bound, and long selectors slow it down."""

FILTER_DEPTH_MAX = 64
"""Nested parentheses and negations, far below Python's recursion limit."""

FILTER_ATOMS_MAX = 512
"""Atoms of one filter, after chains and `between` are split."""

FILTER_SET_MAX = 1024
"""Literals of one `in` list."""

CONJUNCTIONS_MAX = 256
"""Alternatives of a normal form. Each is indexed on its own, so this bounds the cost of one subscription."""

# --- event space ------------------------------------------------------------------------------------------------------

DZ_BITS_MAX = 1024
"""Bits of one dz-expression: 16 dimensions halved to 64 bits each."""

DZ_SET_MAX = 65_536
"""Dz-expressions that one exact mapping may produce before it is refused."""

# --- duplicates -------------------------------------------------------------------------------------------------------

DUPLICATE_WINDOW = 4096
"""Sequence numbers below a publisher's highest for which duplicates are detected: an integer of 512 bytes each."""

UNCONFIRMED_MAX = 4096
"""Unconfirmed events of one publisher.

Not above the duplicate window: a reconnecting publisher sends all of them again.
"""

# --- wire -------------------------------------------------------------------------------------------------------------

HELLO_BYTES_MAX = 4 * 1024
"""Bytes of a frame before authentication: all that an unauthenticated sender can make a receiver buffer."""

FRAME_BYTES_MAX = 1024 * 1024 + 160 * 1024
"""Bytes of a frame after authentication: the largest payload, all attributes and headers, and a route."""

BROKERS_MAX = 1024
"""Brokers of one overlay: each keeps the link state of all, and a change costs each a walk over it."""

NEIGHBOURS_MAX = 256
"""Links of one broker to others."""

SUMMARY_DOCUMENTS_MAX = 10_000
"""Documents that one database summary names; several make a longer one."""

INTEREST_FILTERS_MAX = 1024
"""Filters that one interest update adds or removes; more go into the next."""

DEPOSIT_BYTES_MAX = 64 * 1024
"""Bytes of routing tokens that one subscription deposits: some 680, a millisecond each for a new session."""

DEPOSITS_BYTES_MAX = 256 << 20
"""Bytes of routing tokens that one broker keeps for its clients, and as many again for other brokers.

Enough for a hundred thousand subscriptions of two dozen credentials.
"""

DOCUMENT_BYTES_MAX = 128 * 1024
"""Bytes of the body of one flooded document: the longest filter, four bytes a character, with as much for new
fields."""

ORIGIN_DOCUMENTS_MAX = 131_072
"""Flooded documents of one broker that others store: an advertisement for each of its clients, and as many filters of
durable subscriptions, also those withdrawn in the last minutes."""

ORIGIN_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of their bodies: 256 for each. One broker cannot fill the memory of all others."""

MESSAGE_BYTES_MAX = 1024 * 1024
"""Bytes of the body of one message between brokers. The rest of a frame is room for its destinations and their
proofs."""

MESSAGE_PART_BYTES_MAX = 64
"""Bytes of a message that are for one of its destinations alone: some numbers, for each of a thousand brokers."""

VALUES_SKETCH_BYTES_MAX = 16 * 1024
"""Bytes of an advertisement's sketch of its values: a histogram of a thousand cells, and no more than its filter."""

SEGMENTS_MAX = 64
"""Network segments that one broker is attached to: more interfaces than a host has."""

MISSING_MAX = 1024
"""Events that one report names as missing. The receiver requests the others when these have arrived."""

DESTINATIONS_MAX = 1024
"""Destinations that one copy of an event names: as many as an overlay has brokers."""

PATH_MAX = 64
"""Brokers that an event's path names, and so the most hops that it can take."""

DELIVERIES_MAX = 4000
"""Subscriptions of one client that one deliver frame names: with the longest path they fill a route's 64 KiB."""

ACKNOWLEDGED_MAX = 4096
"""Events that one receipt or acknowledgement names; more go into the next."""

REPORTED_MAX = 1024
"""Subscriptions that one client report names. A client with more reports them in turns."""

UNSEEN_MAX = 2048
"""Lines of one client report about deliveries that the application has not seen: two for each subscription it names."""

UNSEEN_LINES_MAX = 64
"""Lines about one subscription: a few publishers by name with their reasons, and the others together."""

NESTING_MAX = 32
"""Depth of a control frame's msgpack body."""

CONTROL_ITEMS_MAX = 65_536
"""Keys, values and items in a control frame's body: some ten milliseconds to parse, some megabytes of memory."""

CAPABILITIES_MAX = 64
"""Capabilities that one side of a handshake names."""

NONCE_BYTES = 16
"""Bytes of the random nonce that each side of a handshake draws for one connection."""

PROOF_BYTES = 32
"""Bytes of a proof that its sender knows a secret: an HMAC with SHA-256."""

ADDRESS_TEXT_MAX = 262
"""Characters of HOST:PORT: the longest host name, a colon, five digits and brackets."""

CLOSE_TEXT_MAX = 512
"""Characters of a close frame's message. It must fit a frame before authentication in every script."""


# --- peers ------------------------------------------------------------------------------------------------------------

PEER_DZ_MAX = 512
"""Sub-spaces of one peer's subscription. The thesis goes to 256; each may need a parent of its own."""

PEER_SAMPLE_MAX = 32
"""Profiles in one half of a gossip exchange: half a view of 64, twice as many as sampling needs."""

PEER_HINTS_MAX = 8
"""Possible parents that one hint names; peers that none of them suits learn of others by gossip."""

PEER_SOURCES_MAX = 256
"""Publishers whose events one parent forwards: every pulse names them."""

PEER_RECENT_MAX = 8
"""Recent events that a publisher announces by gossip."""

PEER_MEMBERS_MAX = 1024
"""Subscribers that enrol with one publisher, each by a connection of its own; beyond them nothing is confirmed."""


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Limits of one event; see the constants for reasons."""

    attributes_max: int = ATTRIBUTES_MAX
    name_bytes_max: int = NAME_BYTES_MAX
    value_bytes_max: int = VALUE_BYTES_MAX
    int_bits_max: int = INT_BITS_MAX
    list_items_max: int = LIST_ITEMS_MAX
    attributes_bytes_max: int = ATTRIBUTES_BYTES_MAX
    headers_max: int = HEADERS_MAX
    headers_bytes_max: int = HEADERS_BYTES_MAX
    payload_bytes_max: int = PAYLOAD_BYTES_MAX


@dataclass(frozen=True, slots=True)
class FilterLimits:
    """Limits of one filter; see the constants for reasons."""

    text_max: int = FILTER_TEXT_MAX
    depth_max: int = FILTER_DEPTH_MAX
    atoms_max: int = FILTER_ATOMS_MAX
    set_max: int = FILTER_SET_MAX
    conjunctions_max: int = CONJUNCTIONS_MAX


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of the frames that one remote side may send; see the constants for reasons."""

    hello_bytes_max: int = HELLO_BYTES_MAX
    frame_bytes_max: int = FRAME_BYTES_MAX
    destinations_max: int = DESTINATIONS_MAX
    path_max: int = PATH_MAX
    deliveries_max: int = DELIVERIES_MAX
    nesting_max: int = NESTING_MAX
    control_items_max: int = CONTROL_ITEMS_MAX
    event: EventLimits = EventLimits()


EVENT_LIMITS = EventLimits()
FILTER_LIMITS = FilterLimits()
WIRE_LIMITS = WireLimits()
