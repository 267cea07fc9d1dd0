"""Durations: a number of seconds, a `timedelta`, or a text such as `50ms`, `2s` or `1.5m`. The command line reads them
here, too."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final, TypeAlias

from ..errors import ArgumentInvalid

Duration: TypeAlias = float | str | timedelta
"""A duration: a number of seconds, a text with a unit such as "50ms", or a timedelta."""

_UNITS: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Zµ]*)\Z", re.ASCII)
_LONGEST_S: Final = 2.0**63 / 1e6
"""Frames carry durations as 64-bit integers of microseconds."""


def parse_duration(text: str) -> float:
    """Return the seconds of a text such as `50ms`. Raise ArgumentInvalid for other texts, also without a unit."""
    written = _WRITTEN.match(text.strip())
    if written is None:
        raise ArgumentInvalid(f"{text!r:.100} is no duration", hint="like 50ms, 2s or 1.5m")
    number, unit = written.groups()
    if not unit:
        raise ArgumentInvalid(f"{text!r:.100} has no unit", hint=f"write {number}s or {number}ms")
    if unit not in _UNITS:
        raise ArgumentInvalid(f"{text!r:.100}: {unit} is no unit", hint="us, ms, s, m (minutes), h or d")
    return _bounded(float(number) * _UNITS[unit], repr(text))


def seconds(given: Duration, what: str, *, zero: bool = False) -> float:
    """Convert the argument `what` to seconds. Raise ArgumentInvalid if it is no duration, or zero without `zero`."""
    if isinstance(given, str):
        try:
            found = parse_duration(given)
        except ArgumentInvalid as error:
            raise ArgumentInvalid(f"{what}={error.message}", hint=error.hint) from None
    else:
        found = given.total_seconds() if isinstance(given, timedelta) else given
    if not _is_number(found):
        raise ArgumentInvalid(f"{what}={given!r:.100}", hint='a number of seconds, a text like "50ms", or a timedelta')
    if found < 0 or (found == 0 and not zero):
        raise ArgumentInvalid(f"{what}={given!r:.100}", hint="zero or more" if zero else "above zero")
    return _bounded(found, f"{what}={given!r}")


def _bounded(seconds: float, written: str) -> float:
    if seconds >= _LONGEST_S:
        raise ArgumentInvalid(f"{written:.100} is too long", hint="at most 292,000 years")
    return seconds


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
