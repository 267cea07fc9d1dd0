"""Sealed events are routed by their tags: of the filters that match what is in the clear, those that came with routing
keys get an event only if the keys fit its tags. A step of *match*, for those events alone.

Testing takes a pairing for each credential, so it is asked for as an output, outside the loop. Meanwhile the event
waits, and with it what comes after it from the same publisher (or the same broker), in its order; nobody else does. All
events of a session of sealing have one opening, and what came of that is kept: steady traffic waits for nothing.

What is not known in time passes: that costs traffic, never an event, since readers decide by themselves.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Generic, TypeAlias, TypeVar

from plait_core.errors import FrameError
from plait_core.sealed_opening import SEALED, Fit, opening_of
from plait_core.wire import EventFrame

from ..outputs import Probe

TESTS_PENDING_MAX: Final = 64
"""Openings under test at once: some that wait for each thread that tests, and no more, so that nobody's wait long."""

TESTS_AHEAD: Final = 4
"""Of one publisher's: sessions that begin together are tested together, and whoever begins one with each event does not
keep the threads from others."""

TEST_S: Final = 2.0
"""What is not tested by then goes on untested: a thousand credentials, or a machine that is overloaded."""

SESSIONS_KEPT: Final = 4096
"""Openings of which the outcome is kept: one for each publisher and vector of credentials in use."""

OUTCOMES_KEPT: Final = 1024
"""Of one opening: deposits with an outcome; those of further subscriptions are tested again."""

HELD_EVENTS_MAX: Final = 65_536
HELD_BYTES_MAX: Final = 32 << 20
"""What waits at one broker, as for advertisements (`advertisement_gate.py`)."""

Line: TypeAlias = tuple[str, int]
"""Whose events keep their order: a client's session, or another broker's."""

T = TypeVar("T")

OUTCOMES: Final = ("tests", "fits", "other", "untold", "untested")
"""What is counted: tests that ran, deposits that fitted, did not, or said nothing of an event, and events that waited
too long for it."""

_NOTHING: Final[Mapping[bytes, Fit]] = {}
_MALFORMED: Final = b""
"""In place of an opening, for an event that says that it is sealed and has none."""


class TagVerdict:
    """What is known of one sealed event's tags: whether they fit a deposit, or may."""

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
    gone: bool = False


@dataclass(slots=True, eq=False)
class _Queue(Generic[T]):
    waiting: deque[_Waiting[T]] = field(default_factory=deque)
    unstarted: deque[_Waiting[T]] = field(default_factory=deque)
    running: int = 0


class TagMatcher(Generic[T]):
    """Outcomes that are known, tests that run, and events that wait for them."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._outcomes: OrderedDict[bytes, dict[bytes, Fit] | None] = OrderedDict()
        """By name of an opening, what came of each deposit; None if it is no opening."""
        self._queues: dict[Line, _Queue[T]] = {}
        self._turns: OrderedDict[Line, None] = OrderedDict()
        """Those that have something to test and may."""
        self._tests: dict[int, tuple[Line, bytes, tuple[bytes, ...]]] = {}
        self._under_test: Counter[tuple[bytes, bytes]] = Counter()
        self.to_ask: list[Probe] = []
        self._tickets = 0
        self.waits = 0
        """How many events do."""
        self._bytes = 0
        self._last = (b"", b"")

    @property
    def full(self) -> bool:
        """Whether no more may wait."""
        return self.waits >= HELD_EVENTS_MAX or self._bytes >= HELD_BYTES_MAX

    # --- events -------------------------------------------------------------------------------------------------------

    def judge(self, frame: EventFrame) -> TagVerdict | None:
        """What is known of an event's tags; None if it is not sealed."""
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
        """Keep an event that is to wait; False for one that may go on now. `asking`: deposits that it may be for."""
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

    def hurry(self, line: Line) -> None:
        """Let all that waits in one line go on as it is: there is no room for more."""
        for waiting in self._queues[line].waiting if line in self._queues else ():
            waiting.by = 0.0

    def take(self, now: float) -> list[T]:
        """Events that need not wait any more, each line in its order."""
        free: list[T] = []
        for line, queue in list(self._queues.items()):
            waiting = queue.waiting
            while waiting and self._settled(waiting[0], now):
                done = waiting.popleft()
                done.gone = True
                free.append(done.item)
                self.waits -= 1
                self._bytes -= done.size
            if not waiting and not queue.running:
                del self._queues[line]
                self._turns.pop(line, None)
        return free

    def next_deadline(self) -> float | None:
        """When the first has waited long enough."""
        return min((queue.waiting[0].by for queue in self._queues.values() if queue.waiting), default=None)

    # --- tests --------------------------------------------------------------------------------------------------------

    def take_probes(self) -> list[Probe]:
        """What is to be tested."""
        asked, self.to_ask = self.to_ask, []
        return asked

    def probed(self, ticket: int, fits: Sequence[Fit] | None) -> None:
        """What came of a test, a Fit for each of its deposits; None: what it was given is no opening."""
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
        """Ask for tests, of each line in turn."""
        while self._turns and len(self._tests) < TESTS_PENDING_MAX:
            line, _ = self._turns.popitem(last=False)
            queue = self._queues[line]
            if queue.unstarted and queue.running < TESTS_AHEAD:
                self._ask(line, queue, queue.unstarted.popleft())
                if queue.unstarted:
                    self._turns[line] = None

    def _ask(self, line: Line, queue: _Queue[T], waiting: _Waiting[T]) -> None:
        name = waiting.name
        known = self._outcomes.get(name, _NOTHING)
        if known is None or waiting.gone:
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
        """Its digest; of events in a row it is mostly the same."""
        if self._last[0] != opening:
            self._last = (opening, sha256(opening).digest())
        return self._last[1]


def _opening(frame: EventFrame) -> bytes | None:
    """None if an event is not sealed, _MALFORMED if it says so and is not."""
    try:
        sealed = SEALED in frame.attributes()
    except FrameError:
        return None
    return (opening_of(frame.payload) or _MALFORMED) if sealed else None
