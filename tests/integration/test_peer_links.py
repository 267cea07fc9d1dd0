"""Links between live peers, as a stranger and a passive observer see them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import plait
from plait_core.space import IntRange, Schema
from plait_core.wire import VERSION_MAX, VERSION_MIN, Hello, Role, encode_frame
from plait_peer.link_cipher import HANDSHAKE_BYTES, NoiseCipher

PATIENCE_S = 60.0
SPACE = Schema.of({"canary_price": IntRange(0, 255), "canary_size": IntRange(0, 255)})
GROUP = "canary-group"
SECRET = "canary-secret"
INTEREST = "canary_price = 77 and canary_size = 33"
WITHIN_S = 17.125
ATTRIBUTES = {"canary_price": 77, "canary_size": 33, "canary_word": "canary-value"}
PAYLOAD = b"canary-payload"


class Recorder:
    """A relay that records all bytes in both directions."""

    def __init__(self) -> None:
        self.target = 0
        self.address = ""
        self.connections = 0
        self.seen = bytearray()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(self._carry(reader, other_writer), self._carry(other_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.seen += data
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()


@asynccontextmanager
async def recorded_peer(*join: str) -> AsyncIterator[tuple[plait.Client, Recorder]]:
    """Open a peer that others can only reach through a recorder."""
    recorder = Recorder()
    server = await asyncio.start_server(recorder.accept, "127.0.0.1", 0)
    recorder.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        async with opened(*join, advertise=recorder.address) as client:
            recorder.target = port_of(client)
            yield client, recorder


def opened(*join: str, advertise: str = "") -> plait.opening.Opening[plait.peer_client.PeerClient]:
    return plait.peer(
        list(join), space=SPACE, group=GROUP, secret=SECRET, name="canary-name", timeout=PATIENCE_S, advertise=advertise
    )


def port_of(client: plait.Client) -> int:
    port: int = client._live._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    return port


def canaries(*clients: plait.Client) -> dict[str, bytes]:
    """Return everything that nobody outside of the group may see, as it is encoded."""
    found = {name: name.encode() for name in (GROUP, SECRET, "canary-name", *ATTRIBUTES, "canary-value")}
    found["payload"] = PAYLOAD
    found["bound"] = struct.pack(">d", WITHIN_S)
    for number, client in enumerate(clients):
        node = client._live.node  # type: ignore[attr-defined]
        found[f"address {number}"] = node.address.encode()
        found[f"process {number}"] = node.id.to_bytes(8)
        for peer in node.peers.values():
            found[f"peer {peer.id}"] = peer.id.to_bytes(8)
            found |= {f"interest {dz}": dz.encode() for dz in peer.dz if len(dz) >= 12}
    return found


async def exchange(one: plait.Client, two: plait.Client) -> dict[str, bytes]:
    """Let an event pass from one peer to the other. Return the canaries."""
    async with two.subscribe(INTEREST, within=WITHIN_S) as events, one.advertise(INTEREST):
        await one.publish(ATTRIBUTES, PAYLOAD)
        event = await events.next(timeout=PATIENCE_S)
        assert event.payload == PAYLOAD
        return canaries(one, two)


async def test_an_observer_of_the_wire_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canaries are in what the links encrypt, so that the search can find them, and not in what they send."""
    plaintexts = bytearray()
    encrypt = NoiseCipher.encrypt

    def recorded(self: NoiseCipher, plaintext: bytes) -> bytes:
        plaintexts.extend(plaintext)
        return encrypt(self, plaintext)

    monkeypatch.setattr(NoiseCipher, "encrypt", recorded)
    async with asyncio.timeout(PATIENCE_S), recorded_peer() as (one, first):
        async with recorded_peer(first.address) as (two, second):
            hidden = await exchange(one, two)
            seen = bytes(first.seen + second.seen)
    assert first.connections + second.connections >= 1
    assert len(seen) > len(plaintexts) / 2, "the recorders saw the links"
    never_sent = {SECRET, "canary-name"}
    assert {name for name, canary in hidden.items() if canary not in plaintexts} == never_sent
    assert [name for name, canary in hidden.items() if canary in seen] == []


async def test_a_stranger_collects_nothing_from_a_member() -> None:
    """The stranger sends a Hello, garbage, another group's key, a member's recorded key, and nothing at all."""
    async with asyncio.timeout(PATIENCE_S), recorded_peer() as (one, first), opened(first.address) as two:
        hidden = await exchange(one, two)
        recorded_key = bytes(first.seen[:HANDSHAKE_BYTES])
        other_key = NoiseCipher(bytes(32), b"canary-group", bytes(32), dials=True).write_handshake()
        hello = encode_frame(Hello(VERSION_MIN, VERSION_MAX, Role.PEER, GROUP, 7, nonce=bytes(16)), 0)
        sent = {
            "hello": hello,
            "garbage": bytes(range(256)),
            "another key": other_key,
            "a recorded key": recorded_key,
            "a recorded key and more": recorded_key + bytes(4096),
            "nothing": b"",
        }
        found = await asyncio.gather(*[collected(port_of(one), data) for data in sent.values()])
        got = dict(zip(sent, found, strict=True))
        for data in got.values():
            assert not [name for name, canary in hidden.items() if canary in data]
        assert len(got.pop("a recorded key")) == HANDSHAKE_BYTES, "a public key and a tag"
        assert set(got.values()) == {b""}, "no byte, whatever else the stranger sends"
        assert any(link.stage.name == "OPEN" for link in one._live.node.links.values()), "members stay connected"  # type: ignore[attr-defined]


async def collected(port: int, data: bytes) -> bytes:
    """Send bytes as a stranger, and return all that comes back until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    try:
        writer.write(data)
        while more := await reader.read(1 << 16):
            found += more
    except ConnectionError:
        pass
    finally:
        writer.close()
    return found


async def test_a_relay_that_changes_a_byte_breaks_the_link_and_the_peers_connect_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    changed = False
    carry = Recorder._carry

    async def changing(self: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal changed
        feed = reader.read

        async def read(count: int = -1) -> bytes:
            nonlocal changed
            data = await feed(count)
            if len(self.seen) > 4096 and len(data) > 64 and not changed:
                changed = True
                data = data[:-1] + bytes([data[-1] ^ 1])
            return data

        monkeypatch.setattr(reader, "read", read)
        await carry(self, reader, writer)

    monkeypatch.setattr(Recorder, "_carry", changing)
    async with asyncio.timeout(PATIENCE_S), recorded_peer() as (one, first):
        async with recorded_peer(first.address) as (two, _):
            while not changed:
                await exchange(one, two)
            await exchange(one, two)
    assert "a link was refused: a record does not authenticate" in caplog.text
