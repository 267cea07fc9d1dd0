"""The messages that build the tables of the TID paper: advertisements flood, subscriptions follow trees back.

Each message is one msgpack map. A round numbers the floods of one tree. So entries of the latest flood replace those of
earlier ones, which may use links that are gone. An advertisement names its root and its number there, and its tree
follows from both: so no advertisement takes the tree of another root.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from plait_core import PlaitError
from plait_core.errors import FrameError, FrameFault
from plait_core.events import U64_MAX
from plait_core.filters import Filter, parse
from plait_core.limits import FILTER_TEXT_MAX, WIRE_LIMITS
from plait_core.wire.msgpack_codec import pack, unpack_fields

from .strategy import BrokerId, TreeId


class TreeAdvertised(NamedTuple):
    """An advertisement floods and roots a tree. A withdrawn one has no filter."""

    root: BrokerId
    number: int
    round: int
    filter: Filter | None

    @property
    def tree(self) -> TreeId:
        return tree_id(self.root, self.number)


class TreeSubscribed(NamedTuple):
    """A subscription follows a tree back to its root. A removed one has no filter."""

    tree: TreeId
    round: int
    home: BrokerId
    number: int
    filter: Filter | None


TreeMessage: TypeAlias = TreeAdvertised | TreeSubscribed


def tree_id(root: BrokerId, number: int) -> TreeId:
    """Return the identifier of the tree of an advertisement. Never 0, which names shortest-path trees."""
    digest = blake2b(root.to_bytes(8, "big") + number.to_bytes(8, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def encode_message(message: TreeMessage) -> bytes:
    numbers = {name: value for name, value in message._asdict().items() if name != "filter"}
    return bytes(pack({**numbers, "filter": "" if message.filter is None else message.filter.text}))


def decode_message(body: bytes) -> TreeMessage:
    """Return the message. Raise FrameError if it is malformed, or if its filter has no normal form here."""
    fields = unpack_fields(body, WIRE_LIMITS)
    kind = TreeSubscribed if "home" in fields else TreeAdvertised
    numbers = [fields.get(name) for name in kind._fields[:-1]]
    text = fields.get("filter")
    if not all(type(number) is int and 0 <= number <= U64_MAX for number in numbers):
        raise FrameError(FrameFault.FIELD, "a tree message with a field that is missing or no 64-bit number")
    if fields.get("tree") == 0:
        raise FrameError(FrameFault.FIELD, "a tree message for tree 0, which has no tables")
    if not isinstance(text, str) or len(text) > FILTER_TEXT_MAX:
        raise FrameError(FrameFault.FIELD, "a tree message without a filter, or with too long a one")
    try:
        return kind._make([*numbers, _parsed(text) if text else None])
    except PlaitError as error:
        raise FrameError(FrameFault.FIELD, f"a tree message with a bad filter: {error.message}") from None


def _parsed(text: str) -> Filter:
    """Parse a filter. Raise FilterTooComplex here, rather than when the tables compare it with another."""
    filter = parse(text)
    filter.normal  # noqa: B018 - computed for the exception
    return filter
