"""What a malicious neighbour, relay or root may send: the broker refuses it, keeps little, and forwards what fits."""

from __future__ import annotations

import pytest

from plait_core.errors import FrameError
from plait_core.limits import FRAME_BYTES_MAX
from plait_core.wire import encode_frame
from plait_core.wire.frame_header import PREFIX_BYTES
from plait_core.wire.frame_types.frame_schema import FRAME_SCHEMAS, decode_control
from plait_core.wire.frame_types.group_frames import BATCH_BYTES_MAX, EPOCH_MAX, GroupBatch, GroupOpen

MOST = (1 << 64) - 1


def test_a_batch_that_a_broker_accepts_can_be_forwarded() -> None:
    """Let the fields besides the events grow to their greatest values."""
    small = GroupBatch(0, 0, 0, 0, bytes(BATCH_BYTES_MAX))
    large = GroupBatch(MOST, MOST, MOST, MOST, bytes(BATCH_BYTES_MAX), True, MOST)
    assert len(encode_frame(small)) < len(encode_frame(large)) <= FRAME_BYTES_MAX
    with pytest.raises(ValueError, match="events"):
        encode_frame(GroupBatch(0, 0, 0, 0, bytes(BATCH_BYTES_MAX + 1)))


@pytest.mark.parametrize("epoch", [0, EPOCH_MAX + 1])
def test_an_epoch_is_a_position_after_another_one(epoch: int) -> None:
    """A repair names the position before the epoch, which must be a number of the wire."""
    right = encode_frame(GroupOpen(1, EPOCH_MAX, (1,), b""))[PREFIX_BYTES:]
    wrong = right.replace(b"\xa5epoch\xcf" + EPOCH_MAX.to_bytes(8, "big"), b"\xa5epoch\xcf" + epoch.to_bytes(8, "big"))
    assert wrong != right
    assert decode_control(FRAME_SCHEMAS[0x53], right) == GroupOpen(1, EPOCH_MAX, (1,), b"")
    with pytest.raises(FrameError):
        decode_control(FRAME_SCHEMAS[0x53], wrong)
