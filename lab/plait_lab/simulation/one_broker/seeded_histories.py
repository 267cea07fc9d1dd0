"""Whole histories from seeds. Each seed draws everything: settings, hosts, paths, behaviour, faults and their number.

A run has an active time with faults, then heals. It must then settle within `SETTLE_S`, or continue to receive events.
A history in which too little happens proves nothing; such a vacuous seed is replaced by one derived from it.
"""

from __future__ import annotations

import traceback
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from plait_broker import BrokerSettings, Caller, Principal, Rules
from plait_core.filters import EVERYTHING as ALL_EVENTS
from plait_core.filters import parse
from plait_core.wire import Hello

from ..sorted_index import SortedIndex
from ..timeline import Clock, Timeline
from .application_scripts import Script, draw_behaviour, draw_worker
from .applications import Application, ApplicationTerms
from .disks import Disk, DiskTerms
from .faults import FAULTS, SCENARIOS, FaultTargets, heal
from .interests import EVERYTHING, Interest, draw_denied
from .invariants.bounds import check_backlogs, check_bounds
from .invariants.oracle import Oracle, Rights, Violation
from .network import Network, Path, SizesByFrame
from .nodes import BrokerNode, BrokerTerms
from .raw_clients import RawClient
from .recorder import Outcome, Recorder
from .wire_witness import WireWitness

SETTLE_S: Final = 30.0
"""Virtual time within which everything settles after the last fault (I8)."""

CATCHING_UP_S: Final = 300.0
"""Virtual time for a subscriber that still receives events one by one."""

STILL_S: Final = 5.0
"""Seconds without a reception after which no more are expected."""

PUBLISHED_MIN: Final = 40
MATCHED_MIN: Final = 0.2
"""Least share of events that reach a subscriber, for a history that proves anything (H3). `PUBLISHED_MIN` is the least
number."""

TEAM: Final = "team"
"""The principal of all workers that share durable subscriptions."""

REDRAWS_MAX: Final = 20
REDRAW: Final = 1_000_003
"""Added to a vacuous seed to derive the next."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a seed."""

    seed: int
    drawn: int
    """The seed that was played, after redrawing."""
    violations: tuple[Violation, ...]
    history: str
    """The hash of the history."""
    steps: int
    published: int
    confirmed: int
    received: int
    faults: int
    recorder: Recorder

    @property
    def vacuous(self) -> bool:
        """Whether too little happened to prove anything."""
        reached = {
            reception.id for subscription in self.recorder.subscriptions for reception in subscription.receptions
        }
        live = any(fault.live for fault in self.recorder.faults)
        return not (self.published >= PUBLISHED_MIN and len(reached) >= MATCHED_MIN * self.published and live)


class TokenGate:
    """A gate that admits clients by token; some may not receive everything."""

    def __init__(self) -> None:
        self.rights: dict[str, Rights] = {}
        self._principals: dict[str, Principal] = {}

    def add(self, name: str, deny: Interest | None, owner: str = "") -> None:
        """Admit a client, which may receive everything but events that `deny` matches. `owner`: its principal, if that
        has several clients."""
        owner = owner or name
        self.rights[owner] = Rights(EVERYTHING, deny)
        rules = Rules((ALL_EVENTS,), (parse(deny.text),) if deny is not None else ())
        self._principals[name] = Principal(owner, subscribe=rules)

    def admit(self, hello: Hello, caller: Caller) -> Principal | None:
        return self._principals.get(hello.token or "")


