"""The relay buffer: copies for a full link leave in the order in which they came, within a bound of bytes."""

from __future__ import annotations

import pytest
from copies import copy

from plait_broker.overlay.transport import relay_buffer
from plait_broker.overlay.transport.relay_buffer import RelayBuffer
from plait_core.wire import Forward


def bytes_of_one() -> int:
    """Return the bytes of a copy with the shortest payload."""
    return relay_buffer._bytes_of(copy())


def test_copies_leave_in_order() -> None:
    buffer = RelayBuffer()
    for sequence in range(1, 6):
        assert buffer.add(copy(sequence), 0.0)
    assert len(buffer.copies) == 5
    assert [buffer.take(0.0)[0][0].sequence for _ in range(5)] == [1, 2, 3, 4, 5]
    assert not buffer.copies


def test_the_buffer_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_buffer, "RELAY_BYTES_MAX", 3 * bytes_of_one())
    buffer = RelayBuffer()
    added = [buffer.add(copy(sequence), 0.0) for sequence in range(1, 8)]
    assert added == [True] * 4 + [False] * 3, "it exceeds the bound by one copy at most"
    assert len(buffer.copies) == 4


def test_a_copy_that_leaves_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_buffer, "RELAY_BYTES_MAX", bytes_of_one())
    buffer = RelayBuffer()
    assert [buffer.add(copy(sequence), 0.0) for sequence in (1, 2, 3)] == [True, True, False]
    assert buffer.take(0.0)[0][0].sequence == 1
    assert buffer.add(copy(4), 0.0)
    assert [buffer.take(0.0)[0][0].sequence for _ in range(2)] == [2, 4]


def test_one_copy_of_any_size_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_buffer, "RELAY_BYTES_MAX", 10)
    buffer = RelayBuffer()
    assert buffer.add(copy(payload=bytes(1000)), 0.0)
    assert not buffer.add(copy(2), 0.0)


def test_the_destinations_of_a_copy_and_of_its_frame_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_buffer, "RELAY_BYTES_MAX", 2 * bytes_of_one())
    one = copy()
    event, tree, delay_us, flags, path, destinations = one
    many = tuple((broker, 1, 0) for broker in range(2, 1026))
    frame = Forward(0, 0, 0, (9,), many, event.block)
    for wide in (
        (event, tree, delay_us, flags, path, many),
        (frame, tree, delay_us, flags, (9, 1), destinations),
    ):
        buffer = RelayBuffer()
        assert buffer.add(wide, 0.0)
        assert not buffer.add(wide, 0.0), "the first has filled it"
        assert buffer.take(0.0) == (wide, 0)
        assert buffer.add(one, 0.0)
        assert buffer.add(one, 0.0)
