"""Writes the seeds of the frame fuzzer: valid frames of each kind, and inputs known to be nasty.

    python tests/fuzz/seed_frames.py

Run it after a change of the layout. What the fuzzer found is kept under other names and is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import pack

import msgpack

from plait_core.events import Event
from plait_core.wire import (
    Close,
    Confirm,
    Deliver,
    Forward,
    Hello,
    Ping,
    Pong,
    Publish,
    Role,
    encode_block,
    encode_frame,
)
from plait_core.wire.frame_types.envelope_frames import EndToEnd

CORPUS = Path(__file__).parent / "corpus" / "frames"
OPEN, OPENING = b"\x00seed", b"\x01seed"

EVENT = Event(
    {"symbol": "IBM", "price": 121.5, "halted": False}, b"payload", 7, 1, 1_000, 2_000, 3, {"Trace-Id": "abc"}
)
ODD = Event({"big": 2**80, "list": [1, -(2**70), "x", None], "nan": float("nan"), "none": None})
BLOCK = encode_block(EVENT)
HELLO = encode_frame(Hello(1, 3, Role.CLIENT, "ibis", 7, ("durable", "trace"), token="t", resume=9))
PING = encode_frame(Ping(1))


def valid() -> Iterator[tuple[str, bytes]]:
    yield "publish", OPEN + encode_frame(Publish(Confirm.BROKER, BLOCK))
    yield "publish-odd", OPEN + encode_frame(Publish(Confirm.NONE, encode_block(ODD)))
    yield "publish-empty", OPEN + encode_frame(Publish(Confirm.SUBSCRIBERS, encode_block(Event({}))))
    yield "forward", OPEN + encode_frame(Forward(1, 2, 0, (3, 4), ((5, 1, 0), (6, 9, 0)), BLOCK))
    yield "forward-bare", OPEN + encode_frame(Forward(1, 2, 255, (), (), BLOCK))
    yield "deliver", OPEN + encode_frame(Deliver(2, 1, (3,), ((1, 0, 9), (2, 1, 0)), BLOCK))
    yield "ping-pong", OPEN + PING + encode_frame(Pong(2**64 - 1)) + encode_frame(Close("bye", "later", True))
    yield "close-from-the-handshake", OPEN + encode_frame(Close("bye"), version=0)
    yield "end-to-end", OPEN + encode_frame(EndToEnd(0x45, 1, (2,), b"", (bytes(16),), (bytes(16),), 1))
    yield "end-to-end-two", OPEN + encode_frame(EndToEnd(0x43, 1, (2, 3), b"\x80", (b"", b"p"), (b"proof", b"")))
    yield "end-to-end-bare", OPEN + encode_frame(EndToEnd(0x46, 1, (2,), b"\x81\xa5up_to\x07"))
    yield "hello", OPENING + HELLO
    yield "hello-and-more", OPENING + HELLO + encode_frame(Publish(Confirm.NONE, BLOCK)) + PING
    yield "hello-too-new", OPENING + encode_frame(Hello(9, 9, Role.PEER, "p", 0))
    yield "close-first", OPENING + encode_frame(Close("bye"), version=0)


def framed(number: int, body: bytes, route: bytes = b"", version: int = 1) -> bytes:
    return OPEN + pack(">IBBH", len(route) + len(body), version, number, len(route)) + route + body


def with_attributes(packed: bytes, headers: bytes = b"") -> bytes:
    fixed = pack(">QQqqBBHI", 1, 2, 3, 4, 0, 0, len(headers), len(packed))
    return framed(1, fixed + packed + headers, b"\x00\x00")


def nasty_prefixes() -> Iterator[tuple[str, bytes]]:
    yield "oversize", OPEN + pack(">IBBH", 2**32 - 1, 1, 1, 2)
    yield "oversize-hello", OPENING + pack(">IBBH", 249, 0, 0x10, 0)
    yield "http", OPENING + b"GET / HTTP/1.1\r\nHost: plait\r\n\r\n"
    yield "version", framed(0x13, b"\x80", version=7)
    yield "type", framed(0x7F, b"\x80")
    yield "order-ping-first", OPENING + PING
    yield "order-publish-first", OPENING + encode_frame(Publish(Confirm.NONE, BLOCK))
    yield "order-second-hello", OPENING + HELLO + HELLO
    yield "control-with-route", framed(0x13, b"\x81\xa5nonce\x01", b"\x00")
    yield "route-beyond-frame", OPEN + pack(">IBBH", 44, 1, 2, 65535) + b"\x00" * 44
    yield "waits", OPEN + pack(">IBBH", 1000, 1, 1, 2) + b"\x00" * 50
    yield "error-after-frames", OPEN + PING * 3 + b"\xff" * 8 + PING


def nasty_routes() -> Iterator[tuple[str, bytes]]:
    yield "confirm-level", framed(1, BLOCK, b"\x03\x00")
    yield "path-count", framed(2, BLOCK, pack(">QQBBH", 1, 2, 200, 0, 0))
    yield "path-count-short", framed(2, BLOCK, pack(">QQBBH", 1, 2, 2, 0, 1) + b"\x00" * 16)
    yield "destination-count", framed(2, BLOCK, pack(">QQBBH", 1, 2, 0, 0, 65535))
    yield "delivery-count-long", framed(3, BLOCK, pack(">QBBH", 1, 0, 0, 1) + b"\x00" * 32)
    yield "block-short", framed(1, BLOCK[:39], b"\x00\x00")
    yield "block-flags", framed(1, pack(">QQqqBBHI", 1, 2, 3, 4, 255, 0, 0, 1) + b"\x80", b"\x00\x00")
    yield "block-priority", framed(1, pack(">QQqqBBHI", 1, 2, 3, 4, 0, 10, 0, 1) + b"\x80", b"\x00\x00")
    yield "block-lifetime", framed(1, pack(">QQqqBBHI", 1, 2, 3, -4, 0, 0, 0, 1) + b"\x80", b"\x00\x00")
    yield "block-attributes-lie", framed(1, pack(">QQqqBBHI", 1, 2, 3, 4, 0, 0, 0, 2**32 - 1) + b"\x80", b"\x00\x00")
    yield "block-headers-lie", framed(1, pack(">QQqqBBHI", 1, 2, 3, 4, 0, 0, 60, 1) + b"\x80", b"\x00\x00")


def nasty_msgpack() -> Iterator[tuple[str, bytes]]:
    yield "attributes-deep", with_attributes(b"\x81\xa1a" + b"\x91" * 150 + b"\x01")
    yield "attributes-lists-lie", with_attributes(b"\x81\xa1a" + b"\xdc\x00\x04" * 50)
    yield "attributes-twice", with_attributes(b"\x82\xa1a\x01\xa1a\x02")
    yield "attributes-map32-lies", with_attributes(b"\xdf\xff\xff\xff\xff\xa1a\x01")
    yield "attributes-bin", with_attributes(b"\x81\xa1a\xc4\x01x")
    yield "attributes-timestamp", with_attributes(b"\x81\xa1a\xd6\xff\x00\x00\x00\x01")
    yield "attributes-timestamp-lies", with_attributes(b"\x81\xa1a\xc7\x05\xff12345")
    yield "attributes-small-big-int", with_attributes(b"\x81\xa1a\xd4\x01\x05")
    yield "attributes-huge-int", with_attributes(b"\x81\xa1a\xc7\x0d\x01" + b"\x7f" * 13)
    yield "attributes-no-utf8", with_attributes(b"\x81\xa1a\xa2\xff\xfe")
    yield "attributes-no-name", with_attributes(b"\x81\xa2a-\x01")
    yield "attributes-never-used", with_attributes(b"\x81\xa1a\xc1")
    yield "attributes-more-after", with_attributes(b"\x80\x80")
    yield "attributes-none", with_attributes(b"")
    yield "headers-number", with_attributes(b"\x80", b"\x81\xa1h\x01")
    yield "headers-twice", with_attributes(b"\x80", b"\x82\xa1h\xa1v\xa1h\xa1w")
    yield "control-deep", framed(0x13, b"\x82\xa5nonce\x01\xa1x" + b"\x91" * 900 + b"\x01")
    yield "control-twice", framed(0x13, b"\x82\xa5nonce\x01\xa5nonce\x02")
    yield "control-items", framed(0x13, b"\x82\xa5nonce\x01\xa1x\xdc\x00\x31" + b"\x01" * 49)
    yield "control-unknown-field", framed(0x13, msgpack.packb({"nonce": 1, "later": {"x": [1, {"y": b"z"}]}}))
    yield "control-without", framed(0x13, b"\x80")
    yield "control-truncated", framed(0x13, b"\x81\xa5non")
    yield "control-unhashable-key", framed(0x13, b"\x82\xa5nonce\x01\xa1x\x81\x90\x01")
    yield "end-to-end-counts-lie", framed(0x4E, pack(">HQBBH", 0x45, 1, 0, 3, 1024) + b"\x00" * 20)
    yield "end-to-end-lengths-lie", framed(0x4E, pack(">HQBBHQBB", 0x45, 1, 0, 3, 1, 2, 64, 32) + b"\x00" * 20)
    yield "end-to-end-twice", framed(0x4E, pack(">HQBBHQBBQBB", 0x45, 1, 0, 0, 2, 2, 0, 0, 2, 0, 0))
    yield "control-wrong-type", framed(0x12, b"\x81\xa4code\x01")


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for seeds in (valid(), nasty_prefixes(), nasty_routes(), nasty_msgpack()):
        for name, data in seeds:
            (CORPUS / name).write_bytes(data)


if __name__ == "__main__":
    main()
