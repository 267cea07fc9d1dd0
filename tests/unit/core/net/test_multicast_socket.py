"""The multicast socket, with real sockets on the loopback interface and an announcer without a protocol."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from time import monotonic

import pytest
from processes import port_to_keep

from plait_net.multicast_socket import MulticastSocket

GROUP = "239.255.46.81"
PATIENCE_S = 20.0


class Counting:
    """Announces 1, 2, 3 ... every 20 milliseconds."""

    def __init__(self, name: bytes) -> None:
        self.name, self.sent, self.due = name, 0, monotonic()

    def next_deadline(self) -> float:
        return self.due

    def announce(self, now: float) -> bytes:
        self.sent, self.due = self.sent + 1, now + 0.02
        return self.name + bytes([self.sent % 256])


class End:
    """A socket, and the datagrams that it received."""

    def __init__(self, name: bytes, port: int, interface: str = "127.0.0.1") -> None:
        self.received: list[bytes] = []
        self.announcer = Counting(name)
        self.most = 1_000_000
        self.socket = MulticastSocket(
            self.announcer,
            self._receive,
            group=(GROUP, port),
            interface=interface,
            bytes_max=100,
            missing="nothing is counted",
        )

    def _receive(self, datagram: bytes, host: str, now: float) -> None:
        assert len(self.received) < self.most, "a closed socket receives nothing"
        self.received.append(datagram)
        if len(self.received) >= self.most:
            self.socket.close()


async def until_received(one: list[bytes], count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(one) < count:  # noqa: ASYNC110 - the callback is a plain function
            await asyncio.sleep(0.005)


async def test_both_ends_receive_the_group_and_repeat_at_their_deadline() -> None:
    port = port_to_keep(random.SystemRandom())
    one, two = End(b"a", port), End(b"b", port)
    one.socket.start()
    two.socket.start()
    try:
        await until_received(one.received, 10)
        await until_received(two.received, 10)
    finally:
        one.socket.close()
        two.socket.close()
    assert {datagram[:1] for datagram in one.received} == {b"a", b"b"}
    assert {datagram[:1] for datagram in two.received} == {b"a", b"b"}
    sent = one.announcer.sent, two.announcer.sent
    await asyncio.sleep(0.1)
    assert (one.announcer.sent, two.announcer.sent) == sent, "a closed socket sends nothing"


async def test_a_callback_may_close_the_socket_in_the_middle_of_a_batch() -> None:
    port = port_to_keep(random.SystemRandom())
    end = End(b"a", port)
    end.most = 2
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        noise.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        end.socket.start()
        for _ in range(10):
            noise.sendto(b"x" * 500, (GROUP, port))
        await until_received(end.received, 2)
        await asyncio.sleep(0.05)
    assert len(end.received) == 2
    assert all(len(datagram) <= 101 for datagram in end.received), "too long ones are cut one byte above the limit"


async def test_an_interface_that_does_not_exist_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    end = End(b"a", 4683, interface="192.0.2.1")
    with caplog.at_level(logging.WARNING):
        end.socket.start()
    end.socket.close()
    (line,) = caplog.messages
    assert "on 192.0.2.1 does not work: " in line
    assert line.endswith("; nothing is counted")
