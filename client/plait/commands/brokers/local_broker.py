"""A broker as a child process: started, waited for, killed, restarted on the same ports and data, asleep, stopped.

It is in a session of its own, so that a Ctrl-C at the terminal reaches the command, which then stops it in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from pathlib import Path
from typing import IO, Final

from .. import plugins
from ..terminal.failures import Failure
from .child import ASLEEP, AWAKE

READY_S: Final = 20.0
"""For a start on a loaded machine, and the recovery of a large log."""
STOP_S: Final = 10.0
"""For draining; then it is killed."""
_READY: Final = re.compile(r"ready name=(\S+) listen=(\S+) http=(\S+)\Z")


class LocalBroker:
    """One broker process. `listen` and `http` are the real addresses once it is ready."""

    def __init__(
        self,
        *options: str,
        listen: str = "127.0.0.1:0",
        http: str = "127.0.0.1:0",
        data: Path | None = None,
        log: IO[bytes] | None = None,
        own_settings: bool = False,
    ) -> None:
        """`options` go to `plait broker` as they are; `log` takes its stderr, ours if None. With `own_settings` it
        sees nothing of what the user's environment says to brokers."""
        self.listen = listen
        self.http = http
        self.name = ""
        self._options = options
        self._data = data
        self._log = log
        self._environment = {
            name: value for name, value in os.environ.items() if not (own_settings and name.startswith("PLAIT_"))
        }
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"plait://{self.listen}"

    @property
    def pid(self) -> int:
        """Of its process, once it is started."""
        assert self._process is not None, "it was started"
        return self._process.pid

    async def start(self) -> None:
        """Starts it and waits until it serves; Failure when it does not."""
        if "broker" not in plugins.entry_points():
            plugins.load("broker")  # says what to install
        await self._spawn()
        await self.ready()

    async def ready(self) -> None:
        """Waits until it serves; Failure, and it is ended, when it does not."""
        assert self._process is not None, "it was started"
        try:
            async with asyncio.timeout(READY_S):
                self._serves(await self._first_line(self._process))
        except TimeoutError:
            await self.kill()
            raise Failure(f"the broker was not ready within {READY_S:g} s") from None
        except BaseException:
            await self.kill()
            raise

    async def sleep(self) -> None:
        """In its place, once it has ended: a process that becomes it again when `plait chaos start` says so."""
        assert self._process is not None, "it was started"
        assert self._process.returncode is not None, "and has ended"
        if not hasattr(signal, "sigwait"):
            raise Failure("this system has no SIGCONT")  # Windows
        await self._spawn(ASLEEP)
        try:
            async with asyncio.timeout(READY_S):
                said = await self._line()
        except BaseException:
            await self.kill()
            raise
        if said != ASLEEP:
            await self.kill()
            raise Failure(f"what waits in its place said {said[:200]!r}")

    async def woken(self) -> bool:
        """Waits until it is to be the broker again, which `ready` then waits for; False when it ended asleep."""
        if await self._line() == AWAKE:
            return True
        await self.kill()
        return False

    async def _spawn(self, *how: str) -> None:
        command = [sys.executable, "-m", f"{__package__}.child", str(os.getpid()), *how, "broker", *self._options]
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
        """Its exit code, once it ends."""
        assert self._process is not None, "it was started"
        return await self._process.wait()

    async def kill(self) -> None:
        """kill -9: as a crash would end it."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def signal(self, number: int) -> None:
        """Sends it a signal, if it is there."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self) -> None:
        """Lets it drain and end; kills it if that takes too long."""
        if self._process is None or self._process.returncode is not None:
            return
        self.signal(signal.SIGTERM)
        if hasattr(signal, "SIGCONT"):  # one that is paused takes no notice before
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
            raise Failure(f"the broker did not start (exit code {code})", detail=self._last_words())
        return line

    def _serves(self, line: str) -> None:
        ready = _READY.match(line)
        if ready is None:
            raise Failure(f"the broker said {line[:200]!r} instead of being ready")
        self.name, self.listen, self.http = ready.groups()

    def _last_words(self) -> str:
        if self._log is None:
            return ""  # the user has seen them
        self._log.flush()
        path = Path(self._log.name)
        return "\n".join(path.read_text(errors="replace").splitlines()[-12:]) if path.exists() else ""
