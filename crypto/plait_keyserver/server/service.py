"""The key server's process: TLS, one issuing thread, and an audit line on disk before any reply is sent.

A line passes three places. `Admission` refuses it, unread, if its sender's budget is used up. `Turns` holds it until
its sender has a turn. `RequestHandler` answers it, in slices: between two slices of one holder all others have theirs.
While the policy cannot be read, nothing is issued.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from plait_core import Randomness
from plait_core.values import Json
from plait_crypto import SealError
from plait_crypto.authority import Steps
from plait_crypto.keyserver import (
    Admission,
    Answer,
    Caller,
    Certified,
    Record,
    Refusal,
    RequestHandler,
    Tallies,
    Turns,
    reply_line,
)
from plait_crypto.keyserver.limits import (
    PENDING_MAX,
    PENDING_PER_CALLER_MAX,
    REQUEST_BYTES_MAX,
    SLICE_CREDENTIALS,
    SLICE_S,
)

from ..certificates import load_pair
from .directory import KeyDirectory, Secrets

CONNECTIONS_MAX: Final = 512
"""Open connections: each holds a TLS session and at most one request. When all are taken, the oldest one without a
certificate gives way."""

CONNECTIONS_PER_CALLER_MAX: Final = 64
"""Open connections of one holder, or of one address without a certificate."""

SILENCE_S: Final = 30.0
"""A connection without a request for so long is closed."""

REFUSED_PAUSE_S: Final = 0.1
"""A connection is not read for so long after a line that was refused unread. TCP then slows its sender down."""

TALLY_S: Final = 10.0
"""Uneventful requests are counted for so long, and then written as one line each caller."""

log: Final = logging.getLogger(__name__)


class _Job:
    """A line that is being answered. `slice` runs in the issuing thread."""

    def __init__(self, caller: Caller, steps: Steps[Answer], closing: Callable[[], bool]) -> None:
        self.caller = caller
        self.answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._closing = closing
        self._steps = steps

    def gone(self) -> bool:
        """Return whether the caller has disconnected."""
        return self._closing() or self.answered.cancelled()

    def answer(self, answer: Answer) -> None:
        """Hand the answer to the connection, if that is still there."""
        if not self.answered.done():
            self.answered.set_result(answer.reply)

    def slice(self) -> Answer | None:
        """Take some steps. Return the answer after the last one."""
        end = time.monotonic() + SLICE_S
        for _ in range(SLICE_CREDENTIALS):
            try:
                next(self._steps)
            except StopIteration as stop:
                answer: Answer = stop.value
                return answer
            if time.monotonic() >= end:
                break
        return None


class KeyService:
    """One replica, while it runs."""

    def __init__(
        self,
        directory: KeyDirectory,
        secrets: Secrets,
        *,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        randomness: Randomness | None = None,
    ) -> None:
        self._directory = directory
        self._secrets = secrets
        self._hosts = hosts
        self._now_us = now_us
        self._randomness = randomness if randomness is not None else random.SystemRandom()
        self._handler = RequestHandler(secrets.served(), self, directory.decisions())
        self._admission, self._tallies = Admission(), Tallies()
        self._turns: Turns[_Job] = Turns(PENDING_MAX, PENDING_PER_CALLER_MAX)
        self._waiting = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "plait-keyserver")
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connections: dict[asyncio.Task[None], Caller] = {}
        """The tasks of open connections, the oldest first."""
        self._open: Counter[str] = Counter()
        self.port = 0

    # --- the handler's Registry, called in the issuing thread ---------------------------------------------------------

    def redeem(self, token: str, now_us: int) -> str | None:
        """See Registry."""
        return self._directory.redeem(token, now_us)

    def certify(self, holder: str, request: str, now_us: int) -> Certified:
        """See Registry."""
        return self._secrets.authority.certify_holder(holder, request, now_us)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int) -> None:
        """Start to serve; raise OSError if the address is not available."""
        context = self._context()
        self._server = await asyncio.start_server(self._accept, host, port, ssl=context, limit=REQUEST_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks = [asyncio.create_task(self._issue()), asyncio.create_task(self._write_tallies())]

    async def stop(self) -> None:
        """Refuse new connections, and finish the present slice."""
        if self._server is not None:
            self._server.close()
        for task in [*self._connections, *self._tasks]:
            task.cancel()
        await asyncio.gather(*self._connections, *self._tasks, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        self._write(self._tallies.take(self._now_us()))

    # --- one connection -----------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, caller = asyncio.current_task(), _caller(writer)
        assert task is not None
        if self._open[caller.key] >= CONNECTIONS_PER_CALLER_MAX or not self._has_room():
            writer.close()
            return
        self._connections[task] = caller
        self._open[caller.key] += 1
        try:
            await self._serve(caller, reader, writer)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass  # it disconnected, sent nothing for too long, or sent too long a line
        except asyncio.CancelledError:
            pass  # the server stops, or the connection gives way
        finally:
            del self._connections[task]
            self._open[caller.key] -= 1
            self._open += Counter()  # drops callers without a connection
            writer.close()

    def _has_room(self) -> bool:
        """Return whether there is room for a connection. If needed, end the oldest one without a certificate."""
        if len(self._connections) < CONNECTIONS_MAX:
            return True
        stranger = next((task for task, caller in self._connections.items() if not caller.holder), None)
        return stranger is not None and stranger.cancel()

    async def _serve(self, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            async with asyncio.timeout(SILENCE_S):
                line = await reader.readline()
            if not line.endswith(b"\n"):
                return
            refusal = self._admission.admit(caller, self._now_us())
            writer.write(await self._answer(caller, line, writer) if refusal is None else self._refuse(caller, refusal))
            async with asyncio.timeout(SILENCE_S):
                await writer.drain()
            if refusal is not None:
                await asyncio.sleep(REFUSED_PAUSE_S)

    async def _answer(self, caller: Caller, line: bytes, writer: asyncio.StreamWriter) -> bytes:
        steps = self._handler.answer(caller, line, self._now_us(), self._randomness)
        job = _Job(caller, steps, writer.is_closing)
        if not self._turns.add(caller.key, job):
            hint = "try again, or another replica"
            return self._refuse(caller, Refusal("busy", "too many requests wait", hint=hint))
        self._waiting.set()
        return await job.answered

    def _refuse(self, caller: Caller, refusal: Refusal) -> bytes:
        self._tallies.add(Record(self._now_us(), caller, "nothing", refusal.code))
        return reply_line(refusal)

    # --- issuing ------------------------------------------------------------------------------------------------------

    async def _issue(self) -> None:
        """Run slices in the issuing thread, one at a time, for as long as there are jobs."""
        loop = asyncio.get_running_loop()
        while True:
            while (found := self._turns.take()) is not None:
                caller, job = found
                if job.gone():  # nobody reads the answer
                    self._turns.finish(caller)
                    self._tallies.add(Record(self._now_us(), job.caller, "nothing", "abandoned"))
                    job.answered.cancel()
                    continue
                answer = await loop.run_in_executor(self._thread, self._slice, job)
                if answer is not None:
                    self._turns.finish(caller)
                    job.answer(answer)
                    if answer.record.counted:
                        self._tallies.add(answer.record)
            self._waiting.clear()
            await self._waiting.wait()

    def _slice(self, job: _Job) -> Answer | None:
        """Run one slice, in the issuing thread. The record of the answer is on disk when it returns."""
        try:
            self._handler.use(self._directory.decisions())
            answer = job.slice()
            if answer is not None and not answer.record.counted:
                self._directory.audit(answer.record.line())
            return answer
        except Exception as error:  # a defect in the answer to one caller must not stop the others
            expected = isinstance(error, SealError | OSError)
            log.error("nothing is issued: %s", error, exc_info=None if expected else error)
            refusal = Refusal("busy", "the key server cannot issue now", hint="its log has the reason")
            return Answer(reply_line(refusal), Record(self._now_us(), job.caller, "nothing", "failed", counted=True))

    async def _write_tallies(self) -> None:
        while True:
            await asyncio.sleep(TALLY_S)
            lines = self._tallies.take(self._now_us())
            await asyncio.get_running_loop().run_in_executor(self._thread, self._write, lines)

    def _write(self, lines: Sequence[Json]) -> None:
        try:
            self._directory.audit(*lines)
        except (SealError, OSError) as error:
            log.error("the audit log is not written: %s", error)

    def _context(self) -> ssl.SSLContext:
        """Return a TLS context with a new certificate, whose key is never on disk in the clear."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=self._secrets.authority.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL  # an enrolling holder has none yet
        key, certificate = self._secrets.authority.certify_service(self._hosts, self._now_us())
        load_pair(context, key, certificate)
        return context


def _caller(writer: asyncio.StreamWriter) -> Caller:
    """Identify the caller by its certificate, which TLS has verified. This authority wrote the name in it."""
    address = str((writer.get_extra_info("peername") or ("",))[0])
    certificate = writer.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    if len(names) != 1:
        return Caller(address)
    return Caller(address, names[0], f"{int(certificate['serialNumber'], 16):x}")
