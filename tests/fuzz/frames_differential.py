"""The frame decoder against itself: whole, byte by byte, cut at random and one frame at a time must agree.

An input is one byte of choices, four that seed the cuts, and the stream. Limits are small, so that they are within a
fuzzer's reach. `fuzz_frames.py` looks for inputs that fail, `test_corpus_frames.py` replays those that are kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from plait_core.errors import FrameError
from plait_core.limits import EventLimits, WireLimits
from plait_core.wire import (
    VERSION_MAX,
    ControlFrame,
    EventFrame,
    Frame,
    FrameDecoder,
    Handshake,
    Hello,
    State,
    Welcome,
    encode_frame,
)
from plait_core.wire.frame_types import envelope_frames as envelope_frames  # registers its frames with every decoder

SMALL = WireLimits(
    hello_bytes_max=256,
    frame_bytes_max=1024,
    destinations_max=4,
    path_max=3,
    deliveries_max=4,
    nesting_max=5,
    control_items_max=48,
    event=EventLimits(
        attributes_max=6,
        name_bytes_max=12,
        value_bytes_max=24,
        int_bits_max=96,
        list_items_max=4,
        attributes_bytes_max=160,
        headers_max=3,
        headers_bytes_max=60,
        payload_bytes_max=64,
    ),
)
CHOICES_BYTES = 5


def check(data: bytes) -> None:
    """Decode the input whole and in pieces. Raise when the results differ or the decoder raises an unexpected error."""
    if len(data) < CHOICES_BYTES:
        return
    opening = bool(data[0] & 1)
    stream = data[CHOICES_BYTES:]
    whole = outcome([stream], opening)
    assert outcome([stream[at : at + 1] for at in range(len(stream))], opening) == whole, "byte by byte differs"
    assert outcome(_cut(stream, data[1:CHOICES_BYTES]), opening) == whole, "cut at random differs"
    assert outcome([stream], opening, one_by_one=True) == whole, "one by one differs"
    assert outcome(_cut(stream, data[1:CHOICES_BYTES]), opening, read_ahead=True) == whole, "read ahead differs"


def outcome(
    pieces: Iterable[bytes], opening: bool, *, one_by_one: bool = False, read_ahead: bool = False
) -> tuple[list[str], str]:
    """Return the contents of all frames and how decoding ended. `read_ahead` feeds three pieces at a time."""
    decoder = FrameDecoder(SMALL, version=None if opening else VERSION_MAX)
    handshake = Handshake.acceptor(("durable",), versions=(1, 3)) if opening else None
    seen: list[str] = []
    fed = 0
    try:
        for number, piece in enumerate([*pieces, b""]):
            decoder.feed(piece)
            fed += len(piece)
            if read_ahead and piece and number % 3 != 2:
                continue
            while frames := [f for f in [decoder.next_frame()] if f] if one_by_one else decoder.take():
                for frame in frames:
                    seen.append(_contents(frame))
                    if handshake is not None and handshake.state is not State.OPEN:
                        _shake_hands(handshake, frame, decoder)
            assert decoder.held_bytes <= min(fed, SMALL.frame_bytes_max), "holds more than one frame"
    except FrameError as error:
        return seen, str(error)
    return seen, f"waits with {decoder.held_bytes} bytes"


def _shake_hands(handshake: Handshake, frame: Frame, decoder: FrameDecoder) -> None:
    handshake.receive(frame)
    if handshake.state is State.HELLO_RECEIVED:
        handshake.welcome(broker_name="fuzz", broker=1, session=2, heartbeat_s=5)
        decoder.establish(handshake.version)


def _contents(frame: Frame) -> str:
    opening = isinstance(frame, Hello | Welcome)
    again = FrameDecoder(version=None if opening else VERSION_MAX)
    again.feed(encode_frame(frame))
    assert again.take() == [frame], "a frame is not read back"
    return repr(frame) if isinstance(frame, ControlFrame) else "|".join([repr(frame), *_readings(frame)])


def _readings(frame: EventFrame) -> list[str]:
    readings: list[Callable[[], object]] = [frame.attributes, frame.headers, lambda: frame.payload, frame.event]
    return [_reading(read) for read in readings]


def _reading(read: Callable[[], object]) -> str:
    try:
        return repr(read())
    except FrameError as error:
        return f"refused: {error}"


def _cut(stream: bytes, seed: bytes) -> list[bytes]:
    draw = random.Random(seed)
    pieces, at = [], 0
    while at < len(stream):
        size = draw.choice((1, 2, 7, 8, 9, 60, 300))
        pieces.append(stream[at : at + size])
        at += size
    return pieces
