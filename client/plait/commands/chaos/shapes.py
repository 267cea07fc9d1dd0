"""Options for the shape of a link: `--delay 20ms --loss 1%`, or for one direction `--back delay=200ms,loss=1%`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from plait_core.values import Json

from ..terminal.durations import Duration

C = TypeVar("C", bound=Callable[..., Any])

_RATE: Final = re.compile(r"(\d+(?:\.\d*)?)\s*(|k|m|g)(?:bit(?:/s)?)\Z", re.IGNORECASE)
_TIMES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
FLOWS: Final = ("open", "frozen", "lost")


class Span(Duration):
    """A duration of zero or more, in seconds."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, str) and re.fullmatch(r"0+(\.0*)?\s*(us|µs|ms|s)?", value.strip()):
            return 0.0
        return super().convert(value, param, ctx)


class Share(click.ParamType[float]):
    """A share from 0 to below 1: `1%` or `0.01`."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share < 1:
            self.fail(f"{value!r} is no share; write 1% or 0.01, below 100%", param, ctx)
        return share


class Bandwidth(click.ParamType[float]):
    """Bits a second: `10mbit`, `500kbit`; `none` for no bound."""

    name = "bandwidth"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        written = _RATE.match(str(value).strip())
        rate = float(written[1]) * _TIMES[written[2].lower()] if written else 0.0
        if str(value).strip() == "none":
            return UNBOUNDED
        if rate <= 0:
            self.fail(f"{value!r} is no bandwidth; write 10mbit, 500kbit or none", param, ctx)
        return rate


UNBOUNDED: Final = 0.0
"""Value of the option for `none`. None means that the option is not given."""

_PARTS: Final[dict[str, tuple[str, click.ParamType[Any]]]] = {
    "delay": ("delay_s", Span()),
    "jitter": ("jitter_s", Span()),
    "loss": ("loss", Share()),
    "bandwidth": ("bandwidth_bit_s", Bandwidth()),
    "flow": ("flow", click.Choice(FLOWS)),
}


class ShapeText(click.ParamType[Json]):
    """Shape of one direction as one word: `delay=200ms,loss=1%`."""

    name = "shape"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Json:
        if isinstance(value, dict):
            return value
        changes: Json = {}
        for part in str(value).split(","):
            name, sign, written = (side.strip() for side in part.partition("="))
            if not sign or name not in _PARTS:
                self.fail(f"{part!r} is none of {', '.join(f'{known}=…' for known in _PARTS)}", param, ctx)
            changes[name] = _PARTS[name][1].convert(written, param, ctx)
        return changes


def shape_options(command: C) -> C:
    """Add `--delay`, `--jitter`, `--loss`, `--bandwidth`, `--flow`, `--forth` and `--back`."""
    shape = ShapeText()
    command = click.option("--back", metavar="SHAPE", type=shape, help="Shape towards the dialler alone.")(command)
    command = click.option(
        "--forth", metavar="SHAPE", type=shape, help="Shape away from the dialler alone: delay=200ms,loss=1%,…"
    )(command)
    text = "open; frozen: bytes wait; lost: bytes are discarded."
    command = click.option("--flow", type=click.Choice(FLOWS), help=text)(command)
    text = "Like 10mbit or 500kbit; none for no bound."
    command = click.option("--bandwidth", metavar="RATE", type=Bandwidth(), help=text)(command)
    text = "Share of segments lost and retransmitted: 1%."
    command = click.option("--loss", metavar="SHARE", type=Share(), help=text)(command)
    text = "Variation of the delay, up and down."
    command = click.option("--jitter", metavar="TIME", type=Span(), help=text)(command)
    return click.option("--delay", metavar="TIME", type=Span(), help="For each direction: 20ms.")(command)


def requested_changes(options: Json) -> dict[str, Json]:
    """Return the request to a relay's control for the given options."""
    both = {name: options[name] for name in _PARTS if options.get(name) is not None}
    requested = {"both": both, "forth": options.get("forth") or {}, "back": options.get("back") or {}}
    return {direction: _for_relay(changes) for direction, changes in requested.items() if changes}


def _for_relay(changes: Json) -> Json:
    return {
        _PARTS[name][0]: None if name == "bandwidth" and value == UNBOUNDED else value
        for name, value in changes.items()
    }
