"""The event: the limits of its parts, and its id."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from plait_core.errors import EventInvalid
from plait_core.events import I64_MAX, U64_MAX, Event, EventId
from plait_core.limits import HEADERS_MAX, PAYLOAD_BYTES_MAX, EventLimits


def test_an_event_is_a_value() -> None:
    event = Event({"x": 1}, b"p", 7, 8)
    assert event == Event({"x": 1}, b"p", 7, 8)
    assert event.id == EventId(7, 8)
    assert pickle.loads(pickle.dumps(event)) == event
    with pytest.raises(FrozenInstanceError):
        event.payload = b""  # type: ignore[misc]


def test_checked_copies_what_it_is_given() -> None:
    attributes: dict[str, Any] = {"x": (1, 2)}
    headers = {"trace-id": "a"}
    payload = bytearray(b"abc")
    event = Event.checked(attributes, payload, headers=headers)
    attributes["y"] = headers["other"] = "b"
    payload[0] = 0
    assert event.attributes == {"x": [1, 2]}
    assert event.headers == {"trace-id": "a"}
    assert event.payload == b"abc"
    assert type(event.payload) is bytes


ALLOWED: list[dict[str, Any]] = [
    {},
    {"payload": bytes(PAYLOAD_BYTES_MAX)},
    {"publisher": U64_MAX, "sequence": U64_MAX},
    {"published_us": -I64_MAX},
    {"published_us": I64_MAX, "lifetime_us": I64_MAX},
    {"priority": 9},
    {"headers": {"a": "", "$x.y-z": "é😀"}},
    {"headers": {f"h{i}": "" for i in range(HEADERS_MAX)}},
]


@pytest.mark.parametrize("parts", ALLOWED, ids=lambda parts: repr(parts)[:30])
def test_valid_events_are_accepted(parts: dict[str, Any]) -> None:
    event = Event.checked({"x": 1}, **parts)
    for name, value in parts.items():
        assert getattr(event, name) == value


REFUSED: list[dict[str, Any]] = [
    {"attributes": {"x y": 1}},
    {"attributes": {"x": object()}},
    {"payload": bytes(PAYLOAD_BYTES_MAX + 1)},
    {"publisher": -1},
    {"publisher": U64_MAX + 1},
    {"sequence": -1},
    {"sequence": U64_MAX + 1},
    {"published_us": I64_MAX + 1},
    {"published_us": -I64_MAX - 1},
    {"lifetime_us": -1},
    {"lifetime_us": I64_MAX + 1},
    {"priority": -1},
    {"priority": 10},
    {"headers": {f"h{i}": "" for i in range(HEADERS_MAX + 1)}},
    {"headers": {"a b": ""}},
    {"headers": {"": ""}},
    {"headers": {"9": ""}},
    {"headers": {5: ""}},
    {"headers": {"a": 5}},
    {"headers": {"a": None}},
    {"headers": {"a": "\ud800"}},
]


@pytest.mark.parametrize("parts", REFUSED, ids=lambda parts: repr(parts)[:30])
def test_invalid_events_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(EventInvalid):
        Event.checked(**{"attributes": {"x": 1}, **parts})


def test_limits_are_a_parameter() -> None:
    with pytest.raises(EventInvalid):
        Event.checked({}, b"abc", limits=EventLimits(payload_bytes_max=2))


@pytest.mark.parametrize("event_id", [EventId(0, 0), EventId(1, 1), EventId(0xABC, 10**9), EventId(U64_MAX, U64_MAX)])
def test_an_id_is_read_as_it_prints(event_id: EventId) -> None:
    assert EventId.parse(str(event_id)) == event_id


def test_an_id_prints_so() -> None:
    assert str(EventId(0xABC, 17)) == "0000000000000abc-17"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "abc",
        "abc-17",  # not padded
        "0000000000000ABC-17",
        "0000000000000abc-017",
        "0000000000000abc-1_7",
        "0000000000000abc-+17",
        "0000000000000abc--17",
        "0000000000000abc- 17",
        "0000000000000abc-17\n",
        "0000000000000abc-١٧",
        "0x00000000000abc-17",
        "f" * 17 + "-1",
        f"0000000000000abc-{2**64}",
        "0000000000000abc-" + "9" * 10_000,
        "\ud800-1",
    ],
)
def test_any_other_text_is_no_id(text: str) -> None:
    with pytest.raises(EventInvalid, match="no event id"):
        EventId.parse(text)
