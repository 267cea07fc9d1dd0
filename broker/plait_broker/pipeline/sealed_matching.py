"""Sealed events are routed by their tags: a subscription with routing tokens gets an event only if they fit the tags.

This is a part of the step *match*, after the filters have matched the attributes that are not encrypted. A test takes a
pairing for each credential, so it runs outside the loop, as an output. Meanwhile the event waits, and with it the later
events of the same publisher (or broker), in order. All events of one sealing session share an opening, and its outcomes
are kept, so that steady traffic does not wait.

An event waits for the first steps of each depositor's tests (`tag_tests.py`) and no longer than `TEST_S`. Then it
passes to the subscriptions whose tests are not done. That costs traffic and loses nothing: readers check tags by
themselves.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from plait_core.errors import FrameError
from plait_core.sealed_opening import SEALED, Fit, opening_of
from plait_core.wire import EventFrame, Publish

from ..clients.sessions import Session
from ..deposits import Deposit, Deposits
from ..outputs import Probe, Probed
from ..overlay import ReceivedEvent
from .sealed_openings import Line, Openings, PendingTest
from .tag_tests import OPENING_AWAITED_STEPS, TagTests

TEST_S: Final = 2.0
"""An event goes on untested after this time: the machine is overloaded."""

HELD_EVENTS_MAX: Final = 65_536
HELD_BYTES_MAX: Final = 32 << 20
"""Events that wait at one broker, as for advertisements (`advertisement_gate.py`). Beyond, those of the line that has
the most pass untested."""

LINE_SHARE: Final = 4
"""One line has at most this part of both: beyond, its own events pass untested."""


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

OUTCOMES: Final = ("tests", "fits", "other", "undecided", "untested", "over_budget")
"""Keys of the counter: tests that ended; for each event, deposits that fitted, did not fit, could not be decided or had
no outcome yet; openings on which the tests of a depositor exceeded its budget."""

_NOTHING: Final[Mapping[bytes, Fit]] = {}
_MALFORMED: Final = b""
"""Stands for the opening of an event that is marked as sealed and has none."""


class TagVerdict:
    """The known outcomes of one sealed event's tags: calling it tells whether a deposit fits, or may fit."""

    __slots__ = ("_counts", "_known", "malformed")

    def __init__(self, known: Mapping[bytes, Fit] | None, counts: Counter[str]) -> None:
        self._known = known
        self._counts = counts
        self.malformed = known is None

    def __call__(self, deposit: Deposit) -> bool:
        if self._known is None:
            return False
        fit = self._known.get(deposit.digest)
        self._counts["untested" if fit is None else fit.value] += 1
        return fit is not Fit.OTHER


@dataclass(slots=True, eq=False)
class _Waiting(Generic[T]):
    item: T
    size: int
    """Bytes."""
    tests: list[PendingTest]
    """The tests that it waits for, without those that earlier events of its line wait for."""

    def settled(self, now: float) -> bool:
        """Return whether it need not wait any more."""
        while self.tests and not self.tests[-1].awaited(now):
            self.tests.pop()
        return not self.tests


@dataclass(slots=True, eq=False)
class _Queue(Generic[T]):
    """The events of one line that wait. An empty one is kept until its released events are taken: later ones follow."""

    events: deque[_Waiting[T]] = field(default_factory=deque)
    bytes: int = 0

    @property
    def share(self) -> float:
        """Which part of the bounds it takes."""
        return max(len(self.events) / HELD_EVENTS_MAX, self.bytes / HELD_BYTES_MAX)

    def due(self) -> float | None:
        """Return until when the first event waits at most."""
        return self.events[0].tests[-1].by if self.events and self.events[0].tests else None


