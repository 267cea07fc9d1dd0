"""Temporary directories of `plait up` are removed, also those of killed processes, and never those of others."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from plait.commands.brokers.local_telemetry import recording

RECORD = """
import asyncio, sys
from pathlib import Path
from plait.commands.brokers.local_telemetry import recording

async def record():
    async with recording(Path(sys.argv[1]), 1, lambda text: None):
        print("recording", flush=True)
        await asyncio.sleep(60)

asyncio.run(record())
"""


def start(home: Path) -> subprocess.Popen[str]:
    """Start a process that records, with `home` as the directory for temporary files."""
    command = [sys.executable, "-c", RECORD, str(home.parent / "kept")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(home)})
    assert process.stdout is not None
    assert process.stdout.readline() == "recording\n"
    return process


@pytest.mark.timeout(120)
async def test_a_directory_of_a_killed_process_is_removed_and_one_in_use_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "tmp"
    home.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (home / "plait-telemetry-link").symlink_to(elsewhere)
    (home / "plait-telemetry-unlocked").mkdir()
    untouched = {"plait-telemetry-link", "plait-telemetry-unlocked"}
    killed, running = start(home), start(home)
    try:
        killed.kill()
        killed.communicate()
        assert len(list(home.iterdir())) == 4
        async with recording(tmp_path / "kept", 1, lambda text: None):
            assert len(list(home.iterdir())) == 4, "the one of the killed process has gone"
        left = {path.name for path in home.iterdir()} - untouched
        assert len(left) == 1, "a directory in use stays"
        assert (elsewhere / "lock").exists()
    finally:
        running.kill()
        running.communicate()
    async with recording(tmp_path / "kept", 1, lambda text: None):
        pass
    assert {path.name for path in home.iterdir()} == untouched
