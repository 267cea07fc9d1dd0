"""Deliberately slow connections (SCORECARD S7).

Their lifetime is tested on virtual time with a broker's own settings. Their cost for an honest client is measured with
real connections.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from beside import is_served_as_before
from processes import broker_process, put_away

import plait
from plait_broker import BrokerSettings
from plait_core import Event
from plait_core.limits import HELLO_BYTES_MAX, PAYLOAD_BYTES_MAX
from plait_core.wire import Close, Hello, Ping, Role, encode_frame, encode_publish
from plait_core.wire.frame_types.session_frames import Code
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage

CLOSED_WITHIN_S = 10.0
"""Limit of the scorecard, on the simulator's clock."""

FOUND_WITHIN_S = 0.1
"""Tolerance for detecting a deadline, and one round trip."""

HELLO = encode_frame(Hello(1, 1, Role.CLIENT, "slow", 1, ("resume",), token="t" * 200))

# --- how long they last -----------------------------------------------------------------------------------------------


def test_a_hello_of_one_byte_a_second_is_cut_short() -> None:
    stage = Stage(BrokerSettings())
    slow = stage.raw("slow", connect=False)
    slow.connect(hello=False)
    for byte in HELLO[: round(CLOSED_WITHIN_S)]:
        stage.run(1.0)
        slow.send_bytes(bytes([byte]))
    assert slow.closed_for == Code.TIMEOUT
    assert slow.connection is None


@pytest.mark.parametrize("half", [0, 1, 7, 8, len(HELLO) - 1])
def test_half_a_hello_and_silence_is_cut_short(half: int) -> None:
    stage = Stage(BrokerSettings())
    slow = stage.raw("slow", connect=False)
    slow.connect(hello=False)
    stage.run(0.1)
    slow.send_bytes(HELLO[:half])
    stage.run(CLOSED_WITHIN_S)
    assert slow.closed_for == Code.TIMEOUT


def test_two_thousand_of_them_hold_little_and_go_and_the_honest_one_stays() -> None:
    stage = Stage(BrokerSettings())
    honest = stage.raw("honest")
    honest.subscribe(1)
    crowd = [stage.raw(f"slow {number}", connect=False) for number in range(2000)]
    for slow in crowd:
        slow.connect(hello=False)
    stage.run(0.1)
    for byte in HELLO[:3]:
        for slow in crowd:
            slow.send_bytes(bytes([byte]))
        stage.run(1.0)
        honest.publish(n=byte)
        stage.run(0.05)
    assert all(link.decoder.held_bytes <= HELLO_BYTES_MAX for link in stage.broker._connections.values())
    stage.run(CLOSED_WITHIN_S)
    assert {slow.closed_for for slow in crowd} == {Code.TIMEOUT}
    assert len(stage.broker._connections) == 1
    assert honest.sequences(1) == [1, 2, 3]
    assert honest.closed_for is None


def an_event(publisher: int, size: int) -> bytes:
    return encode_publish(Event.checked({"slow": True}, bytes(size), publisher=publisher, sequence=1))


def a_slow_client(stage: Stage) -> RawClient:
    slow = stage.raw("slow")
    slow.answers_pings = False  # a pong in the middle of a frame would be part of it
    return slow


def test_a_welcome_client_cannot_take_for_ever_over_one_frame() -> None:
    stage = Stage(BrokerSettings())
    honest, slow = stage.raw("honest"), a_slow_client(stage)
    honest.subscribe(1)
    stage.run(0.1)
    for byte in an_event(slow.publisher, 1000)[: round(CLOSED_WITHIN_S)]:
        slow.send_bytes(bytes([byte]))
        stage.run(1.0)
    stage.run(FOUND_WITHIN_S)
    assert slow.closed_for == Code.TIMEOUT
    assert honest.closed_for is None


@pytest.mark.parametrize("heartbeat_s", [5.0, 600.0])
def test_half_a_frame_and_silence_is_cut_short(heartbeat_s: float) -> None:
    stage = Stage(BrokerSettings(heartbeat_s=heartbeat_s))
    slow = a_slow_client(stage)
    slow.send_bytes(an_event(slow.publisher, 1000)[:500])
    stage.run(CLOSED_WITHIN_S - FOUND_WITHIN_S)
    assert slow.closed_for is None
    stage.run(2 * FOUND_WITHIN_S)
    assert slow.closed_for == Code.TIMEOUT
    (farewell,) = slow.of(Close)
    assert farewell.retryable
    assert farewell.message == "a frame was not complete within 10 s"


def test_the_timeout_of_a_frame_starts_with_its_own_first_byte() -> None:
    stage = Stage(BrokerSettings())
    slow = a_slow_client(stage)
    frame = an_event(slow.publisher, 1000)
    slow.send_bytes(frame[:500])
    stage.run(CLOSED_WITHIN_S - 1)
    slow.send_bytes(frame[500:] + encode_frame(Ping(1))[:3])
    stage.run(CLOSED_WITHIN_S - 1)
    assert slow.closed_for is None
    stage.run(1 + FOUND_WITHIN_S)
    assert slow.closed_for == Code.TIMEOUT


def test_slow_pieces_of_complete_frames_do_not_close_a_connection() -> None:
    """A slow but honest client: each frame is complete within seconds, and bytes always follow."""
    stage = Stage(BrokerSettings())
    slow = a_slow_client(stage)
    ping = encode_frame(Ping(7))
    stream, half = ping * 20, len(ping) // 2
    for start in range(0, len(stream), half):
        slow.send_bytes(stream[start : start + half])
        stage.run(1.0)
    assert slow.closed_for is None


def test_the_largest_frame_at_a_modest_rate_gets_through() -> None:
    stage = Stage(BrokerSettings())
    slow, honest = a_slow_client(stage), stage.raw("honest")
    honest.subscribe(1)
    stage.run(0.1)
    frame = an_event(slow.publisher, PAYLOAD_BYTES_MAX)
    part = len(frame) // 9 + 1
    for start in range(0, len(frame), part):
        slow.send_bytes(frame[start : start + part])
        stage.run(1.0)
    assert honest.sequences(1) == [1]
    assert slow.closed_for is None


# --- what they cost ---------------------------------------------------------------------------------------------------

SLOW = 100
PERIOD_S = 1.0


class Crowd:
    """The process with the slow connections, switched on and off."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def be(self, said: str) -> None:
        """Switch the connections `on` or `off`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{said}\n".encode())
        assert (await asyncio.wait_for(self._process.stdout.readline(), 30)).decode().strip() == said


@asynccontextmanager
async def crowd_at(port: int) -> AsyncIterator[Crowd]:
    program = Path(__file__).parent / "trickling.py"
    arguments = (str(program), str(port), str(SLOW), str(PERIOD_S))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=pipe, stdout=pipe)
    try:
        yield Crowd(process)
    finally:
        await put_away(process)


async def test_the_honest_are_served_as_before_beside_a_hundred_slow_ones() -> None:
    async with broker_process("--listen", "127.0.0.1:0", "--http", "off") as broker:
        await broker.ready()
        async with (
            plait.connect(f"plait://127.0.0.1:{broker.port}") as client,
            client.subscribe("has(mine)") as mine,
            crowd_at(broker.port) as crowd,
        ):
            await is_served_as_before(client, mine, crowd.be)
