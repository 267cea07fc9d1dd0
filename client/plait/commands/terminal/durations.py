"""Durations on the command line: `50ms`, `2s`, `1.5m`, read as the SDK reads them."""

from __future__ import annotations

from typing import Final

import click


class Duration(click.ParamType[float]):
    """A duration above zero, in seconds."""

    name = "duration"

    def __init__(self, *, bare: bool = False) -> None:
        self._bare = bare

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        from ...errors import ArgumentInvalid  # imports the frames, which `--help` does not need
        from ...options.durations import parse_duration

        text = str(value).strip()
        bare = self._bare and text.replace(".", "", 1).isdecimal()
        try:
            seconds = float(text) if bare else parse_duration(text)
        except ArgumentInvalid as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)
        if seconds <= 0:
            self.fail(f"{text!r} is not above zero", param, ctx)
        return seconds


DURATION: Final = Duration()
SECONDS: Final = Duration(bare=True)
"""For options whose unit is written in their metavar, S: a number without a unit is seconds."""


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
