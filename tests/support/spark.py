"""Tests of Spark: what they lack on this machine, and the one run that their workers share.

`python tests/support/spark.py` states, as the last line of `make test`, that they were skipped. With CI=true it fails.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from plait_analytics.engines.java import JavaMissing, find_java

MANDATORY = os.environ.get("CI") == "true"
"""Continuous integration may not skip the tests of Spark."""


def missing() -> str:
    """Return what the tests of Spark lack, with a remedy. Empty if they can run."""
    try:
        find_java()
    except JavaMissing as java:
        return str(java)
    return "" if find_spec("pyspark") else "Spark is not installed: make setup-analytics"


def require() -> None:
    """Skip the current test if it lacks Spark; fail it where CI=true."""
    if lack := missing():
        (pytest.fail if MANDATORY else pytest.skip)(lack)


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a directory that `make` filled, once for all workers of this run, because Spark is too slow for each."""
    home = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        home = home.parent  # that of the run; without workers it would be that of all runs
    made = home / name
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / f"{name}.made").exists():
            make(made)
            (home / f"{name}.made").touch()
    return made


if __name__ == "__main__" and (lack := missing()):
    print(f"test: the tests of Spark were skipped: {lack}")
    sys.exit(MANDATORY)
