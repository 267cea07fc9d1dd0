"""Sealed events are routed by their tags: a subscription with routing tokens gets an event only if they fit the tags.

This is a part of the step *match*, after the filters have matched the attributes that are not encrypted. A test takes a
pairing for each credential, so it runs outside the loop, as an output. Meanwhile the event waits, and with it the later
events of the same publisher (or broker), in order. All events of one sealing session share an opening, and its results
are cached, so that steady traffic does not wait.

An event that is not tested in time passes. That costs traffic and loses nothing: readers check tags by themselves.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from plait_core.errors import FrameError
from plait_core.sealed_opening import SEALED, Fit, opening_of
from plait_core.wire import EventFrame, Publish

from ..clients.sessions import Session
from ..outputs import Probe
from ..overlay import ReceivedEvent

TESTS_PENDING_MAX: Final = 64
"""Openings under test at once: enough for every thread, and few enough that none waits long for its turn."""

TESTS_AHEAD: Final = 4
"""Openings of one publisher under test at once: sessions that begin together are tested together, and a publisher that
begins one with each event leaves threads for others."""

TEST_S: Final = 2.0
"""An event goes on untested after this time: it has a thousand credentials, or the machine is overloaded."""

SESSIONS_KEPT: Final = 4096
"""Openings whose results are cached: one for each publisher and vector of credentials in use."""

OUTCOMES_KEPT: Final = 1024
"""Cached results of one opening; further subscriptions are tested again."""

HELD_EVENTS_MAX: Final = 65_536
HELD_BYTES_MAX: Final = 32 << 20
"""Events that wait at one broker, as for advertisements (`advertisement_gate.py`)."""

Line: TypeAlias = tuple[str, int]
"""Source whose events keep their order: a client's session, or another broker."""


class WaitingPublish(NamedTuple):
    """An event of a client that waits for the tests of its tags."""

    session: Session
    frame: Publish
    waited_us: int
    """Time for which it had waited before."""
    since: float


WaitingEvent: TypeAlias = WaitingPublish | ReceivedEvent
"""An event of a client or of another broker that waits."""

T = TypeVar("T")

OUTCOMES: Final = ("tests", "fits", "other", "unknown", "untested")
"""Keys of the counter: tests that ran; deposits that fitted, did not fit or had no result; events that were not tested
in time."""

_NOTHING: Final[Mapping[bytes, Fit]] = {}
_MALFORMED: Final = b""
"""Stands for the opening of an event that is marked as sealed and has none."""


class TagVerdict:
    """The known results of one sealed event's tags: calling it tells whether a deposit fits, or may fit."""

    __slots__ = ("_counts", "_known", "malformed")

    def __init__(self, known: Mapping[bytes, Fit] | None, counts: Counter[str]) -> None:
        self._known = known
        self._counts = counts
        self.malformed = known is None

    def __call__(self, deposit: bytes) -> bool:
        if self._known is None:
            return False
        fit = self._known.get(deposit, Fit.UNDECIDED)
        self._counts[fit.value] += 1
        return fit is not Fit.OTHER


@dataclass(slots=True, eq=False)
class _Waiting(Generic[T]):
    item: T
    size: int
    opening: bytes
    name: bytes
    asked: tuple[bytes, ...]
    by: float
    released: bool = False


@dataclass(slots=True, eq=False)
class _Queue(Generic[T]):
    waiting: deque[_Waiting[T]] = field(default_factory=deque)
    unstarted: deque[_Waiting[T]] = field(default_factory=deque)
    running: int = 0


