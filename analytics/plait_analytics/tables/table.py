"""The definition of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

WINDOW_US: Final = 60_000_000
"""The default window, one minute: about a thousand rows a day for each entity."""


class Table(NamedTuple):
    """A table: its name, description, key, SQL and columns."""

    name: str
    description: str
    key: tuple[str, ...]
    """The columns that identify a row."""
    sql: str
    columns: Mapping[str, str]
    """Descriptions of the columns that are not in the key."""
    of: str = "counts"
    """The view that it is computed from: `counts`, or `records` for tables about single events."""
