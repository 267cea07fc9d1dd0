"""An idle client takes little memory in its broker: real sockets, and everything that Python allocates for them."""

from __future__ import annotations

from plait_lab.benchmarks.measurement.idle_clients import BYTES_MAX, trace_clients

CLIENTS = 200


def test_an_idle_client_is_small() -> None:
    traced = trace_clients(CLIENTS, 0.1)
    assert traced.bytes_each < BYTES_MAX
    assert traced.bytes_each > 1_000, "clients have joined"
    largest = next(iter(traced.places))
    assert largest.startswith("plait_broker/server/listener.py"), "no object of ours is larger than the socket"