class TagMatcher(Generic[T]):
    """Known outcomes, and the events that wait for tests."""

    def __init__(self, counts: Counter[str], deposits: Sequence[Deposits]) -> None:
        """`deposits`: those of this broker's subscriptions, and those of other brokers."""
        self._counts = counts
        self._openings = Openings(OPENING_AWAITED_STEPS)
        self._tests = TagTests(counts, deposits)
        self.to_ask = self._tests.probes
        """The tests to run, which `take_probes` returns."""
        self.exceeded = self._tests.exceeded
        """Depositors whose tests have exceeded their budget on an opening, until the caller removes them."""
        self._queues: dict[Line, _Queue[T]] = {}
        self._released: list[T] = []
        """Events that pass untested, until `take`."""
        self.waits = 0
        """Number of events that wait."""
        self._bytes = 0
        self._last = (b"", b"")

    # --- events -------------------------------------------------------------------------------------------------------

    def judge(self, frame: EventFrame) -> TagVerdict | None:
        """Return the known outcomes of an event's tags. None: it is not sealed."""
        encoded = _opening(frame)
        if encoded is None:
            return None
        if not encoded:
            return TagVerdict(None, self._counts)
        opening = self._openings.get(self._name(encoded))
        if opening is None:
            return TagVerdict(_NOTHING, self._counts)
        return TagVerdict(None if opening.malformed else opening.outcomes, self._counts)

    def hold(
        self, line: Line, frame: EventFrame, item: T, asking: Callable[[EventFrame], Sequence[Deposit]], now: float
    ) -> bool:
        """Hold an event whose tags are not tested, or that follows one in its line. Return False if it need not wait.

        Without room, earlier events pass untested: those of this line if it has its share, else of the longest line.
        `asking` returns the deposits that the event may be for.
        """
        encoded = _opening(frame)
        tests = self._tests_of(line, encoded, asking(frame), now) if encoded else []
        queue = self._queues.get(line)
        if not tests and queue is None:
            return False
        if queue is None:
            queue = self._queues[line] = _Queue()
        if queue.share * LINE_SHARE >= 1:
            self._release(queue)
        elif self.waits >= HELD_EVENTS_MAX or self._bytes >= HELD_BYTES_MAX:
            self._release(max(self._queues.values(), key=lambda each: each.share))
        waiting = _Waiting(item, len(frame.block), tests)
        queue.events.append(waiting)
        queue.bytes += waiting.size
        self.waits += 1
        self._bytes += waiting.size
        return True

    def _tests_of(self, line: Line, encoded: bytes, deposits: Sequence[Deposit], now: float) -> list[PendingTest]:
        """Return the tests that an event waits for. Earlier events of its line wait for those that they have begun."""
        if not deposits:
            return []
        opening = self._openings.use(self._name(encoded), line, now)
        known = opening.outcomes
        unknown = [each for each in deposits if each.digest not in known]
        if not unknown or opening.malformed:
            return []
        pending, encoded = opening.pending, self._last[0]  # events of a session share these bytes
        tests = []
        for deposit in unknown:
            test = pending.get(deposit.digest)
            if test is None:
                test = self._tests.enter(opening, encoded, deposit, line, now + TEST_S)
            elif test.line == line:
                continue
            if test is not None and test.awaited(now):
                tests.append(test)
        self._tests.start(now)
        return tests

    def _release(self, queue: _Queue[T]) -> None:
        """Let the events of a line pass untested, since there is no room for more."""
        self._released += [waiting.item for waiting in queue.events]
        self.waits -= len(queue.events)
        self._bytes -= queue.bytes
        queue.events.clear()
        queue.bytes = 0

    def take(self, now: float) -> list[T]:
        """Return the events that need not wait any more, each line in its order."""
        free, self._released = self._released, []
        for line, queue in list(self._queues.items()):
            while queue.events and queue.events[0].settled(now):
                done = queue.events.popleft()
                free.append(done.item)
                queue.bytes -= done.size
                self.waits -= 1
                self._bytes -= done.size
            if not queue.events:
                del self._queues[line]
        return free

    # --- tests --------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether there is a deadline."""
        return bool(self._queues) or self._tests.resume_at is not None

    def tick(self, now: float) -> None:
        """Start the tests that may go on."""
        self._tests.start(now)

    def next_deadline(self) -> float | None:
        """Return when the first event has waited long enough, or a test may go on."""
        due = [by for queue in self._queues.values() if (by := queue.due()) is not None]
        resume_at = self._tests.resume_at
        return min([*due, resume_at] if resume_at is not None else due, default=None)

    def take_probes(self) -> list[Probe]:
        """Return the tests to run."""
        return self._tests.take()

    def probed(self, ticket: int, answer: Probed | None, now: float) -> None:
        """Take the answer to a Probe. None: the opening is malformed."""
        self._tests.probed(ticket, answer, now)

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
