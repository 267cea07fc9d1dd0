"""Frame decoding beside a bare msgpack stream of the same information, in the same run."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import msgpack  # type: ignore[import-untyped]

from plait_core.events import Event
from plait_core.wire import VERSION_MAX, FrameDecoder, Publish, encode_publish

READ_BYTES = 64 * 1024
FRAME_BYTES = 128
FRAMES = 8192


def measure_decoding(seconds: float) -> dict[str, float]:
    """Return frames a second: with identity read, with attributes read, and as msgpack maps."""
    events = [_event(sequence) for sequence in range(1, FRAMES + 1)]
    frames = _reads(b"".join(encode_publish(event) for event in events))
    maps = _reads(b"".join(msgpack.packb(_as_map(event)) for event in events))
    return {
        "identity": _rate(lambda: _decode(frames, _read_identity), seconds / 3),
        "identity and attributes": _rate(lambda: _decode(frames, _read_attributes), seconds / 3),
        "msgpack.Unpacker, the same as maps": _rate(lambda: _decode_maps(maps), seconds / 3),
    }


def _event(sequence: int) -> Event:
    attributes = {"symbol": "IBM", "price": 100 + sequence / 7, "volume": 100 + sequence % 20}
    bare = Event.checked(
        attributes, publisher=0x1F2E3D4C5B6A7988, sequence=sequence, published_us=1_700_000_000_000_000
    )
    room = FRAME_BYTES - len(encode_publish(bare))
    return Event.checked(
        attributes, b"x" * room, publisher=bare.publisher, sequence=sequence, published_us=bare.published_us
    )


def _as_map(event: Event) -> dict[str, object]:
    return {
        "publisher": event.publisher,
        "sequence": event.sequence,
        "published_us": event.published_us,
        "lifetime_us": event.lifetime_us,
        "priority": event.priority,
        "confirm": 0,
        "attributes": event.attributes,
        "payload": event.payload,
    }


def _reads(stream: bytes) -> list[bytes]:
    return [stream[start : start + READ_BYTES] for start in range(0, len(stream), READ_BYTES)]


def _decode(reads: list[bytes], read_frame: Callable[[Publish], object]) -> int:
    decoder, count = FrameDecoder(version=VERSION_MAX), 0
    for data in reads:
        decoder.feed(data)
        for frame in decoder.take():
            assert isinstance(frame, Publish)
            read_frame(frame)
            count += 1
    return count


def _read_identity(frame: Publish) -> object:
    return frame.publisher, frame.sequence


def _read_attributes(frame: Publish) -> object:
    return frame.publisher, frame.sequence, frame.attributes()


def _decode_maps(reads: list[bytes]) -> int:
    unpacker, count = msgpack.Unpacker(), 0
    for data in reads:
        unpacker.feed(data)
        for found in unpacker:
            _ = found["publisher"], found["sequence"], found["attributes"]
            count += 1
    return count


def _rate(decode: Callable[[], int], seconds: float) -> float:
    count, start = decode() * 0, perf_counter()  # once unmeasured, to warm up
    while (spent := perf_counter() - start) < seconds or not count:
        count += decode()
    return count / spent
