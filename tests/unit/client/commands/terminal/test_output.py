"""Input and output of commands: durations, attributes, JSON, and text that cannot control a terminal."""

from __future__ import annotations

import json
from datetime import datetime

import click
import pytest

import plait
from plait.commands.events.attributes import parse_pairs
from plait.commands.events.event_lines import payload_json
from plait.commands.events.start import START
from plait.commands.terminal.durations import DURATION, SECONDS, shown
from plait.commands.terminal.failures import FAILED, WRONG_USE, as_failure
from plait.commands.terminal.output import attributes_text, json_text, printable


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("50ms", 0.05), ("2s", 2.0), ("1.5m", 90.0), ("250us", 0.00025), (".5 s", 0.5), ("1h", 3600.0)],
)
def test_durations(written: str, seconds: float) -> None:
    assert DURATION.convert(written, None, None) == pytest.approx(seconds)


def test_a_number_needs_a_unit_unless_the_help_names_one() -> None:
    assert SECONDS.convert("2", None, None) == 2
    assert SECONDS.convert("200ms", None, None) == pytest.approx(0.2)
    with pytest.raises(click.BadParameter, match="write 50s or 50ms"):
        DURATION.convert("50", None, None)


@pytest.mark.parametrize("written", ["", "0", "-1", "1 fortnight", "ms", "1e3", "inf", "nan", "1\n2", "9" * 400])
def test_durations_that_are_none(written: str) -> None:
    with pytest.raises(click.BadParameter):
        DURATION.convert(written, None, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0000004, "0 µs"),
        (0.000844, "844 µs"),
        (0.0123, "12.3 ms"),
        (0.5, "500 ms"),
        (2, "2.0 s"),
        (200, "3m 20s"),
        (3720, "1h 2m"),
        (271_000, "3d 3h"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert shown(seconds) == text


def test_a_start_is_a_word_a_position_or_a_time() -> None:
    assert [START.convert(written, None, None) for written in ("new", "all", "17")] == ["new", "all", 17]
    moment = START.convert("2026-01-31T09:30", None, None)
    assert isinstance(moment, datetime)
    assert moment == datetime(2026, 1, 31, 9, 30).astimezone()
    for wrong in ("", "old", "-1", "2026-13-01"):
        with pytest.raises(click.BadParameter):
            START.convert(wrong, None, None)


def test_attributes_read_back_as_they_were_shown() -> None:
    attributes = {
        "symbol": "IBM", "price": 99.5, "count": 7, "halted": False, "none": None, "digits": "7", "truth": "true",
        "spaced": "a b", "quoted": "it's \"so\"", "empty": "", "text": "ü",
    }  # fmt: skip
    shown_pairs = attributes_text(attributes)
    assert shown_pairs.startswith('symbol=IBM price=99.5 count=7 halted=false none=null digits="7"')
    pairs = [f"{name}={attributes_text({name: value}).partition('=')[2]}" for name, value in attributes.items()]
    assert parse_pairs(pairs) == attributes


def test_control_characters_from_the_network_are_not_printed() -> None:
    hostile = "\x1b[2J\x07\x9b31m\u202e\r"
    assert printable(hostile).isprintable()
    assert attributes_text({"x": hostile}).isprintable()
    assert printable("price ü 中") == "price ü 中"


def test_json_is_json() -> None:
    assert json.loads(json_text({"x": [float("nan"), float("inf"), 1.5], "y": {"z": float("-inf")}})) == {
        "x": [None, None, 1.5], "y": {"z": None},
    }  # fmt: skip
    assert json_text({"big": 2**200}) == f'{{"big": {2**200}}}'


def test_a_payload_is_shown_as_text_or_base64() -> None:
    assert payload_json("grüß".encode()) == "grüß"
    assert payload_json(b"") == ""
    assert payload_json(b"\xff\x00") == {"base64": "/wA="}


def test_a_wrong_argument_ends_a_command_as_wrong_use() -> None:
    assert as_failure(plait.ArgumentInvalid("x=5", hint="a text")).exit_code == WRONG_USE
    assert as_failure(plait.AddressInvalid("no URL")).exit_code == WRONG_USE
    assert as_failure(plait.Timeout("no answer")).exit_code == FAILED
