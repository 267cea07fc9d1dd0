"""`plait analyze compact`: convert sealed segments to Parquet by day and hour, compute roll-ups, delete old records."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from ..records.inventory import take_inventory
from .console import fail, progress


@click.command("compact", short_help="Compact segments to Parquet, roll up, delete old records.")
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Directory of the Parquet files."
)
@click.option("--keep-days", type=click.IntRange(1, 36_500), default=30, show_default=True, metavar="N",
              help="Delete records of days that ended more than N days ago. Roll-ups are kept longer.")  # fmt: skip
@click.option("--delete", is_flag=True, help="Delete compacted segments. A running broker deletes its own.")
def compact_command(directories: tuple[Path, ...], out: Path, keep_days: int, delete: bool) -> None:
    """Convert sealed segments to Parquet files by day and hour, each segment once. Parquet needs a fifth of the space.

    Pass OUT to `plait analyze batch` together with the brokers' directories: compacted segments are read from OUT.
    """
    from ..records.compaction import compact as compacted

    inventory = take_inventory(directories)
    try:
        done = compacted(inventory, out, keep_days=keep_days, now=datetime.now(UTC), delete=delete, report=progress)
    except OSError as error:
        fail(f"{out} cannot be written: {error.strerror}", "files written so far are valid; run the command again")
    progress(
        f"{done.segments:,} segments with {done.records:,} records are in {done.files:,} new files; "
        f"{done.forgotten:,} old ones were deleted"
    )
