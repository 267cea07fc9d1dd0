"""Start of a durable subscription: `new`, `all`, a time or a position in the broker's log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import click

Start: TypeAlias = Literal["new", "all"] | datetime | int


class StartPoint(click.ParamType[Start]):
    """Value of `--start`. A time without a zone is local time."""

    name = "start"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if not isinstance(value, str):
            found: Start = value
            return found
        if value == "new":
            return "new"
        if value == "all":
            return "all"
        if value.isascii() and value.isdecimal():
            return int(value)
        try:
            return datetime.fromisoformat(value).astimezone()
        except ValueError:
            self.fail(f"{value!r} is neither new, all, a time like 2026-01-31T09:30 nor a position", param, ctx)


START: Final = StartPoint()