class Run:
    """A history, from its seed."""

    def __init__(self, seed: int, scenario: str = "any", *, portable: bool = False) -> None:
        """`portable`: names and texts in frames, and the native kernel, have no influence on the history."""
        rng = Random(f"{scenario}/{seed}")
        self.seed = seed
        self.timeline = Timeline()
        self.recorder = Recorder(self.timeline)
        self.gate = TokenGate()
        self._rng = rng
        self._active_s = rng.uniform(4.0, 10.0)
        network = Network(self.timeline, rng, SizesByFrame(self.recorder.history) if portable else None)
        terms = DiskTerms(rng.choice((0.0002, 0.002, 0.02)), rng.choice((0.0002, 0.01)))
        disk = Disk(self.timeline, rng, terms)
        broker = BrokerNode(
            "broker",
            network,
            self.recorder,
            self._clock(),
            disk,
            rng,
            BrokerTerms(_draw_settings(rng), self.gate, rng.choice((0.0, 0.0, 0.001, 0.01))),
        )
        if portable:
            broker.new_index = SortedIndex
        hostile = RawClient("hostile", network, self.recorder, broker, rng)
        self.targets = FaultTargets(self.timeline, network, self.recorder, broker, [], rng, hostile)
        self.witness = WireWitness("witness", network, self.recorder, broker, rng)
        self.gate.add("witness", None)
        self.scripts: list[Script] = []
        count = rng.choice((2, 3, 3, 4))
        events = rng.randint(PUBLISHED_MIN + 30, 260)
        add = self._add_worker if scenario == "durables" else self._add_application
        for number in range(count):
            add(number, events // count)
        self._schedule_faults(SCENARIOS[scenario])

    def play(self) -> list[Violation]:
        """Play the history and return the violations."""
        try:
            self.targets.broker.start()
            for script in self.scripts:
                self.timeline.after(self._rng.uniform(0, 0.3), script.start)
            self.timeline.after(0.1, lambda: self.witness.start("witness"))
            self.timeline.run(self._active_s)
            heal(self.targets)
            self._settle()
            if self.targets.broker.broker is not None:
                check_bounds(self.targets.broker.broker)
                if not self.targets.broker.disk.damaged:
                    check_backlogs(self.targets.broker.broker, self.targets.broker.disk.records)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.recorder.breach(
                "exception", f"{type(error).__name__}: {error} at {place.filename.rpartition('/')[2]}:{place.lineno}"
            )
            return [Violation("I9", text) for text in self.recorder.broken]
        self.targets.broker.count_reports()
        violations = Oracle(self.recorder, self.gate.rights).violations()
        if self.targets.broker.disk.served_damage:
            violations.append(Violation("F11", "a damaged record was served"))
        return violations

    def _settle(self) -> None:
        """Let the broker settle, for longer while events still arrive: a window of one on a slow path is slow."""
        until = self._active_s + SETTLE_S
        self.timeline.run(until - STILL_S)
        received = self._receptions()
        self.timeline.run(until)
        while received != (received := self._receptions()) and until < self._active_s + CATCHING_UP_S:
            until += STILL_S
            self.timeline.run(until)

    def _receptions(self) -> int:
        return sum(len(subscription.receptions) for subscription in self.recorder.subscriptions)

    # --- drawing ------------------------------------------------------------------------------------------------------

    def _clock(self) -> Clock:
        rng = self._rng
        return Clock(self.timeline, rng.uniform(-500e-6, 500e-6), rng.uniform(0, 1e5), rng.uniform(-3600, 3600))

    def _add_worker(self, number: int, events: int) -> None:
        """Add an application that shares its durable subscriptions with the other workers of a team, and changes their
        filters."""
        rng = self._rng
        name = f"worker{number}"
        self.gate.add(name, None, TEAM)
        terms = ApplicationTerms(rng.choice((0.0, 0.01)), rng.choice((0.0, 0.05, 0.3)), name, Path(0.005), owner=TEAM)
        worker = Application(name, self.targets.network, self.recorder, self._clock(), self.targets.broker, rng, terms)
        self.targets.applications.append(worker)
        behaviour = draw_worker(rng, events, self._active_s)
        self.scripts.append(Script(worker, behaviour, self.timeline, rng, self._active_s))

    def _add_application(self, number: int, events: int) -> None:
        rng = self._rng
        name = f"app{number}"
        self.gate.add(name, draw_denied(rng) if rng.random() < 0.25 else None)
        path = Path(
            delay_s=rng.choice((0.0002, 0.005, 0.05)),
            jitter_s=rng.choice((0.0, 0.002, 0.1)),
            bytes_per_s=rng.choice((1e9, 1e9, 20_000.0)),
            buffer_bytes=rng.choice((1 << 20, 1 << 16, 2_000)),
            pieces=rng.choice((0.0, 0.0, 0.3)),
        )
        terms = ApplicationTerms(
            rng.choice((0.0, 0.0, 0.01, 0.1)), rng.choice((0.0, 0.0, 0.05)), name, path, owner=name
        )
        application = Application(
            name, self.targets.network, self.recorder, self._clock(), self.targets.broker, rng, terms
        )
        self.targets.applications.append(application)
        behaviour = draw_behaviour(rng, number, events, self._active_s)
        self.scripts.append(Script(application, behaviour, self.timeline, rng, self._active_s))

    def _schedule_faults(self, kinds: tuple[str, ...]) -> None:
        rng = self._rng
        if not kinds:
            return
        mix = rng.sample(kinds, rng.randint(1, min(4, len(kinds))))
        for _ in range(rng.randint(1, 6)):
            kind = FAULTS[rng.choice(mix)]
            self.timeline.at(rng.uniform(0.3, self._active_s), lambda kind=kind: kind(self.targets))  # type: ignore[misc]


def _draw_settings(rng: Random) -> BrokerSettings:
    small = rng.random() < 0.6
    return BrokerSettings(
        heartbeat_s=1.0,
        resume_s=rng.choice((0.3, 2.0, 5.0)),
        hello_timeout_s=2.0,
        confirm_timeout_s=rng.choice((1.0, 5.0)),
        outbox_items_max=rng.choice((4, 32)) if small else 65_536,
        session_outbox_bytes_max=rng.choice((5_000, 1 << 20)),
        durable_window=rng.choice((1, 4, 64)),
        durable_fetch=rng.choice((1, 4, 64)),
        durable_tail=rng.choice((1, 8, 4096)),
        unconfirmed_max=rng.choice((8, 4096, 4096)),
    )


def play(
    seed: int,
    scenario: str = "any",
    planted: AbstractContextManager[object] | None = None,
    *,
    portable: bool = False,
) -> Verdict:
    """Play a seed, or the first derived from it that is not vacuous."""
    drawn = seed
    with planted or nullcontext():
        for _ in range(REDRAWS_MAX):
            run = Run(drawn, scenario, portable=portable)
            violations = run.play()
            verdict = _verdict(seed, drawn, run, violations)
            if violations or not verdict.vacuous or scenario == "calm":
                return verdict
            drawn += REDRAW
    return replace(verdict, violations=(Violation("H3", f"{REDRAWS_MAX} redraws in a row prove nothing"),))


def _verdict(seed: int, drawn: int, run: Run, violations: list[Violation]) -> Verdict:
    recorder = run.recorder
    outcomes = [publication.outcome for publication in recorder.publications.values()]
    return Verdict(
        seed,
        drawn,
        tuple(violations),
        recorder.history.hash(),
        run.timeline.steps,
        len(outcomes),
        outcomes.count(Outcome.OK),
        sum(len(subscription.receptions) for subscription in recorder.subscriptions),
        len(recorder.faults),
        recorder,
    )


def replay_line(seed: int, scenario: str = "any", planted: str = "") -> str:
    """Return the command that replays a seed."""
    line = f"python -m plait_lab.simulation --seed {seed}"
    line += f" --scenario {scenario}" if scenario != "any" else ""
    return line + (f" --planted {planted}" if planted else "")
