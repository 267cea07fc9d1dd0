"""A broker as a child process: start, restart on the same ports and data, kill, stop.

The process has its own session, so that Ctrl-C at the terminal reaches only the command, which then stops the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from .. import plugins
from ..terminal.failures import Failure
from .child import ASLEEP, AWAKE

READY_S: Final = 20.0
"""Timeout of a start: enough for a loaded machine, and for the recovery of a large log."""
STOP_S: Final = 10.0
"""Timeout of draining. A broker that takes longer is killed."""
_READY: Final = re.compile(r"ready name=(\S+) listen=(\S+) http=(\S+)\Z")


class LocalBroker:
    """One broker process. Once it is ready, `listen` and `http` are its actual addresses."""

    def __init__(
        self,
        *options: str,
        listen: str = "127.0.0.1:0",
        http: str = "127.0.0.1:0",
        data: Path | None = None,
        log: IO[bytes] | None = None,
        own_settings: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare `plait broker` with these options. Its stderr goes to `log`, or to ours.

        With `own_settings` the broker ignores the PLAIT_ variables of the user's environment. `settings` are variables
        for the broker that the user's environment overrides.
        """
        self.listen = listen
        self.http = http
        self.name = ""
        self._options = options
        self._data = data
        self._log = log
        self._environment = dict(settings or {}) | {
            name: value for name, value in os.environ.items() if not (own_settings and name.startswith("PLAIT_"))
        }
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"plait://{self.listen}"

    @property
    def pid(self) -> int:
        """Process id, once it is started."""
        assert self._process is not None, "it was started"
        return self._process.pid

    async def start(self) -> None:
        """Start the broker and wait until it is ready; Failure if it does not get ready."""
        if "broker" not in plugins.entry_points():
            plugins.load("broker")  # raises Failure with what to install
        await self._spawn()
        await self.ready()

    async def ready(self) -> None:
        """Wait until the broker is ready. If it does not get ready, kill it and raise Failure."""
        assert self._process is not None, "it was started"
        try:
            async with asyncio.timeout(READY_S):
                self._parse_ready(await self._first_line(self._process))
        except TimeoutError:
            await self.kill()
            raise Failure(f"the broker was not ready within {READY_S:g} s") from None
        except BaseException:
            await self.kill()
            raise

    async def sleep(self) -> None:
        """Start a placeholder for the broker, which has ended. `plait chaos start` turns it into the broker again."""
        assert self._process is not None, "it was started"
        assert self._process.returncode is not None, "and has ended"
        if not hasattr(signal, "sigwait"):
            raise Failure("this system has no SIGCONT")  # Windows
        await self._spawn(ASLEEP)
        try:
            async with asyncio.timeout(READY_S):
                line = await self._line()
        except BaseException:
            await self.kill()
            raise
        if line != ASLEEP:
            await self.kill()
            raise Failure(f"its placeholder printed {line[:200]!r}")

    async def woken(self) -> bool:
        """Wait until the placeholder becomes the broker, and return True. Return False if it ended instead."""
        if await self._line() == AWAKE:
            return True
        await self.kill()
        return False

    async def _spawn(self, *modes: str) -> None:
        command = [sys.executable, "-m", f"{__package__}.child", str(os.getpid()), *modes, "broker", *self._options]
        command += ["--listen", self.listen, "--http", self.http]
        if self._data is not None:
            command += ["--data", str(self._data)]
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            env=self._environment,
            start_new_session=True,
        )

    async def wait(self) -> int:
        """Wait until the process ends. Return its exit code."""
        assert self._process is not None, "it was started"
        return await self._process.wait()

    async def kill(self) -> None:
        """Kill the process with SIGKILL, as a crash would end it."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def signal(self, number: int) -> None:
        """Send the process a signal, if it is running."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self) -> None:
        """Let the broker drain and end. Kill it after STOP_S."""
        if self._process is None or self._process.returncode is not None:
            return
        self.signal(signal.SIGTERM)
        if hasattr(signal, "SIGCONT"):  # a paused process handles SIGTERM only after SIGCONT
            self.signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
        except BaseException:
            await self.kill()
            raise

    async def _line(self) -> str:
        assert self._process is not None, "it was started"
        assert self._process.stdout is not None, "it is a pipe"
        return (await self._process.stdout.readline()).decode(errors="replace").strip()

    async def _first_line(self, process: asyncio.subprocess.Process) -> str:
        line = await self._line()
        if not line:
            code = await process.wait()
            raise Failure(f"the broker did not start (exit code {code})", detail=self._log_tail())
        return line

    def _parse_ready(self, line: str) -> None:
        ready = _READY.match(line)
        if ready is None:
            raise Failure(f"the broker printed {line[:200]!r} instead of its ready line")
        self.name, self.listen, self.http = ready.groups()

    def _log_tail(self) -> str:
        if self._log is None:
            return ""  # its stderr is ours, so the user has seen it
        self._log.flush()
        path = Path(self._log.name)
        return "\n".join(path.read_text(errors="replace").splitlines()[-12:]) if path.exists() else ""
