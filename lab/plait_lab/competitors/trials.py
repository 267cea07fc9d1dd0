"""The trials: throughput, latency on a schedule, and a crowd of selective subscribers. One server, one trial at a time.

After the warm-up, when everything is received, costs are read and the clock starts. The trial ends with the last event,
or after two seconds without one; missing events are then lost.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..failures import NothingMeasured, TrialFailed
from .child_command import ChildCommand
from .contender import Contender
from .paced_publishing import BATCH, Phase, Plan
from .processes import Cost, TrialProcesses, cost, free_port, listens
from .quotes import EVENT_BYTES
from .shared_counters import DONE, LAG_NS, PHASE, READY, STOP, SharedCounters
from .stamps import MEASURED, WARM

WINDOW: Final = 16_384
"""Events in flight: more than any contender needs, fewer than any drops."""
CROWD_WINDOW: Final = 65_536
"""Deliveries of a crowd in flight."""
CROWD_BATCH: Final = 16
WINDOW_BYTES: Final = 16 << 20
"""Bytes of larger events in flight: at 64 KB still more than passes between two checks of the window."""
OTHER_FILTERS: Final = 1_000
"""Filters of another client, which no event matches: a server with one filter has nothing to select."""
CONFIRM_WINDOW: Final = 1_000
"""Events in flight that are unconfirmed or not yet received."""
CONFIRM_BATCH: Final = 32
CONFIRM_SAMPLES: Final = 1_000_000
WARM_S: Final = 1.0
"""Seconds of warm-up: every trial has a new server, and a JVM compiles its code meanwhile."""
SETTLE_S: Final = 0.3
"""Seconds after subscribing, for systems that do not report an active subscription."""
QUIET_S: Final = 2.0
"""Seconds without an event after which missing events are lost."""
JOIN_S: Final = 120.0
"""Timeout for a whole crowd to join."""


@dataclass(frozen=True, slots=True)
class Server:
    """A contender's running server."""

    contender: Contender
    port: int
    process: int
    place: Path
    children: TrialProcesses


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The result of one trial."""

    sent: int
    delivered: int
    lost: int
    seconds: float
    server_cpu_s: float
    server_mb: float
    publisher_cpu_s: float
    subscribers_cpu_s: float
    delays_ns: list[int] = field(default_factory=list)
    lag_ns: int = 0

    @property
    def sent_per_s(self) -> float:
        return self.sent / self.seconds

    @property
    def delivered_per_s(self) -> float:
        return self.delivered / self.seconds

    @property
    def lost_part(self) -> float:
        return self.lost / max(1, self.lost + self.delivered)


@contextmanager
def served(contender: Contender, folder: Path | None = None) -> Iterator[Server]:
    """Run a new server. Its files are in `folder`, by default a temporary one, and are deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="plait-bench-", dir=folder, ignore_cleanup_errors=True) as folder_name:
        place = Path(folder_name)
        with TrialProcesses(place) as children:
            port = free_port()
            process = children.start("server", contender.command(port, place))
            children.wait(f"{contender.title} listens", lambda: listens(port))
            yield Server(contender, port, process, place, children)
            children.check()


