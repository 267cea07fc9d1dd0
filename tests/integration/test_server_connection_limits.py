"""Limits on connections, tested on a virtual clock with any history of opened and closed connections."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plait_broker.server.connection_limits import ADDRESSES_MAX, ConnectionLimiter, ConnectionLimits

LIMITS = ConnectionLimits(connections_max=6, address_connections_max=4, accepts_per_s=10.0, address_accepts_per_s=2.0)


def test_an_address_may_have_its_share_and_no_more() -> None:
    door = ConnectionLimiter(LIMITS)
    assert [door.admit("a", 0.0) for _ in range(4)] == [""] * 4
    assert "from your address" in door.admit("a", 0.0)
    assert door.admit("b", 0.0) == ""
    assert door.admit("c", 0.0) == ""
    assert door.admit("d", 0.0) == "6 connections are open, and no more are accepted"
    door.leave("b")
    assert door.admit("d", 0.0) == ""


def test_an_address_that_comes_and_goes_too_often_is_refused_and_recovers() -> None:
    door = ConnectionLimiter(LIMITS)
    for _ in range(4):
        assert door.admit("a", 0.0) == ""
        door.leave("a")
    assert door.admit("a", 0.0) == "your address connects too often"
    assert door.admit("b", 0.0) == ""
    assert door.admit("a", 0.5) == ""
    assert door.admit("a", 0.6) == "your address connects too often"


def test_everyone_together_is_paced() -> None:
    door = ConnectionLimiter(LIMITS)
    assert door.wait_s(0.0) == 0
    for number in range(5):
        assert door.admit(f"{number}", 0.0) == ""
        assert door.wait_s(0.0) == 0
    assert door.admit("tls", 0.0, cost=8.0) == "your address connects too often"
    for number in range(5):
        door.leave(f"{number}")
        assert door.admit(f"again {number}", 0.0) == ""
    assert 0.05 < door.wait_s(0.0) <= 0.1
    assert door.wait_s(0.1) == 0


def test_an_ipv6_network_is_one_address_and_a_mapped_one_is_its_ipv4() -> None:
    door = ConnectionLimiter(LIMITS)
    for host in range(4):
        assert door.admit(f"2001:db8:1:2::{host}", 0.0) == ""
    assert door.admit("2001:db8:1:2:ffff::1%eth0", 0.0) != ""
    assert door.admit("2001:db8:1:3::1", 0.0) == ""
    door = ConnectionLimiter(LIMITS)
    for address in ("10.0.0.1", "::ffff:10.0.0.1") * 2:
        assert door.admit(address, 0.0) == ""
    assert door.admit("10.0.0.1", 0.0) != ""


def test_addresses_are_forgotten_before_they_fill_memory() -> None:
    door = ConnectionLimiter(LIMITS)
    assert door.admit("stays", 0.0) == ""
    for number in range(ADDRESSES_MAX + 100):
        assert door.admit(f"n{number}", float(number)) == ""
        door.leave(f"n{number}")
    assert len(door._addresses) == ADDRESSES_MAX
    door.leave("stays")
    assert door.connections == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(-1, 2))))
def test_connection_limits_hold_for_any_order_of_connections(history: list[tuple[str, bool, float]]) -> None:
    door = ConnectionLimiter(LIMITS)
    inside: list[str] = []
    now = 0.0
    for address, comes, passes in history:
        now += passes  # the clock of a test may even go back
        assert door.wait_s(now) >= 0
        if comes:
            if not door.admit(address, now):
                inside.append(address)
        elif address in inside:
            inside.remove(address)
            door.leave(address)
        assert door.connections == len(inside) <= LIMITS.connections_max
        assert all(inside.count(one) <= LIMITS.address_connections_max for one in "abc")
