"""The log for people: one line a record, with any content, and a limited rate."""

from __future__ import annotations

import json
import logging

import pytest

from plait_broker.server import logging_setup
from plait_broker.server.logging_setup import JsonLines, Lines, RateLimitedLog


def record(message: str, *arguments: object, line: int = 1, error: bool = False) -> logging.LogRecord:
    info = None
    if error:
        try:
            raise ValueError("first\nsecond")
        except ValueError as raised:
            info = (type(raised), raised, raised.__traceback__)
    return logging.LogRecord("plait_broker.server.server", logging.INFO, "server.py", line, message, arguments, info)


@pytest.mark.parametrize(
    "text", ["a\nb", "a\r\nb", "\x1b[2Jb", "a\u2028b", "a\x85b", "\ud800b", "a\0b", "a\tb", "é😀b"]
)
def test_a_record_is_one_printable_line(text: str) -> None:
    line = Lines().format(record("heard %s", text))
    assert line.isprintable()
    assert line.endswith("b")
    assert " INFO server: heard " in line
    assert json.loads(JsonLines().format(record("heard %s", text)))["message"] == f"heard {text}"
    assert "\n" not in JsonLines().format(record("heard %s", text))


def test_a_traceback_stays_on_the_line() -> None:
    line = Lines().format(record("failed", error=True))
    assert "\n" not in line
    assert "ValueError: first | second" in line
    assert "ValueError" in json.loads(JsonLines().format(record("failed", error=True)))["traceback"]


def test_a_flood_is_counted_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(logging_setup, "monotonic", lambda: now)
    sparingly = RateLimitedLog()
    passed = [sparingly.filter(record("refused %s", n)) for n in range(50)]
    assert sum(passed) == logging_setup.LINES_PER_PERIOD
    assert sparingly.filter(record("another kind", line=2))
    now += logging_setup.PERIOD_S
    next_one = record("refused %s", 51)
    assert sparingly.filter(next_one)
    assert next_one.getMessage() == "refused 51 (and 30 more like this)"
