"""The key server's process: TLS, one issuing thread, and an audit line on disk before any reply is sent.

The request handler makes all decisions. While the policy cannot be read, nothing is issued.
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
"""Open connections: each holds a TLS session and at most one request."""

PENDING_MAX: Final = 64
"""Requests that wait for the issuing thread; further ones are refused as busy. A long one takes a second."""

SILENCE_S: Final = 30.0
"""A connection without a request for so long is closed."""

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
        self._handler = RequestHandler(Authority(secrets.realm, secrets.master), self, policy, revoked)
        self._thread = ThreadPoolExecutor(1, "plait-keyserver")
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._pending = 0
        self.port = 0

    # --- the handler's Registry, called in the issuing thread ---------------------------------------------------------

    def redeem(self, token: str, now_us: int) -> str | None:
        """See Registry."""
        return self._directory.redeem(token, now_us)

    def certify(self, holder: str, request: str, now_us: int) -> str:
        """See Registry."""
        return self._secrets.authority.certify_holder(holder, request, now_us)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int) -> None:
        """Start to serve; raise OSError if the address is not available."""
        context = self._context()
        self._server = await asyncio.start_server(self._accept, host, port, ssl=context, limit=REQUEST_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse new connections, and finish begun requests."""
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
            pass  # it disconnected, sent nothing for too long, or sent too long a line
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
            return reply_line(Refusal("busy", "too many requests wait", hint="try again, or another replica"))
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._decide, caller, line)
        finally:
            self._pending -= 1

    def _decide(self, caller: Caller, line: bytes) -> bytes:
        """Decide a request, in the issuing thread."""
        now_us = self._now_us()
        try:
            self._handler.use(*self._directory.decisions())
            reply, record = self._handler.answer(caller, line, now_us, self._randomness)
        except (SealError, OSError) as error:
            log.error("nothing is issued: %s", error)
            reply = reply_line(Refusal("busy", "the key server cannot issue now", hint="its log has the reason"))
            record = Record(now_us, caller.address, caller.holder, "", "failed", {"why": str(error)[:200]})
        self._directory.audit(record.line())
        return reply

    def _context(self) -> ssl.SSLContext:
        """Return a TLS context with a new certificate, whose key is never on disk in the clear."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=self._secrets.authority.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL  # an enrolling holder has none yet
        key, certificate = self._secrets.authority.certify_service(self._hosts, self._now_us())
        load_pair(context, key, certificate)
        return context


def load_pair(context: ssl.SSLContext, key: str, certificate: str) -> None:
    """Load a key and its certificate. The library reads only files; this one is deleted after reading."""
    descriptor, name = tempfile.mkstemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)  # noqa: S108 - memory
    try:
        with open(descriptor, "w") as file:  # mkstemp makes it readable by this user alone
            file.write(key + certificate)
        context.load_cert_chain(name)
    finally:
        os.unlink(name)


def _caller(writer: asyncio.StreamWriter) -> Caller:
    """Identify the caller by its certificate, which TLS has verified. This authority wrote the name in it."""
    address = str((writer.get_extra_info("peername") or ("",))[0])
    subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
    names = [value for part in subject for name, value in part if name == "commonName"]
    return Caller(address, names[0] if len(names) == 1 else "")
