"""The recorders in Python and in the native kernel: the same ring, and the same bytes for the same events."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np
import pytest

from plait_core.events import Event
from plait_core.native import kernel
from plait_core.telemetry import DURABLE, LATE, RECORD_BYTES, RecordKind, record_dtype
from plait_core.wire import EventFrame, Forward, encode_block
from plait_telemetry.recorder import Recorder, Records, new_recorder

NATIVE: Final = pytest.mark.skipif(kernel is None, reason="the native kernel is not built (make kernel)")
BOTH: Final = pytest.mark.parametrize("native", [False, pytest.param(True, marks=NATIVE)])

WALL_US: Final = 1_790_000_000_000_000


def made(records: int, *, native: bool) -> Records:
    recorder: Any = kernel.Recorder(records, WALL_US) if native else Recorder(records, WALL_US)
    assert isinstance(recorder.filled(), list)
    return recorder  # type: ignore[no-any-return]


def taken(recorder: Records) -> bytes:
    """Take all bytes that it has, and release them."""
    found = b""
    while recorder.taken < recorder.written:
        pieces = recorder.filled()
        found += b"".join(pieces)
        recorder.release(sum(map(len, pieces)) // RECORD_BYTES)
    return found


def read(recorder: Records) -> np.ndarray:
    return np.frombuffer(taken(recorder), record_dtype())


def frame_of(chance: Random) -> EventFrame:
    attributes = {f"a{at}": "x" * chance.randrange(40) for at in range(chance.randrange(5))}
    lifetime_us = chance.choice([0, 5, 2**31, 2**33, 2**62])
    event = Event(
        attributes,
        publisher=chance.choice([1, 2, 2**64 - 1]),
        sequence=chance.choice([chance.randrange(6), chance.randrange(2**64)]),
        published_us=chance.choice([0, WALL_US, 2**62]),
        lifetime_us=lifetime_us,
    )
    block = encode_block(event)
    if chance.random() < 0.5:
        return EventFrame(block)
    path = tuple(chance.randrange(2**64) for _ in range(chance.randrange(1, 9)))
    return Forward(3, 5, 0, path, ((4, 5, 6),), block)


def step(chance: Random) -> tuple[str, tuple[Any, ...]]:
    """Draw one recording step."""
    frame, now = frame_of(chance), chance.choice([0.0, 1.5, 17.0000005, chance.random() * 1e6])
    delay_us, many = chance.choice([0, 1234, 2**32 - 1, 2**32, 2**40]), chance.choice([0, 3, 2**16 - 1, 2**16, 10**6])
    broker = chance.choice([1, 2**63, 2**64 - 1])
    kind, frames = (
        chance.choice([int(RecordKind.PUBLISH), int(RecordKind.DROP) | 17 << 8]),
        [frame_of(chance) for _ in range(3)],
    )
    return chance.choice(
        [
            ("published", (frame, range(many), range(chance.randrange(9)), range(chance.randrange(99)), delay_us, now)),
            ("arrived", (frame, broker, range(many), range(chance.randrange(9)), delay_us, now)),
            ("forwarded", (frame, broker, delay_us, chance.choice([1, 255, 300]), many, now)),
            ("delivered", (many, delay_us, frame, delay_us // 2, chance.choice([0, LATE, LATE | DURABLE]), now)),
            ("passed", (frame, many, delay_us, delay_us // 2, chance.choice([0, LATE, LATE | DURABLE]), now)),
            (
                "each",
                (
                    kind,
                    frames,
                    broker,
                    chance.choice([None, 0, delay_us]),
                    55,
                    3,
                    2,
                    chance.choice([1, 300]),
                    LATE,
                    now,
                ),
            ),
            ("locate", (broker,)),
            ("weigh", (1 << chance.randrange(4),)),
            ("put", (-5, 2**62, 2**64 - 1, 4, 5, 6, 7, 8, 9, 10, 11, int(RecordKind.LINK), 13, 14, 15)),
        ]
    )


@NATIVE
def test_both_write_the_same_bytes() -> None:
    chance, python, native = Random(7), made(32, native=False), made(32, native=True)
    lengths = []
    for _ in range(300):
        for _ in range(chance.randrange(80)):
            what, arguments = step(chance)
            for recorder in (python, native):
                getattr(recorder, what)(*arguments)
            if chance.random() < 0.1 and what in ("published", "arrived"):  # deliveries of the same event
                for recorder in (python, native):
                    recorder.delivered(8, 50_000, arguments[0], 77, 0, 2.5)
        assert (python.written, python.lost, python.taken) == (native.written, native.lost, native.taken)
        found = taken(python)
        assert found == taken(native)
        lengths.append(len(found))
    assert python.lost > 0, "the ring must have been full at times"
    assert len(set(lengths)) > 20


@BOTH
def test_deliveries_know_how_many_the_event_matched(native: bool) -> None:
    recorder, chance = made(8, native=native), Random(1)
    first, other = frame_of(chance), EventFrame(encode_block(Event({}, publisher=99, sequence=1)))
    recorder.arrived(first, 5, range(16), [1], 1, 1.0)
    recorder.delivered(4, 0, first, 1, 0, 1.0)
    recorder.delivered(4, 0, other, 1, 0, 1.0)
    assert read(recorder)["expected"].tolist() == [17, 17, 0]


@BOTH
def test_order_is_kept_around_the_end_and_losses_are_counted(native: bool) -> None:
    recorder, chance, sent, got = made(8, native=native), Random(3), 0, []
    for _ in range(500):
        for _ in range(chance.randrange(6)):
            sent += 1
            recorder.put(1, 2, 3, sent, 5, 6, 7, 8, 9, 10, 1, int(RecordKind.PUBLISH), 0, 1, 0)
        if chance.random() < 0.7:
            got.extend(read(recorder)["sequence"].tolist())
    got.extend(read(recorder)["sequence"].tolist())
    assert recorder.lost > 0, "the ring must have been full at times"
    assert len(got) == sent - recorder.lost == recorder.written
    assert got == sorted(set(got))


@BOTH
def test_taken_records_do_not_change(native: bool) -> None:
    recorder = made(4, native=native)
    recorder.put(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, int(RecordKind.PUBLISH), 0, 1, 0)
    (piece,) = recorder.filled()
    for _ in range(3):  # the ring is not full, so unreleased records are not overwritten
        recorder.put(9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9)
    assert np.frombuffer(piece, record_dtype())["sequence"].tolist() == [4]


@NATIVE
@pytest.mark.parametrize("wrong", [(-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_invalid_records_are_refused(wrong: tuple[int, int, int]) -> None:
    recorder, frame = made(4, native=True), EventFrame(encode_block(Event({}, publisher=1, sequence=1)))
    number, within_us, delay_us = wrong
    with pytest.raises(ValueError, match="negative"):
        recorder.delivered(number, within_us, frame, delay_us, 0, 1.0)
    with pytest.raises(ValueError, match="more than there are"):
        recorder.release(1)
    with pytest.raises(TypeError):
        recorder.put(1, 2, 3)
    assert recorder.written == 0


def test_the_native_one_is_taken_where_it_is() -> None:
    assert isinstance(new_recorder(0, native=False), Recorder)
    assert isinstance(new_recorder(0), Recorder) == (kernel is None)
