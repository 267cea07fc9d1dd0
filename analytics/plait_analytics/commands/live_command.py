"""`plait analyze live`: follow running brokers. `plait analyze prepare`: make Spark start faster."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from plait_core import PlaitError

from ..records.remote import cache_option, pulled_sources, pulling
from .console import fail, progress, spark_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command("live", short_help="Follow brokers while they run.")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Directory of the tables and the checkpoint.",
)
@click.option("--every", "every_s", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, metavar="S",
              help="Seconds between two batches.")  # fmt: skip
@click.option("--window", "window_s", type=click.IntRange(1, 3600), default=10, show_default=True, metavar="S",
              help="Seconds that one row covers.")  # fmt: skip
@click.option("--late", "late_s", type=click.IntRange(0, 3600), default=10, show_default=True, metavar="S",
              help="Seconds that a window waits for late records.")  # fmt: skip
@click.option("--records-max", type=click.IntRange(1), default=4_000_000, show_default=True, metavar="N",
              help="Records of one batch during a backlog.")  # fmt: skip
@click.option("--master", metavar="URL", help="Spark master: local[2,4] by default, spark://..., k8s://...")
@cache_option
@click.option("--reader", default="live", show_default=True, metavar="NAME",
              help="Name under which remote brokers store this reader's position.")  # fmt: skip
@click.option("--once", is_flag=True, help="Stop at the end of the existing records. Open windows stay open.")
def live(
    sources: tuple[str, ...], out: Path, every_s: float, window_s: int, late_s: int, records_max: int,
    master: str | None, cache: Path, reader: str, once: bool,
) -> None:  # fmt: skip
    """Follow what brokers record with --telemetry DIR, using Spark, until Ctrl-C.

    A SOURCE is a directory with recorded telemetry anywhere below, or the HTTP address of a broker on another machine:
    http://HOST:4681 or http://TOKEN@HOST:4681.

    Each window of time becomes rows of the tables once it has ended and --late seconds have passed. OUT also holds the
    checkpoint: after a crash the command continues where it stopped, and counts each record once. Keep --window, --late
    and the directories the same for one OUT.
    """
    directories, copies = pulled_sources(sources, cache, reader)
    with pulling(copies, every_s, progress), _spark(master) as spark:
        from ..live.live_query import LiveSettings, run

        settings = LiveSettings(
            [str(directory.resolve()) for directory in directories], out.resolve(), window_s * 1_000_000,
            late_s * 1_000_000, every_s, records_max, max(2, spark.sparkContext.defaultParallelism),
        )  # fmt: skip
        code = run(spark, settings, once=once, report=progress)
    raise SystemExit(code)


@click.command("prepare", short_help="Make Spark start faster.")
def prepare() -> None:
    """Create Java's class archive, once. It takes 150 MB and lets Spark start in two thirds of the time."""
    from ..engines.java import find_java
    from ..engines.jvm_class_archive import archive_path

    try:
        path = archive_path(find_java())
    except PlaitError as error:
        fail(error.message, error.hint)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    progress("this takes half a minute")
    began = monotonic()
    with _spark(None, archive=True) as spark:
        spark.range(1000).selectExpr("id % 7 as k").groupBy("k").count().toArrow()
    if not path.is_file():
        fail(f"{path} was not written", "this Java may not support class data sharing; Spark works without it")
    progress(f"{path}, {path.stat().st_size >> 20} MB, in {monotonic() - began:.0f} s")


@contextmanager
def _spark(master: str | None, *, archive: bool = False) -> Iterator[SparkSession]:
    try:
        from ..engines.spark_session import LOCAL, session
    except ImportError as error:
        raise SystemExit(_exit_with(spark_missing(error, "or plait analyze batch, which needs none"))) from None
    try:
        with tempfile.TemporaryDirectory(prefix="plait-analyze-", ignore_cleanup_errors=True) as scratch:
            progress("starting Spark")
            began = monotonic()
            with session(master or LOCAL, scratch=Path(scratch), archive=archive) as spark:
                progress(f"Spark {spark.version} started after {monotonic() - began:.1f} s")
                yield spark
    except PlaitError as error:
        raise SystemExit(_exit_with(error)) from None


def _exit_with(error: PlaitError) -> int:
    progress(error.message + (f" ({error.hint})" if error.hint else ""))
    return 1
