"""Tests the tags of sealed events in a few threads; each pairing releases the interpreter."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import local
from typing import Final

from ..outputs import Probe, Probed
from ..pipeline.tag_test_worker import UNTESTED, TagTestWorker, available

THREADS: Final = max(1, min(4, (os.cpu_count() or 1) - 1))
"""One processor is left to the loop."""

SWITCH_S: Final = 0.0005
"""Switch interval of the interpreter: the loop waits at most this long for it, instead of Python's 5 ms per call."""

log: Final = logging.getLogger(__name__)


class TagTestPool:
    """The threads of one broker, started by the first test."""

    def __init__(self, answer: Callable[[int, Probed | None], None]) -> None:
        """`answer` is called in a thread."""
        self._answer = answer
        self._threads: ThreadPoolExecutor | None = None
        self._thread_local = local()

    def test(self, probe: Probe) -> None:
        """Run a test; the broker limits how many run at once."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "plait-tags")
            sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
        self._threads.submit(self._test, probe).add_done_callback(partial(self._tested, probe))

    def close(self) -> None:
        """Cancel tests that have not started."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def _test(self, probe: Probe) -> Probed | None:
        tester: TagTestWorker | None = getattr(self._thread_local, "tester", None)
        if tester is None:
            tester = self._thread_local.tester = TagTestWorker()
            if not available():
                log.warning("tags of sealed events are not tested here: pip install 'plait-broker[sealed]'")
        return tester.answer(probe)

    def _tested(self, probe: Probe, running: Future[Probed | None]) -> None:
        if running.cancelled():
            return
        if (error := running.exception()) is not None:
            log.error("internal error: please report this; the tags of an event were not tested", exc_info=error)
        self._answer(probe.ticket, UNTESTED if error is not None else running.result())
