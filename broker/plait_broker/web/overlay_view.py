"""The whole overlay as one broker's page shows it: what the map says, and what each broker says of itself.

While anyone looks, every other broker is asked for its digest in turn, each once in a second or, of many, in up to
four; nobody is asked when nobody looks. All who look are shown the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from plait_core.ids import id_text

from ..broker import Broker
from ..tracing.broker_summary import describe_digest
from .incidents import Incidents
from .recent_history import RecentHistory
from .sse import INTERVAL_S, Sample
from .summary_reader import CounterDelta, SummaryReading, number, number_or_none, numbers, percentile_ms, short, text

Json: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[Iterable[int], str, Json], Awaitable[dict[int, Json]]]

ROUND_S_MIN, ROUND_S_MAX = 1.0, 4.0
ASKED_PER_S: Final = 20.0
"""Brokers asked by one page's broker: sixty are all asked within three seconds."""

SILENT_S: Final = 6.0
"""Who can be reached but has not answered for so long is said to be silent."""

REMEMBERED_S: Final = 120.0
"""Brokers and links that are no more are shown for so long, as what they are."""

SUBSCRIPTIONS_MAX: Final = 240
"""On the page; the lists of the API have them all."""


@dataclass(slots=True)
class SeenBroker:
    """One broker, as far as it is known."""

    name: str
    heard_at: float
    reading: SummaryReading | None = None
    change: CounterDelta | None = None
    asked: bool = False
    times: dict[str, float] = field(default_factory=dict)
    """Of its latest deliveries, counts by bits."""
    cpu: float | None = None
    gone_at: float | None = None