def throughput(
    server: Server, seed: int, subscribers: int, seconds: float, event_bytes: int = EVENT_BYTES
) -> TrialOutcome:
    """Measure the throughput to a number of subscribers, beside the filters of others."""
    phases = (Phase("flood", min(WARM_S, seconds)), Phase("flood", seconds))
    window = min(WINDOW, WINDOW_BYTES // event_bytes)
    plan = Plan(seed, window, phases, min(BATCH, window // 2), event_bytes)
    with _others(server, seed):
        return _trial(server, plan, _subscribers(server, subscribers, measure=False), subscribers, 0)


def latency(server: Server, seed: int, rate: int, seconds: float) -> TrialOutcome:
    """Measure the delay to one subscriber at a rate, on a schedule that does not wait, beside the filters of others."""
    warm = min(WARM_S, seconds)
    plan = Plan(seed, WINDOW, (Phase("paced", warm, rate), Phase("paced", seconds, rate)))
    with _others(server, seed):
        return _trial(server, plan, _subscribers(server, 1, measure=True), 1, round(seconds * rate))


def beside_slow(server: Server, seed: int, rate: int, seconds: float) -> TrialOutcome:
    """Measure the delay to one subscriber while another one, which is not counted, cannot keep up."""
    with (
        _counters(server, 1) as (counters, path),
        TrialProcesses(server.place, server.children) as children,
    ):
        slow = ChildCommand(server.contender.key, "slow", server.port, str(path))
        children.start("slow", slow.command())
        children.wait("a slow subscriber", lambda: all(counters.ready), JOIN_S)
        outcome = latency(server, seed, rate, seconds)
        if counters.received[0][0] >= outcome.sent:
            raise NothingMeasured("the slow subscriber kept up")
        return outcome


def crowd(server: Server, seed: int, subscriptions: int, connections: int, seconds: float) -> TrialOutcome:
    """Measure selective subscriptions spread over connections."""
    plan = Plan(seed, CROWD_WINDOW, (Phase("flood", min(WARM_S, seconds)), Phase("flood", seconds)), CROWD_BATCH)

    def commands(counters: Path) -> list[ChildCommand]:
        key = server.contender.key
        crowd_command = ChildCommand(
            key, "crowd", server.port, str(counters), 0, False, None, seed, subscriptions, connections
        )
        return [crowd_command]

    return _trial(server, plan, commands, 1, 0, seed=seed, subscriptions=subscriptions)


def idle(server: Server, connections: int, rest_s: float) -> float:
    """Return the server's memory in KB for each of many idle connections."""
    with _counters(server, 1) as (counters, path), TrialProcesses(server.place, server.children) as children:
        before = cost(server.process).resident_mb
        key = server.contender.key
        crowd_command = ChildCommand(key, "crowd", server.port, str(path), subscriptions=0, connections=connections)
        children.start("crowd", crowd_command.command())
        children.wait("the crowd", lambda: all(counters.ready), JOIN_S)
        time.sleep(rest_s)
        children.check()
        return (cost(server.process).resident_mb - before) * 1000 / connections


def churn_trial(server: Server, seed: int, live: int, seconds: float) -> tuple[list[float], float]:
    """Measure one client that subscribes and unsubscribes, with `live` open subscriptions.

    Return the server's memory in MB, read ten times a second, and the subscriptions closed a second.
    """
    with _counters(server, 1) as (counters, path), TrialProcesses(server.place, server.children) as children:
        crowd_command = ChildCommand(
            server.contender.key, "churn", server.port, str(path), seed=seed, subscriptions=live
        )
        children.start("churn", crowd_command.command())
        children.wait("the first turnover", lambda: all(counters.ready), JOIN_S)
        closed, started, memory = counters.received[0], time.monotonic(), []
        first = closed[0]
        while time.monotonic() - started < seconds:
            memory.append(cost(server.process).resident_mb)
            time.sleep(0.1)
            children.check()
        if not memory:
            raise NothingMeasured(f"nothing was measured: memory was never read in {seconds:g} s")
        return memory, (closed[0] - first) / (time.monotonic() - started)


def confirmed(server: Server, seed: int, seconds: float) -> TrialOutcome:
    """Measure durable events, each confirmed by the broker, while a durable subscriber acknowledges them.

    Both count as delivered; the delays are from publish to confirmation.
    """
    plan = Plan(seed, CONFIRM_WINDOW, (Phase("flood", min(WARM_S, seconds)), Phase("flood", seconds)), CONFIRM_BATCH)
    with (
        _counters(server, 2, CONFIRM_SAMPLES) as (counters, path),
        TrialProcesses(server.place, server.children) as children,
    ):
        key = server.contender.key
        subscribers = children.start("subscriber", ChildCommand(key, "subscriber", server.port, str(path), 1).command())
        children.wait("a durable subscriber", lambda: counters.ready[1] == 1, JOIN_S)
        publisher = children.start(
            "publisher", ChildCommand(key, "publisher", server.port, str(path), 0, plan=plan).command()
        )
        children.wait("a publisher", lambda: counters.cells[READY] == 1)
        return TrialRun(children, counters, plan, (server.process, publisher, subscribers)).measure()


@contextmanager
def _others(server: Server, seed: int) -> Iterator[None]:
    """Install the filters of another client, which no event matches."""
    with _counters(server, 1) as (counters, path), TrialProcesses(server.place, server.children) as children:
        others = ChildCommand(
            server.contender.key, "others", server.port, str(path), seed=seed, subscriptions=OTHER_FILTERS
        )
        children.start("others", others.command())
        children.wait("the filters of others", lambda: all(counters.ready), JOIN_S)
        yield


@contextmanager
def _counters(server: Server, slots: int, samples: int = 0) -> Iterator[tuple[SharedCounters, Path]]:
    path = server.place / f"counters-{time.monotonic_ns()}"
    counters = SharedCounters.create(path, slots, samples)
    try:
        yield counters, path
    finally:
        counters.close()
        path.unlink()


def _subscribers(server: Server, count: int, *, measure: bool) -> Callable[[Path], list[ChildCommand]]:
    def commands(counters: Path) -> list[ChildCommand]:
        key, port = server.contender.key, server.port
        return [ChildCommand(key, "subscriber", port, str(counters), slot, measure) for slot in range(count)]

    return commands


def _trial(
    server: Server,
    plan: Plan,
    commands: Callable[[Path], list[ChildCommand]],
    slots: int,
    samples: int,
    *,
    seed: int = 0,
    subscriptions: int = 0,
) -> TrialOutcome:
    key = server.contender.key
    with (
        _counters(server, slots, samples) as (counters, path),
        TrialProcesses(server.place, server.children) as children,
    ):
        subscribers = [
            children.start(f"subscriber{number}", command.command()) for number, command in enumerate(commands(path))
        ]
        children.wait("subscribers", lambda: all(counters.ready), JOIN_S)
        time.sleep(SETTLE_S)
        sending = ChildCommand(key, "publisher", server.port, str(path), 0, False, plan, seed, subscriptions)
        publisher = children.start("publisher", sending.command())
        children.wait("a publisher", lambda: counters.cells[READY] == 1)
        return TrialRun(children, counters, plan, (server.process, publisher, *subscribers)).measure()


class TrialRun:
    """Both phases of a trial whose processes are ready: server, publisher, subscribers."""

    def __init__(
        self, children: TrialProcesses, counters: SharedCounters, plan: Plan, processes: tuple[int, ...]
    ) -> None:
        self._children = children
        self._counters = counters
        self._plan = plan
        self._processes = processes

    def measure(self) -> TrialOutcome:
        """Warm up, then measure."""
        counters = self._counters
        self._phase(WARM)
        if not any(counters.received[WARM]):
            raise NothingMeasured("no event arrived while it warmed up")
        before = self._costs()
        seconds = self._phase(MEASURED)
        after = self._costs()
        delivered, due = sum(counters.received[MEASURED]), counters.expected[MEASURED] * counters.subscribers
        delays_ns = self._delays()
        self._judge(delivered, due)
        if not delivered or not seconds or (counters.samples and not delays_ns):
            raise NothingMeasured(f"nothing was measured: {delivered:,} of {due:,} events arrived in {seconds:g} s")
        cpu = [now.cpu_s - then.cpu_s for now, then in zip(after, before, strict=True)]
        outcome = TrialOutcome(
            sent=counters.sent[MEASURED],
            delivered=delivered,
            lost=due - delivered,
            seconds=seconds,
            server_cpu_s=cpu[0],
            server_mb=after[0].resident_mb,
            publisher_cpu_s=cpu[1],
            subscribers_cpu_s=sum(cpu[2:]),
            delays_ns=delays_ns,
            lag_ns=counters.cells[LAG_NS],
        )
        counters.cells[PHASE] = STOP
        return outcome

    def _judge(self, delivered: int, due: int) -> None:
        """Raise TrialFailed if a subscriber received more than it should, or events twice or out of order."""
        if delivered > due:
            raise TrialFailed(f"{delivered:,} deliveries where {due:,} match")
        breaks = sum(self._counters.breaks[MEASURED])
        if breaks > due - delivered:
            raise TrialFailed(f"{breaks:,} events arrived twice or out of order, with {due - delivered:,} lost")

    def _phase(self, number: int) -> float:
        """Run a phase and wait until everything is received. Return the seconds that it took."""
        counters, phase = self._counters, self._plan.phases[number - 1]
        received = counters.received[number]
        started = time.monotonic()
        latest = started + phase.seconds * 3 + 30
        counters.cells[PHASE] = number
        seen, seen_at = 0, started
        while True:
            now, count = time.monotonic(), sum(received)
            if count != seen:
                seen, seen_at = count, now
            if counters.cells[DONE] >= number and (counters.all_in(number) or now - seen_at > QUIET_S):
                return seen_at - started
            self._children.check()
            if now > latest:
                raise TrialFailed(f"phase {number} took longer than {latest - started:.0f} s")
            self._children.rest(0.002)

    def _costs(self) -> list[Cost]:
        return [cost(process) for process in self._processes]

    def _delays(self) -> list[int]:
        counters = self._counters
        if not counters.samples:
            return []
        found: list[int] = []
        for slot in range(counters.subscribers):
            with counters.delays(slot) as delays:
                found += filter(
                    None, delays[: counters.received[MEASURED][slot]].tolist()
                )  # a subscriber that measures nothing leaves 0
        return found
