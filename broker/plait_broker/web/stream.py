"""Server-sent events: a snapshot of the broker to whoever comes, then what changed, twice a second at most.

One sample is taken for all who watch, while anyone does. Each is sent the difference between the newest sample and the
one that it was sent before, so a slow one skips samples and nothing queues.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeAlias

STREAMS_MAX: Final = 64
"""Dashboards open at once."""

INTERVAL_S: Final = 0.5

SILENCE_S: Final = 15.0
"""After which a comment is sent: proxies commonly cut connections that are idle for 30 to 60 s."""

Sample: TypeAlias = dict[str, dict[str, Any]]
"""Sections, each of keys and values."""


class Feed:
    """Samples for all streams."""

    def __init__(self, sample: Callable[[], Sample]) -> None:
        self._sample = sample
        self._latest: Sample = {}
        self._next = asyncio.Event()
        self._streams = 0
        self._sampling: asyncio.Task[None] | None = None
        self.closed = False

    @property
    def full(self) -> bool:
        """Whether no more streams are taken."""
        return self._streams >= STREAMS_MAX or self.closed

    async def stream(self) -> AsyncIterator[str]:
        """Server-sent events until the watcher leaves or the feed is closed."""
        assert not self.full, "ask first"
        self._streams += 1
        try:
            if self._sampling is None or self._sampling.done():
                self._latest = self._sample()
                self._sampling = asyncio.get_running_loop().create_task(self._keep_sampling())
            sent, silent_s = self._latest, 0.0
            yield f"retry: 2000\n{_message('snapshot', sent)}"
            while not self.closed:
                await self._next.wait()
                changed, sent = difference(sent, self._latest), self._latest
                silent_s = 0.0 if changed else silent_s + INTERVAL_S
                if changed:
                    yield _message("delta", changed)
                elif silent_s >= SILENCE_S:
                    silent_s = 0.0
                    yield ": still here\n\n"
        finally:
            self._streams -= 1

    async def close(self) -> None:
        """End all streams."""
        self.closed = True
        self._next.set()
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)

    async def _keep_sampling(self) -> None:
        while self._streams:
            await asyncio.sleep(INTERVAL_S)
            self._latest = self._sample()
            waiting, self._next = self._next, asyncio.Event()
            waiting.set()


def difference(before: Sample, after: Sample) -> Sample:
    """What to set so that `before` becomes `after`, section by section; null takes a key away."""
    changed: Sample = {}
    for section in before.keys() | after.keys():
        old, new = before.get(section, {}), after.get(section, {})
        keys = {key: value for key, value in new.items() if key not in old or old[key] != value}
        keys |= {key: None for key in old.keys() - new.keys()}
        if keys:
            changed[section] = keys
    return changed


def _message(kind: str, data: Sample) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
