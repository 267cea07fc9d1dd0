"""The control port of a relay: each line is a JSON object, a request or its answer. There is no access control.

{"both": {"delay_s": 0.02}, "forth": {"flow": "frozen"}, "cut": true}    all optional; {} returns the state
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, get_args

from plait_core.values import Json

from ..errors import ConnectionLost, Refused
from ..options.addresses import parse_host_port
from .relay import Direction, Relay

LINE_BYTES_MAX: Final = 4096
"""Length of a request, which has at most eleven numbers."""

ANSWER_S: Final = 5.0
"""Seconds to wait for an answer. A relay answers at once."""

STATE: Final = frozenset(("listen", "to", "cut", "connections", "forth", "back"))
"""Keys that each answer has."""


@asynccontextmanager
async def serve_control(relay: Relay, place: str) -> AsyncIterator[str]:
    """Serve the control port of a relay at HOST:PORT. Yield the address in use."""

    async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(_answer(relay, line)).encode() + b"\n")
                await writer.drain()
        except (ValueError, OSError):  # a line that is too long, or the client has closed
            pass
        finally:
            writer.close()

    address = parse_host_port(place, any_port=True)
    server = await asyncio.start_server(serve_connection, address.host, address.port, limit=LINE_BYTES_MAX)
    async with server:
        host = f"[{address.host}]" if ":" in address.host else address.host
        yield f"{host}:{server.sockets[0].getsockname()[1]}"


async def ask_control(place: str, request: Json) -> Json:
    """Send a request to a relay's control port and return the relay's state.

    Raise AddressInvalid for an invalid place, ConnectionLost when no relay answers there, Refused when the relay
    rejects the request.
    """
    address = parse_host_port(place)
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                writer.write(json.dumps(request).encode() + b"\n")
                line = await reader.readline()
            finally:
                writer.close()
    except TimeoutError:
        raise _no_answer(place, f"no answer within {ANSWER_S:g} s") from None
    except OSError as error:
        raise _no_answer(place, error.strerror or type(error).__name__) from None
    except ValueError:  # a line that is too long
        line = b"?"
    try:
        answer = json.loads(line.decode())
    except ValueError:
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        raise Refused(answer["error"])
    if not isinstance(answer, dict) or not answer.keys() >= STATE:
        raise _no_answer(place, "the answer is not a relay's" if line else "the connection was closed")
    return answer


def _no_answer(place: str, why: str) -> ConnectionLost:
    hint = "`plait chaos relay` prints control=HOST:PORT when it serves"
    return ConnectionLost(f"no relay answers at {place}: {why}", hint=hint)


def _answer(relay: Relay, line: bytes) -> Json:
    try:
        request = json.loads(line)
        _apply(relay, request)
    except (ValueError, TypeError, AttributeError) as error:
        return {"error": f"{error}"}
    return relay.state()


def _apply(relay: Relay, request: Json) -> None:
    for direction in get_args(Direction):
        if changes := request.pop(direction, None):
            relay.shape(direction, **changes)
    cut = request.pop("cut", None)
    if cut is not None:
        (relay.cut if cut else relay.mend)()
    if request:
        raise ValueError(f"unknown keys: {', '.join(sorted(request))}")
