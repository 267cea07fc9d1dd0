"""Spark's session and its JVM. Each setting that deviates from Spark's default has its reason beside it."""

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
"""Two threads, four attempts for a task: plain local[2] gives up at the first failure."""

EXIT_S: Final = 30.0
"""Seconds until a JVM that does not exit is killed: about one in sixty hung for minutes."""

ARCHIVING_S: Final = 600.0
"""Seconds until a JVM that writes its archive is killed: ten seconds of work, more on a busy machine."""


class SparkFailed(PlaitError):
    """Spark does not start with these settings."""


def settings(master: str, parts: int) -> dict[str, str]:
    """Return the configuration of a session."""
    local = master.startswith("local")
    return {
        "spark.master": master,
        "spark.app.name": "plait analyze",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",  # it would open a port
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(parts),  # the default of 200 costs fifteen times as much on two cores
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.log.level": "ERROR",
        "spark.shuffle.mapStatus.compression.codec": "lz4",  # zstd loads a library from /tmp, often mounted noexec
        **({"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"} if local else {}),
    }


@contextmanager
def session(
    master: str = LOCAL, parts: int = 2, scratch: Path | None = None, *, archive: bool = False
) -> Iterator[SparkSession]:
    """Run a Spark session and end its JVM afterwards. Raise JavaMissing without Java. `archive`: write the class
    archive."""
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
    archive_file = archive_path(java_home)
    builder = builder.config(
        "spark.driver.extraJavaOptions", making(archive_file) if archive else java_options(archive_file)
    )
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # a wrong URL may raise an error of Spark, Java or Python
        why = _why(error)  # needs the JVM
        _disconnect(EXIT_S)
        raise SparkFailed(f"Spark does not start with {master}: {why}") from error
    try:
        yield spark
    finally:
        spark.stop()
        _disconnect(ARCHIVING_S if archive else EXIT_S)


def _choose_python(master: str) -> None:
    """Set the Python of the workers, which default to the first python3 in the path. On a cluster that may be right."""
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", "python3" if master.startswith("k8s") else sys.executable)


def _why(error: Exception) -> str:
    """Return the innermost reason in a Java stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    reason = causes[-1] if causes else next((line for line in lines if "Exception: " in line or "Error: " in line), "")
    return (reason.lstrip(": ") or (lines[0] if lines else type(error).__name__))[:300]


def _disconnect(timeout_s: float) -> None:
    """Disconnect from the JVM and end it, so that the next session starts its own."""
    gateway = SparkContext._gateway
    _end(getattr(gateway, "proc", None), timeout_s)
    SparkContext._gateway = SparkContext._jvm = None


def _end(jvm: subprocess.Popen[bytes] | None, timeout_s: float) -> None:
    """Close the JVM's pipe, on which it exits; kill it if it does not."""
    if jvm is None:
        return
    if jvm.stdin is not None:
        jvm.stdin.close()
    try:
        jvm.wait(timeout_s)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
