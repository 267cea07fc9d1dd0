"""What the brokers' own records say of the demo: `plait analyze` over their telemetry, by Spark where it is."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, Final

PATIENCE_S: Final = {"spark": 45.0, "duckdb": 60.0}
"""Spark starts a JVM; on a busy machine that takes its time. Then DuckDB does it."""

MISSING: Final = "pip install plait-analytics, and this ends with a report of what the brokers recorded"


def engines() -> list[str]:
    """Those that can be had, the first that is to be tried first."""
    if importlib.util.find_spec("plait_analytics") is None:
        return []
    spark = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None
    return ["spark", "duckdb"] if spark else ["duckdb"]


async def analysed(telemetry: Path) -> tuple[str, dict[str, Any]] | None:
    """By which engine, and the report; None when there is none to be had."""
    for engine in engines():
        command = [sys.executable, "-m", "plait", "analyze", "batch", str(telemetry), "--engine", engine, "--json"]
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=quiet, stdin=quiet, start_new_session=True,
            env=os.environ | {"TMPDIR": str(telemetry.parent)},
        )  # fmt: skip
        try:
            said, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S[engine])
        except TimeoutError:
            continue
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # with its JVM, if it has one
                await process.wait()
        if process.returncode == 0:
            found: dict[str, Any] = json.loads(said)
            return engine, found
    return None
