"""`plait analyze show`: print rows of the tables in a directory, as text or JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click

from plait_core import PlaitError

from ..tables.definitions import TABLES
from ..tables.json_pages import row_documents
from ..tables.lake import Lake
from .console import fail


@click.command("show", short_help="Print rows of a table.")
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@click.argument("table", type=click.Choice(list(TABLES)), metavar="TABLE")
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="Number of rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def show(out: Path, table: str, last: int, as_json: bool) -> None:
    """Print the newest rows of a table in OUT, written by `plait analyze batch` or `live`.

    docs/reference/tables.md describes the tables.
    """
    try:
        found = Lake(out).read(table)
    except PlaitError as error:
        fail(error.message, error.hint)
    newest = found.slice(max(0, found.num_rows - last))
    rows = row_documents(newest)
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    names = [name for name in newest.column_names if any(row[name] is not None for row in rows)]
    cells = [names, *[["" if row[name] is None else _short(row[name]) for name in names] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _short(value: object) -> str:
    text = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return "".join(character if character.isprintable() else "?" for character in text)[:40]