class TagMatcher(Generic[T]):
    """Cached results, running tests, and the events that wait for them."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._outcomes: OrderedDict[bytes, dict[bytes, Fit] | None] = OrderedDict()
        """By name of an opening, the result of each deposit; None if it is malformed."""
        self._queues: dict[Line, _Queue[T]] = {}
        self._turns: OrderedDict[Line, None] = OrderedDict()
        """Lines with a test to start, in turn."""
        self._tests: dict[int, tuple[Line, bytes, tuple[bytes, ...]]] = {}
        self._under_test: Counter[tuple[bytes, bytes]] = Counter()
        self.to_ask: list[Probe] = []
        self._tickets = 0
        self.waits = 0
        """Number of events that wait."""
        self._bytes = 0
        self._last = (b"", b"")

    @property
    def full(self) -> bool:
        """Whether no more events may wait."""
        return self.waits >= HELD_EVENTS_MAX or self._bytes >= HELD_BYTES_MAX

    # --- events -------------------------------------------------------------------------------------------------------

    def judge(self, frame: EventFrame) -> TagVerdict | None:
        """Return the known results of an event's tags. None: it is not sealed."""
        opening = _opening(frame)
        if opening is None:
            return None
        if not opening:
            return TagVerdict(None, self._counts)
        name = self._name(opening)
        return TagVerdict(self._outcomes.get(name, _NOTHING), self._counts)

    def hold(
        self, line: Line, frame: EventFrame, item: T, asking: Callable[[EventFrame], Sequence[bytes]], now: float
    ) -> bool:
        """Hold an event whose tags are not tested, or that follows one in its line. Return False if it need not wait.
        `asking`: returns the deposits that it may be for."""
        opening = _opening(frame)
        queue = self._queues.get(line)
        unknown: tuple[bytes, ...] = ()
        name = b""
        if opening:
            name = self._name(opening)
            known = self._outcomes.get(name, _NOTHING)
            if known is not None:
                unknown = tuple(dict.fromkeys(each for each in asking(frame) if each not in known))
        if not unknown and (queue is None or not queue.waiting):
            return False
        if queue is None:
            queue = self._queues[line] = _Queue()
        waiting = _Waiting(item, len(frame.block), opening or b"", name, unknown, now + TEST_S)
        queue.waiting.append(waiting)
        self.waits += 1
        self._bytes += waiting.size
        if any(not self._under_test[name, each] for each in unknown):
            queue.unstarted.append(waiting)
            self._turns[line] = None
            self._start()
        return True

    def release(self, line: Line) -> None:
        """Release every event of one line untested, since there is no room for more."""
        for waiting in self._queues[line].waiting if line in self._queues else ():
            waiting.by = 0.0

    def take(self, now: float) -> list[T]:
        """Return the events that need not wait any more, each line in its order."""
        free: list[T] = []
        for line, queue in list(self._queues.items()):
            waiting = queue.waiting
            while waiting and self._settled(waiting[0], now):
                done = waiting.popleft()
                done.released = True
                free.append(done.item)
                self.waits -= 1
                self._bytes -= done.size
            if not waiting and not queue.running:
                del self._queues[line]
                self._turns.pop(line, None)
        return free

    def next_deadline(self) -> float | None:
        """Return when the first event has waited long enough."""
        return min((queue.waiting[0].by for queue in self._queues.values() if queue.waiting), default=None)

    # --- tests --------------------------------------------------------------------------------------------------------

    def take_probes(self) -> list[Probe]:
        """Return the tests to run."""
        asked, self.to_ask = self.to_ask, []
        return asked

    def probed(self, ticket: int, fits: Sequence[Fit] | None) -> None:
        """Take the result of a test: a Fit for each of its deposits, or None for a malformed opening."""
        line, name, deposits = self._tests.pop(ticket)
        for each in deposits:
            self._under_test[name, each] -= 1
            if not self._under_test[name, each]:
                del self._under_test[name, each]
        self._counts["tests"] += 1
        known = None if fits is None else (self._outcomes.get(name) or {})
        if known is not None and fits is not None:
            known.update(zip(deposits, fits, strict=True))
            for old in list(known)[: max(0, len(known) - OUTCOMES_KEPT)]:
                del known[old]
        self._outcomes[name] = known
        self._outcomes.move_to_end(name)
        if len(self._outcomes) > SESSIONS_KEPT:
            self._outcomes.popitem(last=False)
        queue = self._queues[line]
        queue.running -= 1
        if queue.unstarted:
            self._turns[line] = None
        self._start()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start tests, of each line in turn."""
        while self._turns and len(self._tests) < TESTS_PENDING_MAX:
            line, _ = self._turns.popitem(last=False)
            queue = self._queues[line]
            if queue.unstarted and queue.running < TESTS_AHEAD:
                self._start_test(line, queue, queue.unstarted.popleft())
                if queue.unstarted:
                    self._turns[line] = None

    def _start_test(self, line: Line, queue: _Queue[T], waiting: _Waiting[T]) -> None:
        name = waiting.name
        known = self._outcomes.get(name, _NOTHING)
        if known is None or waiting.released:
            return
        deposits = tuple(each for each in waiting.asked if each not in known and not self._under_test[name, each])
        if not deposits:
            return
        self._tickets += 1
        self._tests[self._tickets] = (line, name, deposits)
        self._under_test.update((name, each) for each in deposits)
        queue.running += 1
        self.to_ask.append(Probe(self._tickets, waiting.opening, deposits))

    def _settled(self, waiting: _Waiting[T], now: float) -> bool:
        if not waiting.asked:
            return True
        known = self._outcomes.get(waiting.name, _NOTHING)
        if known is None or all([each in known for each in waiting.asked]):
            return True
        if now < waiting.by:
            return False
        self._counts["untested"] += 1
        return True

    def _name(self, opening: bytes) -> bytes:
        """Return the digest of an opening; events in a row mostly share one."""
        if self._last[0] != opening:
            self._last = (opening, sha256(opening).digest())
        return self._last[1]


def _opening(frame: EventFrame) -> bytes | None:
    """Return a sealed event's opening, or _MALFORMED if it has none. None: the event is not sealed."""
    try:
        sealed = SEALED in frame.attributes()
    except FrameError:
        return None
    return (opening_of(frame.payload) or _MALFORMED) if sealed else None
