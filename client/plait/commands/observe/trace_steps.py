"""The steps of a traced event: a line for each, indented by how far it has gone; and whether all is told.

Brokers tell of their steps each by itself, and what a later one tells may be here first. So a step is shown once the
one that led to it is: a copy comes after it was sent, and what becomes of it after it came. What was told before is
marked as told again.

All is told when each broker that the event is for has said of as many subscriptions as it matched there what became of
it; or when the event, or its copy for that broker, was dropped. No I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from plait_core.events import EventId
from plait_core.ids import id_text
from plait_core.wire.frame_types.session_frames import Brokers
from plait_core.wire.frame_types.trace_frames import StepKind, TraceStep

from ..terminal.durations import shown

Told: TypeAlias = tuple[dict[str, Any], str]
"""A step as a program reads it, and as a person does."""

SETTLED: Final = (StepKind.DELIVERED, StepKind.STORED, StepKind.DROPPED)
"""Kinds after which no more is to be told of the subscriptions that they speak of."""

OF_BROKERS: Final = (StepKind.PUBLISHED, StepKind.SENT, StepKind.CAME, StepKind.LOST)
"""Kinds whose parties are brokers."""

COMING: Final = (StepKind.CAME, StepKind.ARRIVED)
"""Kinds by which a broker tells that it has a copy."""

ENDING: Final = (StepKind.DROPPED, StepKind.LOST)
"""Kinds that a broker may tell of a copy without having told that it came."""

INDENT: Final = "  "
DEPTH_MAX: Final = 64


class Steps:
    """All that is told of one event."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._depths: dict[int, int] = {}
        self._root = 0
        self._homes = -1
        """How many other brokers it is for; -1 before that is told."""
        self._matched: dict[int, int] = {}
        """By broker that it arrived at, of how many subscriptions something is to be told."""
        self._lost: dict[int, None] = {}
        """Brokers whose copy was dropped on its way."""
        self._ended = False
        self._delivered = self._dropped = 0
        self._told: dict[tuple[int, str, str], set[int]] = {}
        """By broker, kind and reason, the parties that were told of."""
        self._held: list[tuple[TraceStep, bool]] = []
        """Steps that wait for those that led to them, and whether each was told before."""
        self._shown: dict[int, None] = {}
        """Brokers of which it was shown that they have a copy."""
        self._links: Counter[tuple[str, int, int]] = Counter()
        """By kind of step, and both brokers: copies shown to have been sent, and to have come."""

    def take(self, traced: TraceStep | Brokers) -> Iterator[Told]:
        """Something more is told; the steps that can be shown now."""
        if isinstance(traced, Brokers):
            self._names |= dict(zip(traced.ids, traced.names, strict=True))
            return
        again = self._again(traced)
        self._note(traced, again=again)
        self._held.append((traced, again))
        while (at := next((at for at, (step, _) in enumerate(self._held) if self._follows(step)), None)) is not None:
            yield self._show(*self._held.pop(at))

    def rest(self) -> Iterator[Told]:
        """Steps that nothing told led to, by how long the event had been under way."""
        held, self._held = self._held, []
        for step, again in sorted(held, key=lambda one: (one[0].delay_us, one[0].kind not in COMING)):
            yield self._show(step, again)

    @property
    def complete(self) -> bool:
        """Whether all is told."""
        if self._ended:
            return True
        elsewhere = sum(home != self._root for home in self._matched.keys() | self._lost.keys())
        return 0 <= self._homes <= elsewhere and all(left <= 0 for left in self._matched.values())

    @property
    def done(self) -> bool:
        """Whether all is told and shown."""
        return self.complete and not self._held

    def end(self) -> Told:
        """What it comes to."""
        waiting = sorted(self._name(home) for home, left in self._matched.items() if left > 0)
        missing = max(0, self._homes - sum(home != self._root for home in self._matched.keys() | self._lost.keys()))
        lost = sorted(map(self._name, self._lost))
        facts = {
            "kind": "end", "complete": self.complete, "brokers": len(self._matched), "delivered": self._delivered,
            "dropped": self._dropped, "waiting_at": waiting, "silent": missing, "lost_for": lost,
        }  # fmt: skip
        line = f"delivered {self._delivered}, dropped {self._dropped}"
        if waiting:
            line += f"; not told yet what became of all at {', '.join(waiting)}"
        if lost:
            line += f"; its cop{'y' if len(lost) == 1 else 'ies'} for {', '.join(lost)} ended on the way"
        if missing:
            line += f"; {missing} broker{'' if missing == 1 else 's'} that it is for told nothing"
        if self._homes < 0 and not self._ended:
            line = "its publisher's broker told nothing"
        return facts, line

    # --- inside -------------------------------------------------------------------------------------------------------

    def _again(self, step: TraceStep) -> bool:
        """Whether this was told before, of all of its parties."""
        key = (step.source, step.kind, step.reason)
        before, parties = self._told.get(key), set(step.parties)
        self._told[key] = parties | (before or set())
        return before is not None and parties <= before

    def _follows(self, step: TraceStep) -> bool:
        """Whether the step that led to this one is shown."""
        if step.source == step.to:  # where it was published
            return step.kind == StepKind.PUBLISHED or step.kind in ENDING or step.source in self._shown
        if step.kind in COMING:
            sent = self._links[StepKind.SENT, step.peer, step.source]
            return self._links[step.kind, step.peer, step.source] < sent
        if step.kind in ENDING:
            return step.source in self._depths
        return step.source in self._shown

    def _show(self, step: TraceStep, again: bool) -> Told:
        match step.kind:
            case StepKind.PUBLISHED:
                self._depths[step.source] = 0
                self._shown[step.source] = None
            case StepKind.SENT:
                self._depths.setdefault(step.peer, min(DEPTH_MAX, self._depths.get(step.source, 0) + 1))
                self._links[step.kind, step.source, step.peer] += 1
            case StepKind.CAME | StepKind.ARRIVED:
                self._depths.setdefault(step.source, min(DEPTH_MAX, self._depths.get(step.peer, 0) + 1))
                self._links[step.kind, step.peer, step.source] += 1
                self._shown[step.source] = None
        return self._facts(step, again), self._line(step, again)

    def _note(self, step: TraceStep, *, again: bool) -> None:
        match step.kind:
            case StepKind.PUBLISHED:
                self._root, self._homes = step.source, step.count
            case StepKind.ARRIVED if not again:
                self._matched[step.source] = self._matched.get(step.source, 0) + step.count
            case StepKind.LOST:
                self._lost |= dict.fromkeys(step.parties)
            case StepKind.DROPPED if not step.parties and step.source == self._root and self._homes < 0:
                self._ended = True
        if step.kind in SETTLED and not again:
            self._matched[step.source] = self._matched.get(step.source, 0) - step.count
            self._delivered += step.count * (step.kind == StepKind.DELIVERED)
            self._dropped += step.count * (step.kind == StepKind.DROPPED)

    def _facts(self, step: TraceStep, again: bool) -> dict[str, Any]:
        return {
            "event": str(EventId(step.publisher, step.sequence)),
            "broker": self._name(step.source),
            "kind": step.kind,
            "delay_ms": step.delay_us / 1000,
            "took_ms": step.took_us / 1000,
            "link_ms": step.link_us / 1000 if step.link_us else None,
            "peer": self._name(step.peer) if step.peer else None,
            "count": step.count,
            "parties": self._parties(step),
            "reason": step.reason or None,
            "again": again,
        }

    def _line(self, step: TraceStep, again: bool) -> str:
        at = INDENT * self._depths.get(step.source, 1) + self._name(step.source)
        took, after = shown(step.took_us / 1e6), shown(step.delay_us / 1e6)
        whom = self._whom(step)
        match step.kind:
            case StepKind.PUBLISHED:
                said = f"published {EventId(step.publisher, step.sequence)}, matched in {took}; for {whom}"
            case StepKind.SENT:
                queued = f", queued {took}" if step.took_us else ""
                at_last = f" after {after}" if again else ""
                said = f"-> {self._name(step.peer)} for {whom}{at_last}{queued}, link {shown(step.link_us / 1e6)}"
            case StepKind.CAME:
                said = f"in after {after} from {self._name(step.peer)}"
            case StepKind.ARRIVED:
                came = f"in after {after} from {self._name(step.peer)}, " if step.peer else ""
                said = f"{came}matched {step.count} here in {took}"
            case StepKind.DELIVERED:
                waited = f", having waited {took}" if step.took_us else ""
                said = f"delivered to {whom} after {after}{waited}"
            case StepKind.QUEUED:
                said = f"waits for {whom}: {step.reason}"
            case StepKind.STORED:
                said = f"stored for {whom}, whose client is away"
            case StepKind.DROPPED | StepKind.LOST:
                said = f"dropped{f' for {whom}' if step.count else ''} after {after}: {step.reason}"
            case _:
                said = f"{step.kind} {step.reason}".rstrip()
        return f"{at}: {'again ' if again else ''}{said}"

    def _whom(self, step: TraceStep) -> str:
        """The parties of a step, for people."""
        named = self._parties(step)
        more = step.count - len(named)
        if not step.count:
            return "no other broker"
        return ", ".join(named) + (f" and {more} more" if more > 0 else "")

    def _parties(self, step: TraceStep) -> list[str]:
        if step.kind in OF_BROKERS:
            return [self._name(party) for party in step.parties]
        return [f"{self._name(step.source)}/{party}" for party in step.parties]

    def _name(self, broker: int) -> str:
        return self._names.get(broker) or id_text(broker)
