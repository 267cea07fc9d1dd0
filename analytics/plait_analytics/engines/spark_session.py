"""Spark's session and its JVM: what Spark does by default and should not is set here, each with its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from plait_core import PlaitError

from .java import find_java
from .jvm_class_archive import archive_path, java_options, making

LOCAL: Final = "local[2,4]"
"""Two threads; a task that fails is tried four times: plain local[2] gives up at the first."""

FAREWELL_S: Final = 30.0
"""What a JVM has to end before it is killed: one in sixty stayed for minutes."""

ARCHIVING_S: Final = 600.0
"""The same, while it writes its archive: ten seconds of work, and machines are busy."""


class SparkFailed(PlaitError):
    """There is no session to be had of what is told."""


def settings(master: str, parts: int) -> dict[str, str]:
    """What a session is told."""
    local = master.startswith("local")
    return {
        "spark.master": master,
        "spark.app.name": "plait analyze",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",  # a port that nobody asked for
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(parts),  # the default of 200 costs fifteen times as much on two cores
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.log.level": "ERROR",
        "spark.shuffle.mapStatus.compression.codec": "lz4",  # zstd's needs a /tmp from which libraries may be loaded
        **({"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"} if local else {}),
    }


@contextmanager
def session(
    master: str = LOCAL, parts: int = 2, scratch: Path | None = None, *, archive: bool = False
) -> Iterator[SparkSession]:
    """A session, ended with its JVM; JavaMissing when there is none to be had. `archive`: made at its end."""
    java_home = find_java()
    os.environ.setdefault("JAVA_HOME", str(java_home))
    _choose_python(master)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    for key, value in settings(master, parts).items():
        builder = builder.config(key, value)
    if scratch is not None:
        builder = builder.config("spark.local.dir", str(scratch)).config("spark.sql.warehouse.dir", str(scratch))
    kept = archive_path(java_home)
    builder = builder.config("spark.driver.extraJavaOptions", making(kept) if archive else java_options(kept))
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # Spark's own, Java's, Python's: a wrong URL may be any of them
        why = _why(error)  # which asks the JVM
        _part(FAREWELL_S)
        raise SparkFailed(f"Spark does not start with {master}: {why}") from error
    try:
        yield spark
    finally:
        spark.stop()
        _part(ARCHIVING_S if archive else FAREWELL_S)


def _choose_python(master: str) -> None:
    """For workers, which would run whatever python3 is in the path; elsewhere than here that may be right."""
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", "python3" if master.startswith("k8s") else sys.executable)


def _why(error: Exception) -> str:
    """Of pages of Java's stack, the innermost reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    said = causes[-1] if causes else next((line for line in lines if "Exception: " in line or "Error: " in line), "")
    return (said.lstrip(": ") or (lines[0] if lines else type(error).__name__))[:300]


def _part(farewell_s: float) -> None:
    """From the JVM, so that the next session has its own."""
    gateway = SparkContext._gateway
    _end(getattr(gateway, "proc", None), farewell_s)
    SparkContext._gateway = SparkContext._jvm = None


def _end(jvm: subprocess.Popen[bytes] | None, farewell_s: float) -> None:
    """A JVM ends when its driver's pipe does; one that does not is killed."""
    if jvm is None:
        return
    if jvm.stdin is not None:
        jvm.stdin.close()
    try:
        jvm.wait(farewell_s)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
