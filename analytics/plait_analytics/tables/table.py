"""What a table is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

WINDOW_US: Final = 60_000_000
"""One minute: some thousand rows a day for each entity."""


class Table(NamedTuple):
    """One table."""

    name: str
    says: str
    key: tuple[str, ...]
    """What no two rows have in common."""
    sql: str
    columns: Mapping[str, str]
    """What each column beside the key says."""
    of: str = "counts"
    """The view that it is computed from: `counts`, or `records` for what is about single events."""