class OverlayView:
    """Kept from one sample to the next."""

    def __init__(self, present: Callable[[], Broker | None], ask: Ask, version: str) -> None:
        self._present = present
        self._ask = ask
        self._version = version
        self._brokers: dict[int, SeenBroker] = {}
        self._links: dict[str, Json] = {}
        self._links_gone: dict[str, float] = {}
        self._turn = 0.0
        self._asking: set[asyncio.Task[None]] = set()
        self._sampled_at = 0.0
        self._chronicle = RecentHistory()
        self._incidents = Incidents()

    def sample(self) -> Sample:
        """How everything is now."""
        broker, now = self._present(), time.monotonic()
        if broker is None:
            return {}
        if now - self._sampled_at > REMEMBERED_S:  # nobody has looked for long: it is another time
            self._brokers.clear()
            self._links.clear()
        self._sampled_at = now
        self._meet(broker, now)
        self._hear(broker.id, describe_digest(broker, {}, now), now)
        self._ask_next(broker, now)
        brokers = {id_text(id): self._shown(broker, id, seen, now) for id, seen in self._brokers.items()}
        links = self._shown_links(broker, brokers, now)
        totals = self._totals(brokers, links)
        self._incidents.look(time.time(), brokers, links)
        self._chronicle.tick(now, time.time(), totals)
        return {
            "about": {
                "me": id_text(broker.id),
                "name": broker.settings.name,
                "version": self._version,
                "interval_s": INTERVAL_S,
            },
            "now": totals | self._chronicle.percentiles,
            "brokers": brokers,
            "links": links,
            "subscriptions": self._subscriptions(),
            "history": self._chronicle.shown,
            "incidents": self._incidents.shown,
        }

    async def close(self) -> None:
        """Wait for no more answers."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    # --- who there is -------------------------------------------------------------------------------------------------

    def _meet(self, broker: Broker, now: float) -> None:
        """Brokers that the map has, and those that it has no more."""
        sheets = {sheet.origin: sheet.name for sheet in broker.joining.overlay.map.link_states}
        for id, name in sheets.items():
            known = self._brokers.setdefault(id, SeenBroker(name, now))
            known.name, known.gone_at = name, None
        for id, known in list(self._brokers.items()):
            if id in sheets:
                continue
            known.gone_at = known.gone_at or now
            if now - known.gone_at > REMEMBERED_S or known.name in sheets.values():  # or it has started anew
                del self._brokers[id]

    def _ask_next(self, broker: Broker, now: float) -> None:
        """Ask those whose turn it is."""
        reached = broker.joining.overlay.map.distances(broker.id)
        others = [id for id in self._brokers if id in reached and id != broker.id]
        if not others:
            return
        round_s = min(max(len(others) / ASKED_PER_S, ROUND_S_MIN), ROUND_S_MAX)
        self._turn += len(others) * INTERVAL_S / round_s
        count, self._turn = int(self._turn), self._turn % 1
        waiting = sorted((self._brokers[id].heard_at, id) for id in others if not self._brokers[id].asked)
        for _, id in islice(waiting, count):
            self._brokers[id].asked = True
            task = asyncio.get_running_loop().create_task(self._ask_one(id))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask_one(self, id: int) -> None:
        answers = await self._ask([id], "digest", {})
        seen = self._brokers.get(id)
        if seen is not None:
            seen.asked = False
        if id in answers:
            self._hear(id, answers[id], time.monotonic())

    def _hear(self, id: int, said: Json, now: float) -> None:
        """A digest came."""
        seen = self._brokers.get(id)
        if seen is None or "counts" not in said:
            return
        reading = SummaryReading(said)
        if seen.reading is not None:
            change = seen.change = CounterDelta(seen.reading, reading)
            before, after = seen.reading.resources.get("cpu_s"), reading.resources.get("cpu_s")
            seen.cpu = short(max(0.0, number(after) - number(before)) / change.elapsed_s)
            seen.times = change.times["delivery"] or seen.times
            self._chronicle.add(change, reading)
        seen.reading, seen.heard_at = reading, now

    # --- what is shown ------------------------------------------------------------------------------------------------

    def _shown(self, broker: Broker, id: int, seen: SeenBroker, now: float) -> Json:
        reading, change = seen.reading, seen.change
        distance_us = broker.joining.overlay.map.distances(broker.id).get(id)
        facts: Json = {
            "name": seen.name,
            "status": _status(seen, distance_us is not None, now),
            "distance_ms": None if distance_us is None else short(distance_us / 1000),
        }
        if reading is None or seen.gone_at is not None or distance_us is None:
            return facts
        facts |= reading.held
        facts |= {
            "started": round((time.time() - reading.uptime_s) / 10) * 10,
            "cpu": seen.cpu,
            "rss": number(reading.resources.get("rss")),
            "lag_ms": short(number(reading.resources.get("lag_s")) * 1000),
            "fds": number(reading.resources.get("fds")),
            "collections": number(reading.resources.get("collections")),
            "drops": reading.dropped,
            "refused": reading.refused,
            "lost": reading.lost,
            "rerouted": reading.counts["rerouted"],
            "p50_ms": percentile_ms(seen.times, 0.5),
            "p99_ms": percentile_ms(seen.times, 0.99),
        }
        if change is not None:
            rates = ("published", "delivered", "forwarded", "arrived", "late", "bytes_in", "bytes_out")
            facts |= {f"{name}_s": change.rate(name) for name in rates}
            facts["dropped_s"] = short(change.lost / change.elapsed_s)
            facts["reasons"] = {reason: short(n / change.elapsed_s) for reason, n in change.dropped.items()}
        return facts

    def _shown_links(self, broker: Broker, brokers: dict[str, Json], now: float) -> dict[str, Json]:
        """Both directions of every link: as its near end measures it now, or as the map has it."""
        found: dict[str, Json] = {}
        for sheet in broker.joining.overlay.map.link_states:
            near = id_text(sheet.origin)
            if brokers.get(near, {}).get("status") in (None, "gone", "out of reach"):
                continue
            for far, delay_us in zip(sheet.neighbours, sheet.delays_us, strict=True):
                link = {"from": near, "to": id_text(far), "delay_ms": short(delay_us / 1000), "state": "up"}
                found[f"{near}>{id_text(far)}"] = link
        for id, seen in self._brokers.items():
            near = id_text(id)
            if seen.reading is not None and brokers[near]["status"] in ("ready", "draining"):
                for said in seen.reading.links:
                    self._measure(found, near, said)
        return self._with_lost_links(found, now)

    def _measure(self, found: dict[str, Json], near: str, said: Mapping[str, Any]) -> None:
        """A link, as its near end says that it is."""
        key = f"{near}>{text(said.get('broker'))}"
        link, before = found.get(key), self._links.get(key, {})
        if link is None:
            return
        link |= {
            "delay_ms": number_or_none(said.get("delay_ms")),
            "jitter_ms": number_or_none(said.get("jitter_ms")),
            "loss": number(said.get("loss")),
            "state": said["state"] if said.get("state") in ("silent", "disputed") else "up",
            "events": number(said.get("events")),
            "pending_bytes": number(said.get("pending_bytes")),
        }
        change = self._brokers[int(near, 16)].change
        if change is None or "events" not in before:
            link["rate"] = 0
        elif before.get("change") is change:
            link["rate"] = before["rate"]
        else:
            link["rate"] = short(max(0, link["events"] - before["events"]) / change.elapsed_s)
        self._links[key] = {**link, "change": change}

    def _with_lost_links(self, found: dict[str, Json], now: float) -> dict[str, Json]:
        """Those that were there a while ago, too."""
        for key in found:
            self._links_gone.pop(key, None)
            self._links.setdefault(key, dict(found[key]))
        for key in list(self._links):
            if key in found:
                continue
            gone_at = self._links_gone.setdefault(key, now)
            near, _, far = key.partition(">")
            known = {id_text(id) for id in self._brokers}
            if now - gone_at > REMEMBERED_S or near not in known or far not in known:
                del self._links[key], self._links_gone[key]
            else:
                found[key] = {"from": near, "to": far, "delay_ms": None, "state": "down"}
        return found

    def _subscriptions(self) -> dict[str, Json]:
        """Of all brokers, those that one would want to see."""
        rows: list[tuple[float, float, str, Json]] = []
        for id, seen in self._brokers.items():
            if seen.reading is None or seen.gone_at is not None:
                continue
            for said in seen.reading.shown:
                row = _row(id_text(id), seen.name, said)
                key = f"{id_text(id)}/{row['number']:.0f}"
                rows.append((-row["pending"] - row["missed"], -row["delivered"], key, row))
        rows.sort(key=lambda row: row[:3])
        return {key: row for _, _, key, row in rows[:SUBSCRIPTIONS_MAX]}

    def _totals(self, brokers: dict[str, Json], links: dict[str, Json]) -> Json:
        here = [facts for facts in brokers.values() if facts["status"] in ("ready", "draining", "silent")]
        totals: Json = {
            name: short(sum(facts.get(name) or 0 for facts in here))
            for name in ("published_s", "delivered_s", "dropped_s", "late_s", "forwarded_s")
        }
        for name in ("clients", "subscriptions", "advertisements", "pending", "slow_consumers", "exported"):
            totals[name] = sum(facts.get(name) or 0 for facts in here)
        reasons: dict[str, float] = {}
        for facts in here:
            for reason, rate in facts.get("reasons", {}).items():
                reasons[reason] = short(reasons.get(reason, 0) + rate)
        return totals | {
            "reasons": reasons,
            "brokers": len(brokers),
            "brokers_up": sum(facts["status"] in ("ready", "draining") for facts in brokers.values()),
            "links": len(links) // 2,
            "links_up": sum(link["state"] == "up" for link in links.values()) // 2,
        }


def _status(seen: SeenBroker, reached: bool, now: float) -> str:
    if seen.gone_at is not None:
        return "gone"
    if not reached:
        return "out of reach"
    if now - seen.heard_at > SILENT_S:
        return "silent"
    return "draining" if seen.reading is not None and seen.reading.draining else "ready"


def _row(broker: str, name: str, said: Mapping[str, Any]) -> Json:
    """One subscription, as its broker says that it is."""
    dropped = numbers(said.get("dropped"))
    return {
        "broker": broker,
        "at": name,
        "number": number(said.get("number")),
        "client": text(said.get("client")),
        "filter": text(said.get("filter")),
        "within_ms": number_or_none(said.get("within_ms")),
        "connected": said.get("connected") is True,
        "durable": said.get("durable") is True,
        "delivered": number(said.get("delivered")),
        "late": number(said.get("late")),
        "dropped": dropped,
        "missed": number(said.get("late")) + sum(dropped.values()),
        "pending": number(said.get("pending")),
        "pending_bytes": number(said.get("pending_bytes")),
        "slow": said.get("slow") is True,
        "p50_ms": number_or_none(said.get("p50_ms")),
        "p99_ms": number_or_none(said.get("p99_ms")),
    }
