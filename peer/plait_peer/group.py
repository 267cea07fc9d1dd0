"""A group of peers: its name, its secret, and the event space that all its members divide in the same way.

Without a space everything is one sub-space: each event goes to all who subscribe to anything, and is filtered there.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from plait_core.errors import EventInvalid, SpaceInvalid
from plait_core.filters import Filter
from plait_core.space import DzSet, Region, Schema, boxes_of
from plait_core.telemetry import cell_of

DEPTH_MAX: Final = 64
"""Bits by which events are located: enough for one event in 10**19 to be told apart, and they fit one hot frame."""

THETA: Final = 4
"""Sub-spaces of one live subscription. Each may need a parent of its own, and a peer that leaves small holes in what it
takes can serve few others; what is let in by saying less is filtered on arrival."""

_PURPOSE: Final = b"plait: a link between peers"


@dataclass(frozen=True)
class Group:
    """What all members agree on beforehand."""

    name: str = "plait"
    space: Schema | None = None
    secret: str = ""

    @property
    def depth(self) -> int:
        """Bits of the finest sub-spaces that are told apart."""
        return 0 if self.space is None else min(self.space.depth, DEPTH_MAX)

    @property
    def space_digest(self) -> str:
        """Equal for equal spaces."""
        text = "" if self.space is None else self.space.to_json()
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def wanted(self, filter: Filter) -> DzSet:
        """The sub-spaces of a filter, at most THETA of them; none when no event can match."""
        boxes, _ = boxes_of(filter)
        if not boxes:
            return DzSet()
        if self.space is None:
            return DzSet.of([""])
        return Region.of(self.space, boxes, self.depth).at_most(THETA)

    def locate(self, attributes: Mapping[str, object]) -> str:
        """The sub-space of an event; EventInvalid when it lies outside the group's space."""
        if self.space is None:
            return ""
        try:
            return self.space.locate(attributes, self.depth).text
        except SpaceInvalid as error:
            raise EventInvalid(f"not an event of the group's space: {error.message}", hint=error.hint) from None

    def cell(self, dz: str) -> int:
        """Where the events of a sub-space lie, as telemetry says it; 0 where there is no space."""
        return 0 if self.space is None else cell_of(dz)

    def proof(self, said: bytes) -> bytes:
        """That somebody who says this knows the secret; empty where there is none."""
        return hmac.digest(self.secret.encode(), _PURPOSE + said, hashlib.sha256) if self.secret else b""
