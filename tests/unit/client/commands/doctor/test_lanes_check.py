"""`plait doctor` names the full directions of links, the one that waits longest first, and what to do."""

from __future__ import annotations

from typing import Any

from plait.commands.doctor.lanes_check import check_lanes, lanes_finding

BROKERS = {id: {"name": f"broker-{id}"} for id in "abc"}


def lane(near: str, far: str, oldest_s: float | None = None, **facts: object) -> dict[str, Any]:
    """Return a direction of a link as `/api/v1/overview` has it: full if events wait in it."""
    full = oldest_s is not None
    measured = {"state": "up", "full": full, "pending_bytes": 128_000 if full else 0, "oldest_s": oldest_s}
    return {"from": near, "to": far} | measured | facts


def overview(*lanes: dict[str, Any]) -> dict[str, Any]:
    return {"brokers": BROKERS, "links": {f"{lane['from']}>{lane['to']}": lane for lane in lanes}}


def test_lanes_with_room_are_in_order() -> None:
    finding = lanes_finding(overview(lane("a", "b"), lane("b", "a")))
    assert (finding.state, finding.found) == ("ok", "2 directions of links, none full")
    assert lanes_finding(overview()).state == "ok"


def test_a_full_lane_is_described() -> None:
    finding = lanes_finding(overview(lane("a", "b", 0.9, capacity=125_000), lane("b", "a"), lane("b", "c", 61.0)))
    assert finding.state == "warn"
    assert "full: broker-b to broker-c (128 kB wait, the oldest for 61.0 s); broker-a to broker-b" in finding.found
    assert finding.found.endswith("the oldest for 900 ms; it carries 125 kB/s)")
    assert "more bandwidth" in finding.hint


def test_lanes_beyond_a_few_are_counted() -> None:
    finding = lanes_finding(overview(*(lane(near, far, 1.0) for near in "abc" for far in "abc" if near != far)))
    assert finding.found.endswith("; and 3 more")


def test_a_direction_that_is_down_or_not_reported_is_not_full() -> None:
    silent = {"from": "b", "to": "a", "state": "up"}
    finding = lanes_finding(overview({"from": "a", "to": "b", "state": "down"}, silent))
    assert (finding.state, finding.found) == ("ok", "1 direction of links, 1 not reported, none full")


def test_a_broker_that_does_not_answer_is_not_checked() -> None:
    finding = check_lanes("plait://127.0.0.1:1", "http://127.0.0.1:1")
    assert finding.state == "warn"
    assert finding.found.startswith("not checked: ")
