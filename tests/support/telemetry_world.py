"""Synthetic telemetry of brokers, with the expected contents of every table.

The expected contents are counted in plain Python while the records are made, separately from the code under test.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from plait_core.telemetry import FULL, LATE, RECORD_BYTES, TO_BROKER, RecordKind, reason_code
from plait_core.telemetry.records import RECORD
from plait_telemetry.writer import SegmentLimits, SegmentWriter

START_US = 1_790_000_040_000_000  # ten seconds before a minute ends
MINUTE_US = 60_000_000
BROKERS = (0xFEDCBA9876543210, 0x11, 0x22)
PUBLISHERS = {0xA000000000000001: BROKERS[0], 7: BROKERS[0], 9: BROKERS[1]}
SUBSCRIPTIONS = {(broker, number): 50_000 if number % 2 else 0 for broker in BROKERS for number in (1, 2, 3)}

COLUMNS = {"outbox_items": "overflow", "outbox_bytes": "overflow", "retention": "other"}
"""Columns that count the drop reasons without a column of their own."""


def publisher_name(id: int) -> str:
    return f"publisher-{id & 15}"


def window(ts_us: int) -> int:
    return ts_us // MINUTE_US * MINUTE_US


@dataclass
class Lane:
    """A sample of a lane."""

    waiting_bytes: int
    bytes: int
    waiting_us: int
    capacity: int
    full: bool


@dataclass
class Truth:
    """Expected contents of the tables."""

    subscriptions: dict[tuple[int, int, int], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Counts by window, broker and number."""
    delays: dict[tuple[int, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    brokers: dict[tuple[int, int], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    links: dict[tuple[int, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    lanes: dict[tuple[int, int, int], list[Lane]] = field(default_factory=lambda: defaultdict(list))
    copies: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    matching: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    published: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Sequence and time by window and publisher."""
    flows: dict[tuple[int, int, int], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    content: dict[tuple[int, int, int, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Lifetimes by window, broker, publisher and dz-expression. 0 means none."""
    missing: dict[tuple[int, int], str] = field(default_factory=dict)
    """Defect of each incomplete event."""


class World:
    """Makes events, and writes the records that their brokers would write."""

    def __init__(self, seed: int, *, faults: bool = True, start_us: int = START_US) -> None:
        self.chance = Random(seed)
        self._about = Random(seed + 1)
        self.faults = faults
        self.truth = Truth()
        self.records: dict[int, list[bytes]] = {broker: [] for broker in BROKERS}
        self._start_us = self._now = start_us

    def run(self, events: int) -> World:
        """Make a number of events of publishers in turn, with samples between them."""
        sequences: Counter[int] = Counter()
        for n in range(events):
            self._now += self.chance.randrange(1, 60_000)
            publisher = self.chance.choice(list(PUBLISHERS))
            sequences[publisher] += 1
            self._event(publisher, sequences[publisher])
            if not n % 10:
                self._samples()
        return self

    def write(self, directory: Path, segment_records: int = 200) -> Path:
        """Write the segments as brokers do."""
        for number, (broker, records) in enumerate(self.records.items()):
            limits = SegmentLimits((segment_records + 1) * RECORD_BYTES, 60.0, 1 << 40)
            segments = SegmentWriter(directory / f"broker-{number}", broker, self._start_us, limits)
            segments.open()
            segments.name([{"kind": "broker", "id": f"{broker:016x}", "name": f"b{number}"}])
            segments.name(
                [
                    {"kind": "publisher", "id": f"{id:016x}", "name": publisher_name(id)}
                    for id, home in PUBLISHERS.items()
                    if home == broker
                ]
            )
            segments.name(
                [
                    {"kind": "subscription", "id": n, "filter": f"f == {n}", "client": f"c{number}", "within_us": bound}
                    for (home, n), bound in SUBSCRIPTIONS.items()
                    if home == broker
                ]
            )
            for record in records:
                segments.write([memoryview(record)], 0.0)
            segments.seal() if number else segments.abandon()  # one broker still runs
        return directory

    # --- inside -------------------------------------------------------------------------------------------------------

    def _put(self, broker: int, kind: RecordKind, ts_us: int, *, event: tuple[int, int] = (0, 0), subject: int = 0,
             delay_us: int = 0, bound_us: int = 0, size: int = 0, count: int = 0, expected: int = 0,
             reason: str = "", flags: int = 0) -> None:  # fmt: skip
        self.records[broker].append(
            RECORD.pack(
                ts_us, self._now, *event, subject, delay_us, bound_us, size, count, expected, 1, int(kind),
                reason_code(reason), 1, flags,
            )
        )  # fmt: skip
        facts = self.truth.brokers[window(ts_us), broker]
        facts[kind.name] += 1

    def _event(self, publisher: int, sequence: int) -> None:
        home, event, now, chance = PUBLISHERS[publisher], (publisher, sequence), self._now, self.chance
        wanted = {broker: [n for n in (1, 2, 3) if chance.random() < 0.4] for broker in BROKERS}
        others = [broker for broker in BROKERS if broker != home and wanted[broker]]
        cell, lifetime_us = self._content(home, publisher)
        self._put(home, RecordKind.PUBLISH, now, event=event, subject=cell, bound_us=lifetime_us, size=100,
                  count=len(others), expected=len(wanted[home]))  # fmt: skip
        self.truth.published[window(now), publisher].append((sequence, now))
        if wanted[home]:
            self._flow(home, home, now, len(wanted[home]))
        for number in wanted[home]:
            self._delivery(home, number, event, now, chance.randrange(1, 5_000))
        for other in others:
            ts_us = now + chance.randrange(200, 9_000)
            self._put(home, RecordKind.FORWARD, now, event=event, subject=other, size=100, count=1)
            self.truth.copies[window(now), home, other] += 1
            fate = chance.random() if self.faults else 1.0
            if fate < 0.01:
                self.truth.missing[event] = "a copy vanished"
                continue
            if fate < 0.03:
                self._put(
                    home, RecordKind.DROP, ts_us, event=event, subject=other, reason="unreachable", flags=TO_BROKER
                )
                continue
            self._put(
                other, RecordKind.ARRIVAL, ts_us, event=event, subject=home, size=100, expected=len(wanted[other])
            )
            self._flow(home, other, ts_us, len(wanted[other]))
            for number in wanted[other]:
                self._delivery(other, number, event, ts_us, ts_us - now)

    def _content(self, home: int, publisher: int) -> tuple[int, int]:
        """Return an event's place in the space, and its lifetime. One publisher has no space."""
        about, spaced = self._about, publisher != 7
        dz = about.choice(["", "0", "0110", "111111111111", "000000000000"]) if about.random() < 0.9 else None
        lifetime_us = about.choice([0, 0, 5_000, about.randrange(1, 2**32)])
        if not spaced or dz is None:
            return 0, lifetime_us
        self.truth.content[window(self._now), home, publisher, dz].append(lifetime_us)
        return int(f"1{dz}", 2), lifetime_us

    def _flow(self, source: int, destination: int, ts_us: int, matched: int) -> None:
        facts = self.truth.flows[window(ts_us), source, destination]
        facts["events"] += 1
        facts["matched"] += matched

    def _delivery(self, broker: int, number: int, event: tuple[int, int], ts_us: int, delay_us: int) -> None:
        bound_us, key = SUBSCRIPTIONS[broker, number], (window(ts_us), broker, number)
        facts, chance = self.truth.subscriptions[key], self.chance
        fate = chance.random() if self.faults else 1.0
        if fate < 0.01:
            self.truth.missing[event] = "a delivery vanished"
            return
        facts["matched"] += 1
        if fate < 0.1:
            reason = chance.choice(
                ["late", "outbox_items", "outbox_bytes", "forbidden", "gone", "expired", "retention"]
            )
            kind = RecordKind.EXPIRY if reason == "expired" else RecordKind.DROP
            self._put(broker, kind, ts_us, event=event, subject=number, reason=reason, size=100)
            facts[f"lost_{COLUMNS.get(reason, reason)}"] += 1
            return
        if fate < 0.15:
            delay_us += 60_000
        late = bool(bound_us) and delay_us > bound_us
        for _ in range(2 if 0.15 <= fate < 0.16 else 1):
            self._put(
                broker, RecordKind.DELIVERY, ts_us, event=event, subject=number, delay_us=delay_us, bound_us=bound_us,
                size=100, count=1, flags=LATE if late else 0,
            )  # fmt: skip
            facts["delivered"] += 1
            facts["late" if late else "on_time"] += 1
            self.truth.delays[key].append(delay_us)
        if 0.15 <= fate < 0.16:
            facts["matched"] += 1
            self.truth.missing[event] = "delivered twice"

    def _samples(self) -> None:
        now, chance = self._now, self.chance
        for broker in BROKERS:
            events, elapsed_us = chance.randrange(1, 50), chance.randrange(50, 9_000)
            self._put(broker, RecordKind.MATCH, now, count=events, delay_us=elapsed_us)
            self.truth.matching[window(now), broker].append((events, elapsed_us))
            self._put(
                broker, RecordKind.QUEUE, now, subject=3, count=chance.randrange(50), size=chance.randrange(9_000)
            )
            for other in BROKERS:
                if other != broker:
                    delay_us = chance.randrange(100, 20_000)
                    self._put(broker, RecordKind.LINK, now, subject=other, delay_us=delay_us, bound_us=delay_us // 10)
                    self.truth.links[window(now), broker, other].append(delay_us)
                    lane = Lane(3 * delay_us, delay_us, delay_us // 2, 50_000 + delay_us, full=delay_us > 15_000)
                    self._put(broker, RecordKind.LANE, now, subject=other, size=lane.waiting_bytes, count=lane.bytes,
                              delay_us=lane.waiting_us, bound_us=lane.capacity, flags=FULL * lane.full)  # fmt: skip
                    self.truth.lanes[window(now), broker, other].append(lane)
