"""Analysis of the brokers' telemetry of the demo: `plait analyze`, by Spark where it is installed."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

from plait_core.values import Json

TIMEOUT_S: Final = {"spark": 45.0, "duckdb": 60.0}
"""Timeout of each engine. Spark starts a JVM, which is slow on a busy machine; DuckDB follows if Spark times out."""

MISSING: Final = "pip install plait-analytics to end the demo with a report of the brokers' telemetry"


def engines() -> list[str]:
    """Return the installed engines in the order in which to try them."""
    if importlib.util.find_spec("plait_analytics") is None:
        return []
    spark = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None
    return ["spark", "duckdb"] if spark else ["duckdb"]


async def analyse(telemetry: Path) -> tuple[str, Json] | None:
    """Return the engine that worked and its report, or None if none did."""
    for engine in engines():
        command = [sys.executable, "-m", "plait", "analyze", "batch", str(telemetry), "--engine", engine, "--json"]
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=quiet, stdin=quiet, start_new_session=True,
            env=os.environ | {"TMPDIR": str(telemetry.parent)},
        )  # fmt: skip
        try:
            output, _ = await asyncio.wait_for(process.communicate(), TIMEOUT_S[engine])
        except TimeoutError:
            continue
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # with its JVM, if it has one
                await process.wait()
        if process.returncode == 0:
            found: Json = json.loads(output)
            return engine, found
    return None
