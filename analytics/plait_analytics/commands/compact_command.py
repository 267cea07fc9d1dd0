"""`plait analyze compact`: convert sealed segments to Parquet by day and hour, compute roll-ups, delete old records."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from ..records.inventory import take_inventory
from .console import fail, progress


@click.command("compact", short_help="Segments to Parquet, roll-ups, retention.")
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Where the Parquet is kept.")
@click.option("--keep-days", type=click.IntRange(1, 36_500), default=30, show_default=True, metavar="N",
              help="Records of days that are over for longer go away; roll-ups stay longer.")  # fmt: skip
@click.option("--delete", is_flag=True, help="Delete segments that are compacted; their broker does so by itself.")
def compact_command(directories: tuple[Path, ...], out: Path, keep_days: int, delete: bool) -> None:
    """Convert sealed segments to Parquet files by day and hour, each segment once. Parquet needs a fifth of the space.

    Pass OUT to `plait analyze batch` together with the brokers' directories: compacted segments are read from OUT.
    """
    from ..records.compaction import compact as compacted

    inventory = take_inventory(directories)
    try:
        done = compacted(inventory, out, keep_days=keep_days, now=datetime.now(UTC), delete=delete, tell=progress)
    except OSError as error:
        fail(f"{out} cannot be written: {error.strerror}", "what is there holds; the rest is done the next time")
    progress(
        f"{done.segments:,} segments with {done.records:,} records are in {done.files:,} new files; "
        f"{done.forgotten:,} old ones are gone"
    )
