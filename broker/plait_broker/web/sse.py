"""Server-sent events: a snapshot for each new stream, then the changes, twice a second at most.

One sample is taken for all streams while at least one is open, and its difference to the previous sample is encoded
once for all. A slow stream skips samples and receives the difference to the last one that it was sent, so nothing
queues.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any, Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

STREAMS_MAX: Final = 64
"""Streams open at once."""

INTERVAL_S: Final = 0.5

SILENCE_S: Final = 15.0
"""Time after which a comment is sent: proxies commonly close connections that are idle for 30 to 60 s."""

Sample: TypeAlias = dict[str, dict[str, Any]]
"""Sections, each a mapping of keys to values."""


class Feed:
    """Takes samples for all streams."""

    def __init__(self, sample: Callable[[], Sample], *, linger_s: float = 0.0) -> None:
        """`linger_s`: time for which sampling continues after the last stream, so that a page that reloads keeps its
        history."""
        self._sample = sample
        self._linger_s = linger_s
        self._sample_until = 0.0
        self._latest: Sample = {}
        self._previous: Sample = {}
        self._encoded: dict[str, str] = {}
        """Messages already encoded of the latest sample, by kind."""
        self._next = asyncio.Event()
        self._streams = 0
        self._sampling: asyncio.Task[None] | None = None
        self.closed = False

    @property
    def full(self) -> bool:
        """Whether no more streams are accepted."""
        return self._streams >= STREAMS_MAX or self.closed

    def current(self) -> Sample:
        """Return the latest sample once. Sampling continues for `linger_s`, so a repeated request returns a fresh
        one."""
        self._sample_until = max(self._sample_until, monotonic() + self._linger_s)
        self._begin()
        return self._latest

    async def stream(self) -> AsyncIterator[str]:
        """Yield server-sent events until the client leaves or the feed is closed."""
        assert not self.full, "the caller checks `full`"
        self._streams += 1
        try:
            self._begin()
            sent, silent_s = self._latest, 0.0
            yield f"retry: 2000\n{self._message('snapshot', {})}"
            while not self.closed:
                await self._next.wait()
                message, sent = self._message("delta", sent), self._latest
                silent_s = 0.0 if message else silent_s + INTERVAL_S
                if message:
                    yield message
                elif silent_s >= SILENCE_S:
                    silent_s = 0.0
                    yield ": still here\n\n"
        finally:
            self._streams -= 1
            self._sample_until = max(self._sample_until, monotonic() + self._linger_s)

    async def close(self) -> None:
        """End all streams."""
        self.closed = True
        self._next.set()
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)

    def _begin(self) -> None:
        if not self.closed and (self._sampling is None or self._sampling.done()):
            self._take()
            self._sampling = asyncio.get_running_loop().create_task(self._keep_sampling())

    def _take(self) -> None:
        self._previous, self._latest = self._latest, self._sample()
        self._encoded = {}

    def _message(self, kind: str, sent: Sample) -> str:
        """Encode what a stream needs that was last sent this sample; empty if nothing changed. Nearly all streams share
        it."""
        if kind == "delta" and sent is not self._previous:
            changed = difference(sent, self._latest)
            return _message(kind, changed) if changed else ""
        if kind not in self._encoded:
            content = self._latest if kind == "snapshot" else difference(sent, self._latest)
            self._encoded[kind] = _message(kind, content) if content or kind == "snapshot" else ""
        return self._encoded[kind]

    async def _keep_sampling(self) -> None:
        while self._streams or monotonic() < self._sample_until:
            await asyncio.sleep(INTERVAL_S)
            self._take()
            waiting, self._next = self._next, asyncio.Event()
            waiting.set()


def streamed(feed: Feed) -> StreamingResponse:
    """Return the response of a new stream."""
    if feed.full:
        raise HTTPException(503, "too many streams are open", {"retry-after": "5"})
    return StreamingResponse(feed.stream(), media_type="text/event-stream")


def difference(before: Sample, after: Sample) -> Sample:
    """Return the changes from `before` to `after`, section by section, with None for deleted keys."""
    changed: Sample = {}
    for section in before.keys() | after.keys():
        old, new = before.get(section, {}), after.get(section, {})
        keys = {
            key: value for key, value in new.items() if key not in old or (old[key] is not value and old[key] != value)
        }
        keys |= {key: None for key in old.keys() - new.keys()}
        if keys:
            changed[section] = keys
    return changed


def _message(kind: str, data: Sample) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
