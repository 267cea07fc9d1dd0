"""Telemetry in a running process: samples on the loop and a writer thread, from start to stop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Protocol

from plait_core.errors import PlaitError
from plait_core.values import Json

from .readers import Readers
from .telemetry import SAMPLE_S, Telemetry, TelemetrySettings
from .writer import SegmentLimits, SegmentWriter, TelemetryWriter


class TelemetryError(PlaitError):
    """Records cannot be written to the configured directory."""


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """The directory for records, how many are recorded, and how long they are kept."""

    directory: Path
    settings: TelemetrySettings = field(default_factory=TelemetrySettings)
    limits: SegmentLimits = field(default_factory=SegmentLimits)


class Sampling(Protocol):
    """State that is recorded once a second, not with events."""

    def sample(self, now: float, elapsed_s: float, lost: int) -> None:
        """Record the current state. `lost`: records made but never written, so far."""


class Recording:
    """The telemetry of a broker or of a process of peers, while it runs."""

    def __init__(
        self,
        broker: int,
        folder: str,
        telemetry: Telemetry,
        sampler: Sampling,
        config: TelemetryConfig,
        started_us: int,
    ) -> None:
        """`broker` is the id of the recording broker; `folder` is its folder in the configured directory.

        A name in `folder` has a prefix, because a name may be two dots.
        """
        self.broker = broker
        self.directory = config.directory / folder
        self.readers = Readers(self.directory)
        self._telemetry = telemetry
        self._segments = SegmentWriter(self.directory, broker, started_us, config.limits, self.readers)
        self._writer = TelemetryWriter(telemetry, self._segments)
        self._sampler = sampler
        self._sampled_at = monotonic()
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Record from now on; raise TelemetryError if the directory cannot be written."""
        try:
            self._writer.start()
        except OSError as error:
            raise TelemetryError(
                f"telemetry cannot be written to {self.directory}: {error.strerror}",
                hint="give a directory that this user may write to",
            ) from None
        self._sample()

    async def stop(self) -> None:
        """Sample once more, and write everything. This waits for the disk, which may take a while."""
        if self._timer is not None:
            self._timer.cancel()
        self._record_sample(monotonic())
        with ThreadPoolExecutor(1, "plait-telemetry-closer") as thread:
            await asyncio.get_running_loop().run_in_executor(thread, self._writer.stop)

    def facts(self) -> Json:
        """Return the state of telemetry, for status reports."""
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
        self._record_sample(monotonic())
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_S, self._sample)

    def _record_sample(self, now: float) -> None:
        elapsed_s = max(now - self._sampled_at, SAMPLE_S / 10)  # the first sample comes at once
        self._sampled_at = now
        self._sampler.sample(now, elapsed_s, self._lost)
