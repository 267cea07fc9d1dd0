"""The control frame of dissemination strategies: what the same strategy at two neighbours says to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from ...limits import DOCUMENT_BYTES_MAX, NAME_BYTES_MAX
from .frame_schema import AtMost, ControlFrame, control

STRATEGY_BYTES_MAX: Final = DOCUMENT_BYTES_MAX
"""Bytes of one message: as of a document, so that an entry with the longest filter fits. More entries go into several
messages."""

Name: TypeAlias = Annotated[str, AtMost(NAME_BYTES_MAX)]


@control(0x4F)
@dataclass(frozen=True, slots=True)
class StrategyMessage(ControlFrame):
    """A message to the same strategy at a neighbour. A broker that runs another strategy ignores it."""

    strategy: Name
    """The name of the strategy that understands the body."""
    body: Annotated[bytes, AtMost(STRATEGY_BYTES_MAX)]
