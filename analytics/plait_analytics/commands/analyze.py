"""`plait analyze batch`: compute tables from recorded telemetry, store them as Parquet and print a short report.

`plait analyze` is the command group. Without the name of a subcommand, its arguments are passed to `batch`.

Exit codes: 0 done, 1 failed, 2 wrong usage. Skipped segments are listed on stderr and do not change the exit code.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import click
import pyarrow as pa

from plait_core import PlaitError
from plait_core.values import Json

from ..records.columns import EVER
from ..records.inventory import Inventory, take_inventory
from ..records.remote import cache_option, pulled_sources, pulling
from ..tables.lake import Lake
from ..tables.presentation import presented_tables
from ..tables.report import report
from ..tables.table import WINDOW_US
from .compact_command import compact_command
from .console import fail, progress, spark_missing
from .live_command import live, prepare
from .show_command import show

NICENESS: Final = 10
"""By how much repeated analyses give way to the brokers on the machine."""

IDLE_FACTOR: Final = 9
"""Repeated analyses take a tenth of the time at most. Each reads all records again."""

FINDINGS_SHOWN: Final = 20
"""Skipped files that are listed by name; beyond it only their number is printed."""


_WHEN: Final = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])


class NoRecords(PlaitError):
    """The sources have no records."""


class _Analyses(click.Group):
    """A command group whose default command is `batch`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["batch", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["batch", *args]
        return super().parse_args(ctx, args)


@click.group("analyze", cls=_Analyses, short_help="Analyse recorded telemetry.")
def analyze() -> None:
    """Analyse the telemetry that brokers recorded with --telemetry DIR. `plait analyze DIR` means `plait analyze batch
    DIR`."""


@analyze.command("batch", short_help="Analyse all recorded telemetry at once.")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory for the tables. Without it they are not stored.",
)
@click.option("--window", "window_s", type=click.IntRange(1, 86_400), default=WINDOW_US // 1_000_000, show_default=True,
              metavar="S", help="Seconds that one row covers.")  # fmt: skip
@click.option("--from", "since", type=_WHEN, help="Use records from this time on (UTC).")
@click.option(
    "--to", "until", type=_WHEN, help="Use records before this time (UTC). Events in flight then are incomplete."
)
@click.option("--master", metavar="URL", help="Spark master: local[2,4] by default, spark://..., k8s://...")
@click.option("--every", "every_s", type=click.FloatRange(1, 86_400), metavar="S",
              help="Analyse again every S seconds, until Ctrl-C; less often if it takes long.")  # fmt: skip
@cache_option
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def batch(
    sources: tuple[str, ...], engine: str, out: Path | None, window_s: int, since: datetime | None,
    until: datetime | None, master: str | None, every_s: float | None, cache: Path, as_json: bool,
) -> None:  # fmt: skip
    """Analyse the telemetry that brokers recorded with --telemetry DIR. Brokers may continue to write meanwhile.

    A SOURCE is the directory of one broker, a directory with those of many brokers anywhere below, or the HTTP address
    of a broker on another machine: http://HOST:4681 or http://TOKEN@HOST:4681.
    """
    if master is not None and engine != "spark":
        raise click.UsageError("--master is for --engine spark")
    if every_s is not None and (engine != "duckdb" or out is None or as_json):
        raise click.UsageError("--every is for --engine duckdb with --out, and prints no report")
    directories, copies = pulled_sources(sources, cache)
    between = None if since is None and until is None else (_micros(since, EVER[0]), _micros(until, EVER[1]))
    if every_s is not None:
        with pulling(copies, every_s, progress):
            _repeat(partial(_analyse, directories, engine, out, window_s, between, master), every_s)
        return
    began = monotonic()
    try:
        facts = _analyse(directories, engine, out, window_s, between, master)
    except PlaitError as error:
        fail(error.message, error.hint)
    except OSError as error:
        fail(f"the tables cannot be written: {error.strerror}", "give another --out")
    if as_json:
        print(json.dumps(facts))
    else:
        for line in facts["lines"]:
            print(line)
    progress(f"done in {monotonic() - began:.1f} s")


def _analyse(
    directories: Sequence[Path], engine: str, out: Path | None, window_s: int, between: tuple[int, int] | None,
    master: str | None,
) -> Json:  # fmt: skip
    """Compute and store the tables if they are not there already, and return the report."""
    window_us = window_s * 1_000_000
    inventory = take_inventory(directories)
    _print_findings(inventory)
    inventory.between = between
    if not inventory.records:
        raise NoRecords("there are no records in the sources", hint="start brokers with --telemetry DIR, and give DIR")
    lake = Lake(out) if out is not None else None
    if lake is not None and lake.holds(inventory, window_us):
        progress(f"{out} already has the tables of these {inventory.records:,} records")
        return report(_stored(lake))
    progress(f"{inventory.records:,} records in {len(inventory.segments):,} segments, by {engine}")
    computed = _computed(inventory, engine, window_us, master)
    if lake is None:
        return report(presented_tables(computed, inventory))
    lake.write(computed, inventory, engine, window_us)
    return report(_stored(lake))


def _repeat(analyse: Callable[[], Json], every_s: float) -> None:
    """Analyse again and again until a signal. A failure is reported, and the next analysis may succeed."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: sys.exit(0))
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    while True:
        began = monotonic()
        try:
            analyse()
        except PlaitError as error:
            progress(error.message)
        except OSError as error:
            progress(f"the tables cannot be written: {error.strerror}")
        sleep(max(every_s, IDLE_FACTOR * (monotonic() - began)))


def _micros(when: datetime | None, otherwise: int) -> int:
    return otherwise if when is None else round(when.replace(tzinfo=UTC).timestamp()) * 1_000_000


def _computed(inventory: Inventory, engine: str, window_us: int, master: str | None) -> Mapping[str, pa.Table]:
    with tempfile.TemporaryDirectory(prefix="plait-analyze-") as scratch:
        if engine == "duckdb":
            from ..engines.duckdb_engine import compute_by_duckdb as by_duckdb

            return by_duckdb(inventory, window_us=window_us, spill=Path(scratch))
        try:
            from ..engines.spark_engine import compute_by_spark as by_spark
            from ..engines.spark_session import LOCAL, session
        except ImportError as error:
            raise spark_missing(error, "or --engine duckdb") from None
        with session(master or LOCAL, scratch=Path(scratch)) as spark:
            parts = max(2, spark.sparkContext.defaultParallelism)
            return by_spark(spark, inventory, window_us=window_us, parts=parts)


def _stored(lake: Lake) -> dict[str, pa.Table]:
    manifest = lake.manifest()
    assert manifest is not None, "it was just written or read"
    lake.show(manifest)  # an analysis that was killed may have left the directories behind the manifest
    return {name: lake.read(name) for name in manifest["tables"]}


def _print_findings(inventory: Inventory) -> None:
    for finding in inventory.findings[:FINDINGS_SHOWN]:
        print(f"left out: {finding.path}: {finding.why}", file=sys.stderr)
    if len(inventory.findings) > FINDINGS_SHOWN:
        print(f"left out: {len(inventory.findings) - FINDINGS_SHOWN:,} more files", file=sys.stderr)


analyze.add_command(compact_command)
analyze.add_command(live)
analyze.add_command(prepare)
analyze.add_command(show)
