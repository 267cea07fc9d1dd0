"""Telemetry in a running broker: what samples on the loop and writes in a thread, from start to stop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Final

from plait_core.errors import PlaitError

from ..broker import Broker
from ..face.telemetry_section import TelemetryPlace
from .readers import Readers
from .sampling import SAMPLE_S, Sampler
from .writer import SegmentWriter, TelemetryWriter

DIRECTORY_PREFIX: Final = "broker-"
"""Before a broker's name, which may be two dots."""


class TelemetryError(PlaitError):
    """Records cannot be written where they are to go."""


class TelemetryFace:
    """One broker's telemetry, while it runs."""

    def __init__(self, broker: Broker, place: TelemetryPlace, started_us: int) -> None:
        self._broker = broker
        self._telemetry = broker.observe(place.settings)
        self.broker = broker.id
        self.directory = place.directory / f"{DIRECTORY_PREFIX}{broker.settings.name}"
        self.readers = Readers(self.directory)
        self._segments = SegmentWriter(self.directory, broker.id, started_us, place.limits, self.readers)
        self._writer = TelemetryWriter(self._telemetry, self._segments)
        self._sampler = Sampler(broker, self._telemetry)
        self._sampled_at = monotonic()
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Record from now on; TelemetryError when it cannot."""
        try:
            self._writer.start()
        except OSError as error:
            raise TelemetryError(
                f"telemetry cannot be written to {self.directory}: {error.strerror}",
                hint="give a directory that this user may write to",
            ) from None
        self._sample()

    async def stop(self) -> None:
        """Sample once more, and write everything. It waits for the disk, which may take its time."""
        if self._timer is not None:
            self._timer.cancel()
        self._look(monotonic())
        with ThreadPoolExecutor(1, "plait-telemetry-closer") as thread:
            await asyncio.get_running_loop().run_in_executor(thread, self._writer.stop)

    def facts(self) -> dict[str, Any]:
        """For those who ask how it goes."""
        ring = self._telemetry.ring
        return {
            "directory": str(self.directory),
            "records": ring.written,
            "lost": self._lost,
            "names_lost": self._telemetry.names_lost,
            "weight": self._telemetry.weight,
            "failing": self._writer.failing,
            "unread_deleted": self.readers.unread_deleted,
        }

    @property
    def _lost(self) -> int:
        return self._telemetry.ring.lost + self._writer.lost

    def _sample(self) -> None:
        self._look(monotonic())
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_S, self._sample)

    def _look(self, now: float) -> None:
        elapsed_s = max(now - self._sampled_at, SAMPLE_S / 10)  # the first comes at once
        self._sampled_at = now
        self._sampler.sample(now, elapsed_s, self._lost)
