"""Tags of sealed events are tested in a few threads of their own, which let go of the interpreter in every pairing."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import local
from typing import Final

from plait_core.sealed_opening import Fit

from ..outputs import Probe
from ..pipeline.tag_test_worker import TagTestWorker, available

THREADS: Final = max(1, min(4, (os.cpu_count() or 1) - 1))
"""One processor is the loop's."""

SWITCH_S: Final = 0.0005
"""The loop is given the interpreter back within this, where Python's own 5 ms would count for each call of a turn."""

log: Final = logging.getLogger(__name__)


class TagTestPool:
    """The threads of one broker, which begin when there is something to test."""

    def __init__(self, answer: Callable[[int, Sequence[Fit] | None], None]) -> None:
        """`answer` is called in a thread."""
        self._answer = answer
        self._threads: ThreadPoolExecutor | None = None
        self._own = local()

    def test(self, probe: Probe) -> None:
        """Carry it out: the broker bounds how many there are at once."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "plait-tags")
            sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
        self._threads.submit(self._test, probe).add_done_callback(partial(self._tested, probe))

    def close(self) -> None:
        """Test nothing more."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def _test(self, probe: Probe) -> Sequence[Fit] | None:
        prober: TagTestWorker | None = getattr(self._own, "prober", None)
        if prober is None:
            prober = self._own.prober = TagTestWorker()
            if not available():
                log.warning("tags of sealed events are not tested here: pip install 'plait-broker[sealed]'")
        return prober.fits(probe)

    def _tested(self, probe: Probe, running: Future[Sequence[Fit] | None]) -> None:
        if running.cancelled():
            return
        if (error := running.exception()) is not None:
            log.error("internal error: please report this; an event's tags are not tested", exc_info=error)
        fits = [Fit.UNDECIDED] * len(probe.deposits) if error is not None else running.result()
        self._answer(probe.ticket, fits)
