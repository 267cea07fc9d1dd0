"""Subscribers in separate processes: runs `plait bench sub` and reads its result."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from plait_core.values import Json

from ..terminal.failures import Failure

if TYPE_CHECKING:
    from ...options.target import Target
    from .plan import Plan


class Worker:
    """One subscriber process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def subscribed(self) -> None:
        """Wait until it has subscribed; Failure if it ends before."""
        assert self._process.stderr is not None, "it is a pipe"
        line = (await self._process.stderr.readline()).decode(errors="replace").strip()
        if line != "subscribed":
            raise Failure(f"a subscriber did not start: {line[:500]}")

    async def result(self) -> Json:
        """Wait until it ends. Return its result."""
        out, err = await self._process.communicate()
        try:
            answer: Json = json.loads(out)
        except ValueError:
            last = err.decode(errors="replace").strip()[-500:]
            raise Failure(f"a subscriber ended with exit code {self._process.returncode}: {last}") from None
        return answer


@asynccontextmanager
async def subscribers(plan: Plan, target: Target) -> AsyncIterator[list[Worker]]:
    """Run the subscriber processes, all subscribed. They are killed at the end."""
    command = [sys.executable, "-m", "plait.commands.brokers.child", str(os.getpid()), "bench", "sub", "--json"]
    command += ["--run", plan.run, "--count", str(plan.count), "--size", str(plan.size), "--wait", str(plan.wait_s)]
    if plan.rate is not None:
        command += ["--rate", str(plan.rate)]
    url = target.url.replace("://", f"://{target.token}@", 1) if target.token else target.url
    environment = os.environ | {"PLAIT_URL": url}  # not an argument, which other users could read
    processes: list[asyncio.subprocess.Process] = []
    try:
        for _ in range(plan.subscribers):
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
            processes.append(process)
        workers = [Worker(process) for process in processes]
        await asyncio.gather(*(worker.subscribed() for worker in workers))
        yield workers
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*(process.communicate() for process in processes), return_exceptions=True)
