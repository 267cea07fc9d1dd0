"""Frames of stream groups: one stream from a publisher's broker, the root, to many brokers, along a tree.

A group lasts for an epoch, which the root's clock names. The brokers of a tree are in preorder: a broker comes first,
then the subtree of each child. So the members of a subtree are a slice, and a bit set of members gets shorter at every
hop. `group_events.py` reads the events of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import unpack
from typing import Annotated, Final, TypeAlias

from ...limits import BROKERS_MAX, FRAME_BYTES_MAX, PATH_MAX
from .frame_schema import U64, AtMost, Between, ControlFrame, DistanceFrom, control

MEMBER_BYTES: Final = 28
"""Bytes of one member in `GroupOpen`: see `group_members.py`."""

MEMBERS_BYTES_MAX: Final = BROKERS_MAX // 8

PROOF_BYTES: Final = 8
"""Bytes of one member's MAC."""

BATCH_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024
"""Bytes of the events of one batch: the largest event fits. The rest of the frame is for the other fields. They may
grow on the way, so a broker can always forward the batch that it got."""

EPOCH_MAX: Final = (1 << 63) - 1
"""Greatest epoch. Positions are above it, and the greatest bit of a position marks a group."""


@control(0x53)
@dataclass(frozen=True, slots=True)
class GroupOpen(ControlFrame):
    """Makes the receiver a part of a group: the tree below it. It passes each child the part of that child."""

    root: U64
    epoch: Annotated[int, Between(1, EPOCH_MAX)]
    path: Annotated[tuple[U64, ...], AtMost(PATH_MAX)]
    """The brokers from the root to the sender."""
    members: Annotated[bytes, AtMost(MEMBER_BYTES * BROKERS_MAX)]
    """The receiver, and the brokers below it, in preorder."""
    after_epoch: U64 = 0
    after_position: U64 = 0
    """The group before, and its last position. The events of that group come first. 0 without one."""


@control(0x54, listed=True)
@dataclass(frozen=True, slots=True)
class GroupBatch(ControlFrame):
    """Events of a group, for members in the receiver's part of the tree."""

    root: U64
    epoch: U64
    previous: Annotated[U64, DistanceFrom("epoch")]
    """The last position of the batch that the sender has sent to this receiver before."""
    last: Annotated[U64, DistanceFrom("previous")]
    """The receiver has all of its events up to this position. It is the position of the last of `events`, if any."""
    events: Annotated[bytes, AtMost(BATCH_BYTES_MAX)] = b""
    asks: bool = False
    """Whether all members are to ack all up to `last`."""
    waited_us: U64 = 0
    """The age of the batch: how long ago the root has sent it. Brokers on the way add to it, so that the bytes of the
    events do not change."""
    apart: Annotated[bytes, AtMost(MEMBERS_BYTES_MAX)] = b""
    """A bit set of the members whose acks of `last` are not to be added to those of others."""


@control(0x55)
@dataclass(frozen=True, slots=True)
class GroupAck(ControlFrame):
    """Acks of several members of a group: each has taken charge of all its events up to a position."""

    root: U64
    epoch: U64
    up_to: U64
    members: Annotated[bytes, AtMost(MEMBERS_BYTES_MAX)]
    """A bit set of the sender's part of the tree."""
    proof: U64
    """The members' MACs, added without carries (XOR)."""
    apart: Annotated[bytes, AtMost(PROOF_BYTES * BROKERS_MAX)] | None = None
    """In place of the sum, the MAC of each member in order."""

    def problem(self) -> str:
        return f"{PROOF_BYTES} bytes for each MAC" if self.apart and len(self.apart) % PROOF_BYTES else ""

    @property
    def proofs(self) -> tuple[int, ...]:
        """The MACs of the members by themselves; () if they are added."""
        macs = self.apart or b""
        proofs: tuple[int, ...] = unpack(f">{len(macs) // PROOF_BYTES}Q", macs)
        return proofs


@control(0x56)
@dataclass(frozen=True, slots=True)
class GroupRepair(ControlFrame):
    """Asks the sender's parent in the tree for the batches after a position again."""

    root: U64
    epoch: U64
    up_to: U64


GroupFrame: TypeAlias = GroupOpen | GroupBatch | GroupAck | GroupRepair
