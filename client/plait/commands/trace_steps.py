"""The steps of a traced event, as they come: a line for each, indented by how far it has gone; and whether all is told.

All is told when each broker that the event is for has said of as many subscriptions as it matched there what became of
it; or when the event, or its copy for that broker, was dropped. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from plait_core.events import EventId
from plait_core.ids import id_text
from plait_core.wire.explaining_frames import Step, StepKind
from plait_core.wire.session_frames import Brokers

from .durations import shown

Told: TypeAlias = tuple[dict[str, Any], str]
"""A step as a program reads it, and as a person does."""

SETTLED: Final = (StepKind.DELIVERED, StepKind.STORED, StepKind.DROPPED)
"""Kinds after which no more is to be told of the subscriptions that they speak of."""

OF_BROKERS: Final = (StepKind.PUBLISHED, StepKind.SENT, StepKind.LOST)
"""Kinds whose parties are brokers."""

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

    def take(self, traced: Step | Brokers) -> Iterator[Told]:
        """Something more is told."""
        if isinstance(traced, Brokers):
            self._names |= dict(zip(traced.ids, traced.names, strict=True))
            return
        self._note(traced)
        yield self._facts(traced), self._line(traced)

    @property
    def complete(self) -> bool:
        """Whether all is told."""
        if self._ended:
            return True
        elsewhere = sum(home != self._root for home in self._matched.keys() | self._lost.keys())
        return 0 <= self._homes <= elsewhere and all(left <= 0 for left in self._matched.values())

    def end(self) -> Told:
        """What it comes to."""
        waiting = sorted(self._name(home) for home, left in self._matched.items() if left > 0)
        missing = max(0, self._homes - sum(home != self._root for home in self._matched.keys() | self._lost.keys()))
        facts = {
            "kind": "end", "complete": self.complete, "brokers": len(self._matched), "delivered": self._delivered,
            "dropped": self._dropped, "waiting_at": waiting, "silent": missing,
        }  # fmt: skip
        line = f"delivered {self._delivered}, dropped {self._dropped}"
        if waiting:
            line += f"; not told yet what became of all at {', '.join(waiting)}"
        if missing:
            line += f"; {missing} broker{'' if missing == 1 else 's'} that it is for told nothing"
        if self._homes < 0 and not self._ended:
            line = "its publisher's broker told nothing"
        return facts, line

    # --- inside -------------------------------------------------------------------------------------------------------

    def _note(self, step: Step) -> None:
        match step.kind:
            case StepKind.PUBLISHED:
                self._root, self._homes = step.source, step.count
                self._depths[step.source] = 0
            case StepKind.SENT:
                self._depths.setdefault(step.peer, min(DEPTH_MAX, self._depths.get(step.source, 0) + 1))
            case StepKind.ARRIVED:
                self._matched[step.source] = self._matched.get(step.source, 0) + step.count
                self._depths.setdefault(step.source, min(DEPTH_MAX, self._depths.get(step.peer, 0) + 1))
            case StepKind.LOST:
                self._lost |= dict.fromkeys(step.parties)
            case StepKind.DROPPED if not step.parties and step.source == self._root and self._homes < 0:
                self._ended = True
        if step.kind in SETTLED:
            self._matched[step.source] = self._matched.get(step.source, 0) - step.count
            self._delivered += step.count * (step.kind == StepKind.DELIVERED)
            self._dropped += step.count * (step.kind == StepKind.DROPPED)

    def _facts(self, step: Step) -> dict[str, Any]:
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
        }

    def _line(self, step: Step) -> str:
        at = INDENT * self._depths.get(step.source, 1) + self._name(step.source)
        took, after = shown(step.took_us / 1e6), shown(step.delay_us / 1e6)
        whom = self._whom(step)
        match step.kind:
            case StepKind.PUBLISHED:
                said = f"published {EventId(step.publisher, step.sequence)}, matched in {took}; for {whom}"
            case StepKind.SENT:
                queued = f", queued {took}" if step.took_us else ""
                said = f"-> {self._name(step.peer)} for {whom}{queued}, link {shown(step.link_us / 1e6)}"
            case StepKind.ARRIVED:
                came = f"arrived from {self._name(step.peer)} after {after}, " if step.peer else ""
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
        return f"{at}: {said}"

    def _whom(self, step: Step) -> str:
        """The parties of a step, for people."""
        named = self._parties(step)
        more = step.count - len(named)
        if not step.count:
            return "no other broker"
        return ", ".join(named) + (f" and {more} more" if more > 0 else "")

    def _parties(self, step: Step) -> list[str]:
        if step.kind in OF_BROKERS:
            return [self._name(party) for party in step.parties]
        return [f"{self._name(step.source)}/{party}" for party in step.parties]

    def _name(self, broker: int) -> str:
        return self._names.get(broker) or id_text(broker)
