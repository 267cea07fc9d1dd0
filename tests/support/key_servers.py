"""Helpers for tests of the key server as a process."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from plait_crypto import Epochs, Schema
from plait_crypto.attributes.credentials import Tree
from plait_keyserver import KeyClient, KeyDirectory
from plait_keyserver.server.directory import AUTHORITY

PASSPHRASE = "correct horse battery staple"


def realm_directory(
    path: Path, trees: Mapping[str, Tree], policy: str, *, epoch_s: float = 3600.0, overlap_s: float = 600.0
) -> KeyDirectory:
    """Create a realm whose epoch 0 begins now."""
    now_us = time.time_ns() // 1000
    epochs = Epochs(now_us, round(epoch_s * 1_000_000), round(overlap_s * 1_000_000))
    directory = KeyDirectory(path)
    directory.create(Schema(trees, epochs), PASSPHRASE, now_us)
    (path / "policy.toml").write_text(policy)
    (path.parent / "passphrase").write_text(PASSPHRASE + "\n")
    return directory


@asynccontextmanager
async def key_server(directory: KeyDirectory, port: int = 0) -> AsyncIterator[int]:
    """Run `plait keyserver` on a directory. Yield its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "plait",
        "keyserver",
        str(directory.path),
        "--listen",
        f"127.0.0.1:{port}",
        "--passphrase-file",
        str(directory.path.parent / "passphrase"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
        found = re.fullmatch(r"ready listen=127\.0\.0\.1:(\d+) realm=[0-9a-f]{16}\n", line)
        assert found is not None, line
        yield int(found[1])
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def enrolled(directory: KeyDirectory, holder: str, *ports: int) -> KeyClient:
    """Return a holder's client, enrolled by a token."""
    authority = (directory.path / AUTHORITY).read_text()
    client = KeyClient([("127.0.0.1", port) for port in ports], authority)
    await client.enrol(directory.make_token(holder, time.time_ns() // 1000))
    return client
