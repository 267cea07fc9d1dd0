"""The ports of local brokers: pairs in a row, and taken ones are passed over."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from processes import drawn_chance, port_to_keep

from plait.commands.brokers import ports
from plait.commands.terminal.failures import Failure


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> int:
    """A port with some free ones above it, which stands for 4680."""
    chance = drawn_chance()
    while True:
        port = port_to_keep(chance)
        if all(map(ports.is_free, range(port, port + 12))):
            monkeypatch.setattr(ports, "PORT", port)
            return port


@pytest.fixture
def take() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def taken(stack: ExitStack, port: int) -> None:
    stack.enter_context(socket.create_server(("127.0.0.1", port)))


def test_brokers_take_pairs_in_a_row(base: int) -> None:
    first, http = ports.first_addresses(None, None)
    assert (first, http) == (f"127.0.0.1:{base}", f"127.0.0.1:{base + 1}")
    assert ports.listen_addresses(first, 3) == [f"127.0.0.1:{base + up}" for up in (0, 2, 4)]


@pytest.mark.parametrize("busy", [0, 1])
def test_taken_ports_are_passed_over(base: int, take: ExitStack, busy: int) -> None:
    taken(take, base + busy)
    taken(take, base + 5)
    first, http = ports.first_addresses(None, None)
    assert (first, http) == (f"127.0.0.1:{base + 2}", f"127.0.0.1:{base + 3}")
    assert ports.listen_addresses(first, 3) == [f"127.0.0.1:{base + up}" for up in (2, 6, 8)]


def test_a_given_address_must_be_free_before_anything_starts(base: int, take: ExitStack) -> None:
    taken(take, base)
    with pytest.raises(Failure, match=f"127.0.0.1:{base} is in use"):
        ports.first_addresses(f"127.0.0.1:{base}", None)
    with pytest.raises(Failure, match="in use") as failed:
        ports.first_addresses(None, f"127.0.0.1:{base}")
    assert "--http HOST:PORT" in failed.value.hint


def test_the_address_for_http_is_not_given_to_another_broker(base: int) -> None:
    first, http = ports.first_addresses(None, f"127.0.0.1:{base + 3}")
    assert ports.listen_addresses(first, 2, (base + 3,)) == [f"127.0.0.1:{base}", f"127.0.0.1:{base + 4}"]
    assert http == f"127.0.0.1:{base + 3}"


def test_a_port_of_ended_connections_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the side that closes first keeps the port in TIME_WAIT
        client.close()
    assert ports.is_free(port)


def test_any_ports_are_free_and_differ() -> None:
    addresses = ports.listen_addresses("127.0.0.1:0", 5)
    assert len(set(addresses)) == 5
    assert all(ports.is_free(int(address.rpartition(":")[2])) for address in addresses)
