"""The key server's process: TLS, one thread that issues, an audit line on disk before any answer goes out.

All decisions are the desk's. A policy that cannot be read lets nobody have anything until it can be.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from plait_core import Randomness
from plait_crypto import Authority, SealError
from plait_crypto.keyserver import Caller, Record, Refusal, RequestHandler, reply_line
from plait_crypto.keyserver.limits import REQUEST_BYTES_MAX

from .directory import KeyDirectory, Secrets

CONNECTIONS_MAX: Final = 512
"""At once: each holds a TLS session and at most one request."""

PENDING_MAX: Final = 64
"""Requests that wait for the issuing thread; those beyond are told to come again. A long one takes a second."""

SILENCE_S: Final = 30.0
"""A connection that asks nothing for so long is closed."""

log: Final = logging.getLogger(__name__)


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
        policy, revoked = directory.decisions()
        self._desk = RequestHandler(Authority(secrets.realm, secrets.master), self, policy, revoked)
        self._thread = ThreadPoolExecutor(1, "plait-keyserver")
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._pending = 0
        self.port = 0

    # --- what the desk asks for: in the issuing thread ----------------------------------------------------------------

    def redeem(self, token: str, now_us: int) -> str | None:
        """See Registry."""
        return self._directory.redeem(token, now_us)

    def certify(self, holder: str, request: str, now_us: int) -> str:
        """See Registry."""
        return self._secrets.authority.certify_holder(holder, request, now_us)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int) -> None:
        """Serve; OSError when the address cannot be had."""
        context = self._context()
        self._server = await asyncio.start_server(self._accept, host, port, ssl=context, limit=REQUEST_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Take no more, finish what was begun."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    # --- one connection -----------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass  # it went away, said nothing, or said too much at once
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = _caller(writer)
        while True:
            async with asyncio.timeout(SILENCE_S):
                line = await reader.readline()
            if not line.endswith(b"\n"):
                return
            writer.write(await self._answer(caller, line))
            async with asyncio.timeout(SILENCE_S):
                await writer.drain()

    async def _answer(self, caller: Caller, line: bytes) -> bytes:
        if self._pending >= PENDING_MAX:
            return reply_line(Refusal("busy", "too many requests wait", hint="ask again, or another replica"))
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._decide, caller, line)
        finally:
            self._pending -= 1

    def _decide(self, caller: Caller, line: bytes) -> bytes:
        """In the issuing thread."""
        now_us = self._now_us()
        try:
            self._desk.use(*self._directory.decisions())
            reply, record = self._desk.answer(caller, line, now_us, self._randomness)
        except (SealError, OSError) as error:
            log.error("nothing is issued: %s", error)
            reply = reply_line(Refusal("busy", "the key server cannot issue now", hint="its log says why"))
            record = Record(now_us, caller.address, caller.holder, "", "failed", {"why": str(error)[:200]})
        self._directory.audit(record.line())
        return reply

    def _context(self) -> ssl.SSLContext:
        """Its own certificate is new each time, its key never on disk in the clear."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=self._secrets.authority.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL  # who enrols has none yet
        key, certificate = self._secrets.authority.certify_service(self._hosts, self._now_us())
        load_pair(context, key, certificate)
        return context


def load_pair(context: ssl.SSLContext, key: str, certificate: str) -> None:
    """Use a key and its certificate. The library reads files alone: this one has no name when it has been read."""
    descriptor, name = tempfile.mkstemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)  # noqa: S108 - memory
    try:
        with open(descriptor, "w") as file:  # mkstemp lets nobody else read it
            file.write(key + certificate)
        context.load_cert_chain(name)
    finally:
        os.unlink(name)


def _caller(writer: asyncio.StreamWriter) -> Caller:
    """By its certificate, which TLS has checked; its name is what this authority wrote into it."""
    address = str((writer.get_extra_info("peername") or ("",))[0])
    subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
    names = [value for part in subject for name, value in part if name == "commonName"]
    return Caller(address, names[0] if len(names) == 1 else "")
