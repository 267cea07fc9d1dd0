"""Durations on the command line: `50ms`, `2s`, `1.5m`. A bare number is seconds, as in the SDK."""

from __future__ import annotations

import math
import re
from typing import Final

import click

_UNITS: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(us|µs|ms|s|m|h|d|)\Z")


class Duration(click.ParamType[float]):
    """A duration above zero, in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            seconds = float(value)
        else:
            written = _WRITTEN.match(str(value).strip())
            if written is None:
                self.fail(f"{value!r} is no duration; write 50ms, 2s or 1.5m", param, ctx)
            seconds = float(written[1]) * _UNITS[written[2]]
        if not 0 < seconds < math.inf:
            self.fail(f"{value!r} is not above zero", param, ctx)
        return seconds


DURATION: Final = Duration()


def shown(seconds: float) -> str:
    """Return a duration as text, in the unit that fits."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.{1 if seconds < 0.1 else 0}f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h" if days else f"{hours}h {minutes}m" if hours else f"{minutes}m {rest}s"
