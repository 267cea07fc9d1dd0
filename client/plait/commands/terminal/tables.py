"""Tables for people: drawn by rich in the width of a terminal, else aligned by spaces."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from .output import printable

GAP: Final = 2
"""Spaces between columns."""

CUT_MIN: Final = 20
"""Width to which the last column is cut before another column is left out."""


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    spare: Mapping[str, int] | None = None,
) -> None:
    """Print a table. `right` names columns of numbers.

    `spare` ranks columns that a narrow terminal leaves out, the highest first. The last column is cut to the rest.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw(columns, shown, right, spare)
        return
    widths = [max(map(len, cells)) for cells in zip(columns, *shown, strict=True)]
    for row in [list(columns), *shown]:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        click.echo((" " * GAP).join(cells).rstrip())


def fitted(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Mapping[str, int], width: int
) -> tuple[list[str], list[list[str]]]:
    """Return the columns that fit a width. Empty spare columns are removed first, then others until the rest fits."""
    kept = list(range(len(columns)))
    removable = sorted((i for i in kept if spare.get(columns[i])), key=lambda i: -spare[columns[i]])
    needed = [_width([columns[i], *(row[i] for row in rows)]) + GAP for i in kept]
    needed[-1] = min(needed[-1] - GAP, max(CUT_MIN, len(columns[-1])))
    for i in list(removable):
        if not any(row[i] for row in rows):
            kept.remove(i)
            removable.remove(i)
    while removable and sum(needed[i] for i in kept) > width:
        kept.remove(removable.pop(0))
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _draw(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str], spare: Mapping[str, int] | None
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    left: int | None = None
    if spare is not None:
        columns, rows = fitted(columns, rows, spare, console.width)
        others = [
            _width([column, *cells]) for column, *cells in zip(columns[:-1], *(row[:-1] for row in rows), strict=True)
        ]
        left = max(console.width - sum(width + GAP for width in others), len(columns[-1]))
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold" if left is None else "ellipsis",
            no_wrap=left is not None,
            max_width=left if column == columns[-1] else None,
        )
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _width(cells: Sequence[str]) -> int:
    """Return the width of the widest cell on a terminal."""
    from rich.cells import cell_len

    return max(map(cell_len, cells))
