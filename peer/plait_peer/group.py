"""A group of peers: its name, its secret, and the event space that all members divide in the same way.

Without a space everything is one sub-space: each event goes to all subscribers, which filter it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from plait_core.errors import EventInvalid, SpaceInvalid
from plait_core.filters import Filter
from plait_core.space import DzSet, Region, Schema, boxes_of
from plait_core.telemetry import cell_of

DEPTH_MAX: Final = 64
"""Bits that locate an event: enough to separate one in 10**19, and they fit the event header."""

THETA: Final = 4
"""Sub-spaces of one live subscription. Each may need a parent of its own, and a peer with small gaps in its sub-spaces
can serve few others. The additional events are filtered on arrival."""

_ANNOUNCEMENTS: Final = b"plait: an announcement of a peer"
_LINKS: Final = b"plait: a link between peers"


@dataclass(frozen=True)
class Group:
    """The parameters that all members share."""

    name: str = "plait"
    space: Schema | None = None
    secret: str = ""

    @property
    def depth(self) -> int:
        """Bits of the finest sub-spaces."""
        return 0 if self.space is None else min(self.space.depth, DEPTH_MAX)

    @property
    def space_digest(self) -> str:
        """A hash of the space, equal for equal spaces."""
        text = "" if self.space is None else self.space.to_json()
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def subspaces(self, filter: Filter) -> DzSet:
        """Return the sub-spaces of a filter, at most THETA; none if no event can match."""
        boxes, _ = boxes_of(filter)
        if not boxes:
            return DzSet()
        if self.space is None:
            return DzSet.of([""])
        return Region.of(self.space, boxes, self.depth).at_most(THETA)

    def locate(self, attributes: Mapping[str, object]) -> str:
        """Return the sub-space of an event, or EventInvalid if it lies outside the group's space."""
        if self.space is None:
            return ""
        try:
            return self.space.locate(attributes, self.depth).text
        except SpaceInvalid as error:
            raise EventInvalid(f"not an event of the group's space: {error.message}", hint=error.hint) from None

    def cell(self, dz: str) -> int:
        """Return a sub-space as telemetry records it; 0 without a space."""
        return 0 if self.space is None else cell_of(dz)

    def proof(self, message: bytes) -> bytes:
        """Return a MAC of an announcement under the group's secret; empty without a secret."""
        return hmac.digest(self.secret.encode(), _ANNOUNCEMENTS + message, hashlib.sha256) if self.secret else b""

    @cached_property
    def link_key(self) -> bytes:
        """The pre-shared key of links: HKDF-SHA256 of the group's secret. Without a secret everybody knows it."""
        return HKDF(hashes.SHA256(), 32, salt=None, info=_LINKS).derive(self.secret.encode())

    @property
    def link_prologue(self) -> bytes:
        """The protocol and the group's name: both ends of a link must have the same before they exchange keys."""
        return _LINKS + b", version 1\0" + self.name.encode()
