"""Tag tests without arithmetic: a deposit says how many steps its test takes and what it finds."""

from __future__ import annotations

from collections import Counter, deque

from plait_broker.deposits import BROKER, CLIENT, Deposit, Depositor, Deposits
from plait_broker.outputs import Probe, Probed
from plait_broker.pipeline.sealed_matching import TagMatcher
from plait_core import Event
from plait_core.sealed_opening import SEALED, SEALED_HEAD, SEALED_VERSION, Fit
from plait_core.wire import Confirm, Publish
from plait_core.wire.event_block import encode_block

MALFORMED = b"malformed"
"""The start of openings that the worker finds malformed."""

Line = tuple[str, int]


def tokens(steps: int, fit: Fit = Fit.OTHER, name: str = "", size: int = 0) -> bytes:
    """Return a deposit whose test takes some steps. Equal names make equal deposits."""
    return f"{steps} {fit.value} {name} ".encode().ljust(size, b".")


def client(number: int) -> Depositor:
    return CLIENT, number


def broker(number: int) -> Depositor:
    return BROKER, number


def sealed(opening: bytes) -> Publish:
    """Return a sealed event of the session with this opening."""
    payload = SEALED_HEAD.pack(SEALED_VERSION, len(opening)) + opening + b"a member"
    return Publish(Confirm.NONE, encode_block(Event({SEALED: "00" * 16}, payload, publisher=1, sequence=1)))


def answer(probe: Probe) -> Probed | None:
    """Carry out a Probe."""
    if probe.opening.startswith(MALFORMED):
        return None
    steps, fit, *_ = probe.deposit.split(b" ")
    done = probe.rest if isinstance(probe.rest, int) else 0
    taken = min(probe.steps, int(steps) - done)
    return Probed(Fit(fit.decode()) if done + taken == int(steps) else None, taken, done + taken)


class Matching:
    """A tag matcher with its deposits, a clock, and one thread that carries out Probes on request."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.deposits = Deposits()
        self.tags: TagMatcher[int] = TagMatcher(self.counts, [self.deposits])
        self.now = 0.0
        self.events = 0
        self.subscriptions = 0
        self.probes: deque[Probe] = deque()
        """Probes that are not answered."""
        self.steps: Counter[tuple[bytes, bytes]] = Counter()
        """Steps taken, by opening and deposit."""

    def subscribe(self, depositor: Depositor, deposit: bytes) -> int:
        """Open a subscription, and return its number."""
        self.subscriptions += 1
        self.deposits.add(self.subscriptions, deposit, depositor)
        return self.subscriptions

    def publish(self, line: Line, opening: bytes) -> int:
        """Publish an event of a session that may be for all subscriptions. Return its number."""
        self.events += 1
        self.tags.hold(line, sealed(opening), self.events, self.asking, self.now)
        self._collect()
        return self.events

    def asking(self, frame: object) -> list[Deposit]:
        return list(self.deposits.by_number.values())

    def holds(self, line: Line, opening: bytes) -> bool:
        """Return whether a new event of a session waits."""
        waited = self.tags.waits
        self.publish(line, opening)
        return self.tags.waits > waited

    def work(self, parts: int = 1) -> list[int]:
        """Carry out the next Probes. Return the events that go on."""
        free: list[int] = []
        for _ in range(parts):
            if self.probes:
                probe = self.probes.popleft()
                found = answer(probe)
                self.steps[probe.opening, probe.deposit] += 0 if found is None else found.steps
                self.tags.probed(probe.ticket, found, self.now)
                free += self.tags.take(self.now)
                self._collect()
        return free

    def work_until_idle(self, seconds_max: float = 100.0) -> list[int]:
        """Carry out all Probes, and pass the time until no test is left."""
        free = []
        end = self.now + seconds_max
        while self.now < end:
            while self.probes:
                free += self.work()
            due = self.tags.next_deadline()
            if due is None:
                break
            free += self.wait(max(0.0, due - self.now))
        return free

    def wait(self, seconds: float) -> list[int]:
        """Pass the time. Return the events that go on."""
        self.now += seconds
        self.tags.tick(self.now)
        free = self.tags.take(self.now)
        self._collect()
        return free

    def fit(self, opening: bytes, subscription: int) -> bool:
        """Return whether an event passes to a subscription, as far as is known."""
        verdict = self.tags.judge(sealed(opening))
        assert verdict is not None
        return verdict(self.deposits.by_number[subscription])

    def _collect(self) -> None:
        probes = self.tags.take_probes()
        assert all(probe.steps > 0 for probe in probes), "each part goes on"
        self.probes += probes
