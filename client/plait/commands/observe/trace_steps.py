"""Steps of a traced event: orders the brokers' reports, and decides when they are complete. No I/O.

Brokers report independently, so the report of a later step may arrive first. A step is shown once the step that caused
it is shown: a copy is received after it was sent, and delivered after it was received. A repeated step is marked.

The trace is complete when every destination has reported an outcome for each matching subscription, or when the event,
or the copy for that destination, was dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

from plait_core.events import EventId
from plait_core.ids import id_text
from plait_core.values import Json
from plait_core.wire.frame_types.session_frames import Brokers
from plait_core.wire.frame_types.trace_frames import StepKind, TraceStep

from ..terminal.durations import shown

ShownStep: TypeAlias = tuple[Json, str]
"""A step as JSON for programs and as a line for people."""

SETTLED: Final = (StepKind.DELIVERED, StepKind.STORED, StepKind.DROPPED)
"""Kinds that are the final outcome for their subscriptions."""

OF_BROKERS: Final = (StepKind.PUBLISHED, StepKind.SENT, StepKind.CAME, StepKind.LOST)
"""Kinds whose parties are brokers instead of subscriptions."""

RECEIPTS: Final = (StepKind.CAME, StepKind.ARRIVED)
"""Kinds that report the receipt of a copy."""

LOSSES: Final = (StepKind.DROPPED, StepKind.LOST)
"""Kinds that a broker may report for a copy without having reported its receipt."""

INDENT: Final = "  "
DEPTH_MAX: Final = 64


class Steps:
    """The reported steps of one event."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._depths: dict[int, int] = {}
        self._root = 0
        self._destinations = -1
        """Number of destinations besides the publisher's broker; -1 until it is reported."""
        self._matched: dict[int, int] = {}
        """Number of subscriptions without an outcome, by destination."""
        self._lost: dict[int, None] = {}
        """Destinations whose copy was dropped on its path."""
        self._ended = False
        self._delivered = self._dropped = 0
        self._reported: dict[tuple[int, str, str], set[int]] = {}
        """Parties reported so far, by broker, kind and reason."""
        self._waiting: list[tuple[TraceStep, bool]] = []
        """Steps that wait for the step that caused them, each with whether it is repeated."""
        self._shown: dict[int, None] = {}
        """Brokers whose receipt of a copy is shown."""
        self._links: Counter[tuple[str, int, int]] = Counter()
        """Number of copies shown as sent and as received, by kind of step and both brokers."""

    def add(self, traced: TraceStep | Brokers) -> Iterator[ShownStep]:
        """Record a report. Yield the steps that can be shown now."""
        if isinstance(traced, Brokers):
            self._names |= dict(zip(traced.ids, traced.names, strict=True))
            return
        again = self._is_repeated(traced)
        self._note(traced, again=again)
        self._waiting.append((traced, again))
        while (
            at := next((at for at, (step, _) in enumerate(self._waiting) if self._cause_is_shown(step)), None)
        ) is not None:
            yield self._show(*self._waiting.pop(at))

    def remaining(self) -> Iterator[ShownStep]:
        """Yield the steps whose cause was never reported, by their delay."""
        waiting, self._waiting = self._waiting, []
        for step, again in sorted(waiting, key=lambda one: (one[0].delay_us, one[0].kind not in RECEIPTS)):
            yield self._show(step, again)

    @property
    def complete(self) -> bool:
        """Whether all outcomes are reported."""
        if self._ended:
            return True
        elsewhere = sum(broker != self._root for broker in self._matched.keys() | self._lost.keys())
        return 0 <= self._destinations <= elsewhere and all(left <= 0 for left in self._matched.values())

    @property
    def done(self) -> bool:
        """Whether all outcomes are reported and shown."""
        return self.complete and not self._waiting

    def end(self) -> ShownStep:
        """Return a summary of the outcomes."""
        waiting = sorted(self._name(broker) for broker, left in self._matched.items() if left > 0)
        missing = max(
            0, self._destinations - sum(broker != self._root for broker in self._matched.keys() | self._lost.keys())
        )
        lost = sorted(map(self._name, self._lost))
        facts = {
            "kind": "end", "complete": self.complete, "brokers": len(self._matched), "delivered": self._delivered,
            "dropped": self._dropped, "waiting_at": waiting, "silent": missing, "lost_for": lost,
        }  # fmt: skip
        line = f"delivered {self._delivered}, dropped {self._dropped}"
        if waiting:
            line += f"; outcomes missing at {', '.join(waiting)}"
        if lost:
            line += f"; its cop{'y' if len(lost) == 1 else 'ies'} for {', '.join(lost)} lost on the path"
        if missing:
            line += f"; {missing} broker{'' if missing == 1 else 's'} did not report"
        if self._destinations < 0 and not self._ended:
            line = "the publisher's broker did not report"
        return facts, line

    # --- inside -------------------------------------------------------------------------------------------------------

    def _is_repeated(self, step: TraceStep) -> bool:
        """Return whether the same step was reported before for all of its parties."""
        key = (step.source, step.kind, step.reason)
        before, parties = self._reported.get(key), set(step.parties)
        self._reported[key] = parties | (before or set())
        return before is not None and parties <= before

    def _cause_is_shown(self, step: TraceStep) -> bool:
        """Return whether the step that caused this one is shown."""
        if step.source == step.to:  # where it was published
            return step.kind == StepKind.PUBLISHED or step.kind in LOSSES or step.source in self._shown
        if step.kind in RECEIPTS:
            sent = self._links[StepKind.SENT, step.peer, step.source]
            return self._links[step.kind, step.peer, step.source] < sent
        if step.kind in LOSSES:
            return step.source in self._depths
        return step.source in self._shown

    def _show(self, step: TraceStep, again: bool) -> ShownStep:
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
                self._root, self._destinations = step.source, step.count
            case StepKind.ARRIVED if not again:
                self._matched[step.source] = self._matched.get(step.source, 0) + step.count
            case StepKind.LOST:
                self._lost |= dict.fromkeys(step.parties)
            case StepKind.DROPPED if not step.parties and step.source == self._root and self._destinations < 0:
                self._ended = True
        if step.kind in SETTLED and not again:
            self._matched[step.source] = self._matched.get(step.source, 0) - step.count
            self._delivered += step.count * (step.kind == StepKind.DELIVERED)
            self._dropped += step.count * (step.kind == StepKind.DROPPED)

    def _facts(self, step: TraceStep, again: bool) -> Json:
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
        parties = self._parties_text(step)
        match step.kind:
            case StepKind.PUBLISHED:
                line = f"published {EventId(step.publisher, step.sequence)}, matched in {took}; for {parties}"
            case StepKind.SENT:
                queued = f", queued {took}" if step.took_us else ""
                repeated = f" after {after}" if again else ""
                line = f"-> {self._name(step.peer)} for {parties}{repeated}{queued}, link {shown(step.link_us / 1e6)}"
            case StepKind.CAME:
                line = f"in after {after} from {self._name(step.peer)}"
            case StepKind.ARRIVED:
                came = f"in after {after} from {self._name(step.peer)}, " if step.peer else ""
                line = f"{came}matched {step.count} here in {took}"
            case StepKind.DELIVERED:
                waited = f", after waiting {took}" if step.took_us else ""
                line = f"delivered to {parties} after {after}{waited}"
            case StepKind.QUEUED:
                line = f"waits for {parties}: {step.reason}"
            case StepKind.STORED:
                line = f"stored for {parties}, whose client is away"
            case StepKind.DROPPED | StepKind.LOST:
                line = f"dropped{f' for {parties}' if step.count else ''} after {after}: {step.reason}"
            case _:
                line = f"{step.kind} {step.reason}".rstrip()
        return f"{at}: {'again ' if again else ''}{line}"

    def _parties_text(self, step: TraceStep) -> str:
        """Return the parties of a step as text."""
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
