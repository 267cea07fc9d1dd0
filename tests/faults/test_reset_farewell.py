"""A client whose connection is reset directly after the broker's Close reconnects."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading

import pytest

import plait
from plait_core.wire import HANDSHAKE_VERSION, Close, encode_frame
from plait_core.wire.frame_types.session_frames import Code

VISITS = 5
FAREWELL = encode_frame(Close(Code.LIMIT, "too many", retryable=True), HANDSHAKE_VERSION)
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with a zero timeout: closing resets the connection."""


def refuse(listener: socket.socket) -> None:
    """Accept connections, refuse the handshake, and reset them."""
    for _ in range(VISITS):
        accepted, _ = listener.accept()
        accepted.recv(4096)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        accepted.send(FAREWELL)
        accepted.close()


async def test_a_reset_behind_the_farewell_raises_nothing() -> None:
    raised: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: raised.append(context))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        refusing = threading.Thread(target=refuse, args=(listener,), daemon=True)
        refusing.start()
        again = plait.Reconnect(first_s=0.01, max_s=0.01)
        with pytest.raises(plait.ConnectionLost):  # the broker is gone after its last refusal
            await plait.connect(f"plait://127.0.0.1:{listener.getsockname()[1]}", reconnect=again, timeout=3)
        refusing.join(1)
        assert not refusing.is_alive(), "it came back as often as it was refused"
    assert not raised, raised[0]
