"""Telemetry of brokers on this machine: a directory for their records, and `plait analyze`, which makes tables of them.

So the page `/analytics` of each broker has tables after some seconds. Analyses give way to the brokers.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .. import plugins
from .locked_directory import locked_directory

PREFIX: Final = "plait-telemetry-"
BYTES_MAX: Final = 128 << 20
"""Space for the records of all brokers, half an hour at a thousand events a second. A temporary directory may lie in
memory."""
BROKER_BYTES_MIN: Final = 4 << 20
SEGMENT_BYTES: Final = 1 << 20
"""Bytes of a file. The oldest files are deleted, so one is a small part of the space."""
WINDOW_S: Final = 10
"""Seconds that one row of the tables covers: somebody who has just started brokers sees them at once."""
EVERY_S: Final = 5
STOP_S: Final = 5.0
"""Timeout of an analysis that ends. It is killed then: its tables are going to be removed, or are as they were."""

MISSING: Final = "/analytics stays empty: pip install plait-analytics fills it"


@dataclass(frozen=True, slots=True)
class LocalTelemetry:
    """How brokers are started so that they record."""

    arguments: tuple[str, ...] = ()
    settings: Mapping[str, str] | None = None
    """Variables of their environment."""


@asynccontextmanager
async def recording(
    directory: Path | None, brokers: int, report: Callable[[str], None]
) -> AsyncIterator[LocalTelemetry]:
    """Have brokers record into a directory, or a temporary one, and make tables of the records until the end.

    `report` receives a line for people: why there are no tables.
    """
    if "analyze" not in plugins.entry_points():
        report(MISSING)
        if directory is None:
            yield LocalTelemetry()
            return
    with locked_directory(PREFIX) as temporary:
        records, tables = _folders(directory or temporary)
        analysis = (
            asyncio.create_task(_analyse(records, tables, report)) if "analyze" in plugins.entry_points() else None
        )
        try:
            yield LocalTelemetry(
                ("--telemetry", str(records), "--tables", str(tables)),
                {
                    "PLAIT_BROKER__TELEMETRY__BYTES_MAX": str(max(BYTES_MAX // brokers, BROKER_BYTES_MIN)),
                    "PLAIT_BROKER__TELEMETRY__SEGMENT_BYTES_MAX": str(SEGMENT_BYTES),
                },
            )
        finally:
            if analysis is not None:
                analysis.cancel()
                with suppress(asyncio.CancelledError):
                    await analysis


def _folders(home: Path) -> tuple[Path, Path]:
    """Return the absolute paths of records and tables. The records' folder exists then."""
    records = home.absolute() / "records"
    records.mkdir(parents=True, exist_ok=True)
    return records, home.absolute() / "tables"


async def _analyse(records: Path, tables: Path, report: Callable[[str], None]) -> None:
    """Run `plait analyze` as a child process until this task is cancelled."""
    command = [sys.executable, "-m", f"{__package__}.child", str(os.getpid()), "analyze", "batch", str(records)]
    command += ["--out", str(tables), "--window", str(WINDOW_S), "--every", str(EVERY_S)]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        code = await process.wait()
        report(f"/analytics is not updated any more: `plait analyze` ended with exit code {code}")
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
