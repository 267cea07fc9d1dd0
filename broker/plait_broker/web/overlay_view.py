"""The state of the whole overlay for the live page: link state, and the summary that each broker sends of itself.

While a page is open, every other broker is queried for its summary in turn: once a second, or up to every four seconds
where there are many. Without an open page no broker is queried. All pages are sent the same state. Incidents come from
the logs of the brokers (`tracing/incidents/`), so they do not depend on an open page.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from plait_core.ids import id_text
from plait_core.values import Json
from plait_core.wire.frame_types.overlay_frames import LinkState

from ..broker_view import BrokerView
from ..drop_reasons import LOST, count_late, count_lost
from ..tracing.broker_summary import describe_summary
from .incidents import IncidentList
from .recent_history import RecentHistory
from .sse import INTERVAL_S, Sample
from .summary_reader import (
    CounterDelta,
    SummaryReading,
    http_address,
    number,
    number_or_none,
    numbers,
    percentile_ms,
    short,
    text,
)

QueryBrokers: TypeAlias = Callable[[Iterable[int], str, Json], Awaitable[dict[int, Json]]]

ROUND_S_MIN, ROUND_S_MAX = 1.0, 4.0
QUERIES_PER_S: Final = 20.0
"""Brokers queried a second: sixty are all queried within three seconds."""

SILENT_S: Final = 6.0
"""Time for which queries are unanswered until a reachable broker is shown as silent."""

PAUSE_S: Final = 5.0
"""Time between two samples after which no page was open. Queries from before do not show that a broker is silent."""

REMEMBERED_S: Final = 120.0
"""Time for which brokers and links that have disappeared are still shown."""

SUBSCRIPTIONS_MAX: Final = 240
"""Subscriptions on the page. The lists of the API have all."""


@dataclass(slots=True)
class SeenBroker:
    """The known state of one broker."""

    name: str
    received_at: float
    queried_since: float | None = None
    """When the first query since its last answer was sent."""
    silent: bool = False
    reading: SummaryReading | None = None
    change: CounterDelta | None = None
    queried: bool = False
    times: dict[str, float] = field(default_factory=dict)
    """Delays of its latest deliveries, counts by bits."""
    cpu: float | None = None
    removed_at: float | None = None


class OverlayView:
    """The state of the overlay, kept from one sample to the next."""

    def __init__(
        self,
        present: Callable[[], BrokerView | None],
        query_brokers: QueryBrokers,
        version: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._present = present
        self._query_brokers = query_brokers
        self._version = version
        self._clock = clock
        self._brokers: dict[int, SeenBroker] = {}
        self._links: dict[str, Json] = {}
        self._links_removed: dict[str, float] = {}
        self._turn = 0.0
        self._queries: set[asyncio.Task[None]] = set()
        self._sampled_at = 0.0
        self._history = RecentHistory()
        self._incidents = IncidentList()

    def sample(self) -> Sample:
        """Return the present state."""
        broker, now = self._present(), self._clock()
        if broker is None:
            return {}
        if now - self._sampled_at > REMEMBERED_S:  # no page was open for long: start anew
            self._brokers.clear()
            self._links.clear()
        if now - self._sampled_at > PAUSE_S:
            for seen in self._brokers.values():
                seen.queried_since = None
        self._sampled_at = now
        self._incidents.own_id = id_text(broker.id)
        self._update_brokers(broker, now)
        self._receive(broker.id, describe_summary(broker, {"after": self._incidents.seen(broker.id)}, now), now)
        self._query_next(broker, now)
        brokers = {id_text(id): self._shown(broker, id, seen, now) for id, seen in self._brokers.items()}
        links = self._shown_links(broker, brokers, now)
        totals = self._totals(brokers, links)
        self._report_silent(now)
        self._history.tick(now, time.time(), totals)
        return {
            "about": {
                "me": id_text(broker.id),
                "name": broker.settings.name,
                "version": self._version,
                "interval_s": INTERVAL_S,
            },
            "now": totals | self._history.percentiles,
            "brokers": brokers,
            "links": links,
            "subscriptions": self._subscriptions(),
            "history": self._history.shown,
            "incidents": self._incidents.shown,
        }

    async def close(self) -> None:
        """Cancel outstanding queries."""
        for task in self._queries:
            task.cancel()
        await asyncio.gather(*self._queries, return_exceptions=True)

    # --- brokers ------------------------------------------------------------------------------------------------------

    def _update_brokers(self, broker: BrokerView, now: float) -> None:
        """Add brokers that are new in the link state, and remove those that have left it."""
        link_states = {link_state.origin: link_state.name for link_state in broker.overlay.map.link_states}
        for id, name in link_states.items():
            known = self._brokers.setdefault(id, SeenBroker(name, now))
            known.name, known.removed_at = name, None
        for id, known in list(self._brokers.items()):
            if id in link_states:
                continue
            known.removed_at = known.removed_at or now
            if now - known.removed_at > REMEMBERED_S or known.name in link_states.values():  # or it has restarted
                del self._brokers[id]

    def _query_next(self, broker: BrokerView, now: float) -> None:
        """Query the brokers that were queried longest ago."""
        reached = broker.overlay.map.distances(broker.id)
        others = [id for id in self._brokers if id in reached and id != broker.id]
        if not others:
            return
        round_s = min(max(len(others) / QUERIES_PER_S, ROUND_S_MIN), ROUND_S_MAX)
        self._turn += len(others) * INTERVAL_S / round_s
        count, self._turn = int(self._turn), self._turn % 1
        waiting = sorted((self._brokers[id].received_at, id) for id in others if not self._brokers[id].queried)
        for _, id in islice(waiting, count):
            seen = self._brokers[id]
            seen.queried, seen.queried_since = True, seen.queried_since or now
            task = asyncio.get_running_loop().create_task(self._query_one(id))
            self._queries.add(task)
            task.add_done_callback(self._queries.discard)

    async def _query_one(self, id: int) -> None:
        answers = await self._query_brokers([id], "summary", {"after": self._incidents.seen(id)})
        seen = self._brokers.get(id)
        if seen is not None:
            seen.queried = False
        if id in answers:
            self._receive(id, answers[id], self._clock())

    def _receive(self, id: int, report: Json, now: float) -> None:
        """Take in a summary."""
        seen = self._brokers.get(id)
        if seen is None or "counts" not in report:
            return
        reading = SummaryReading(report)
        if seen.reading is not None:
            change = seen.change = CounterDelta(seen.reading, reading)
            before, after = seen.reading.resources.get("cpu_s"), reading.resources.get("cpu_s")
            seen.cpu = short(max(0.0, number(after) - number(before)) / change.elapsed_s)
            seen.times = change.times["delivery"] or seen.times
            self._history.add(change, reading)
        seen.reading, seen.received_at, seen.queried_since = reading, now, None
        self._incidents.take(id, seen.name, reading, time.time())

    def _report_silent(self, now: float) -> None:
        """Note the brokers that do not answer although paths lead to them, and those that answer again."""
        for id, seen in self._brokers.items():
            silent = _is_silent(seen, now)
            if silent and not seen.silent and seen.queried_since is not None:
                text = f"{seen.name} answers no query since {now - seen.queried_since:.0f} s, though a path leads to it"
                self._incidents.add(time.time(), "leave", id_text(id), text)
            elif seen.silent and seen.queried_since is None:
                self._incidents.add(time.time(), "join", id_text(id), f"{seen.name} answers queries again")
            seen.silent = silent

    # --- what is shown ------------------------------------------------------------------------------------------------

    def _shown(self, broker: BrokerView, id: int, seen: SeenBroker, now: float) -> Json:
        reading, change = seen.reading, seen.change
        distance_us = broker.overlay.map.distances(broker.id).get(id)
        facts: Json = {
            "name": seen.name,
            "status": _status(seen, distance_us is not None, now),
            "distance_ms": None if distance_us is None else short(distance_us / 1000),
            "page": "" if reading is None else _page(reading, broker.overlay.map.known.get(id)),
        }
        if reading is None or seen.removed_at is not None or distance_us is None:
            return facts
        facts |= reading.held
        facts |= {
            "started": round((time.time() - reading.uptime_s) / 10) * 10,
            "cpu": seen.cpu,
            "rss": number(reading.resources.get("rss")),
            "busy": None if change is None else change.busy,
            "lag_ms": short(number(reading.resources.get("lag_s")) * 1000),
            "fds": number(reading.resources.get("fds")),
            "collections": number(reading.resources.get("collections")),
            "drops": reading.dropped,
            "refused": reading.refused,
            "lost": reading.lost,
            "late": reading.late,
            "p50_ms": percentile_ms(seen.times, 0.5),
            "p99_ms": percentile_ms(seen.times, 0.99),
        }
        if change is not None:
            rates = ("published", "delivered", "forwarded", "arrived", "bytes_in", "bytes_out")
            facts |= {f"{name}_s": change.rate(name) for name in rates}
            facts["lost_s"] = short(change.lost / change.elapsed_s)
            facts["late_s"] = short(change.late / change.elapsed_s)
            facts["reasons"] = {reason: short(n / change.elapsed_s) for reason, n in change.dropped.items()}
        return facts

    def _shown_links(self, broker: BrokerView, brokers: dict[str, Json], now: float) -> dict[str, Json]:
        """Return both directions of every link: as its near end measures it, or as the link state has it."""
        found: dict[str, Json] = {}
        for link_state in broker.overlay.map.link_states:
            near = id_text(link_state.origin)
            if brokers.get(near, {}).get("status") in (None, "gone", "out of reach"):
                continue
            for far, delay_us in zip(link_state.neighbours, link_state.delays_us, strict=True):
                link = {"from": near, "to": id_text(far), "delay_ms": short(delay_us / 1000), "state": "up"}
                found[f"{near}>{id_text(far)}"] = link
        for id, seen in self._brokers.items():
            near = id_text(id)
            if seen.reading is not None and brokers[near]["status"] in ("ready", "draining"):
                for report in seen.reading.links:
                    self._measure(found, near, report)
        return self._with_lost_links(found, now)

    def _measure(self, found: dict[str, Json], near: str, report: Mapping[str, Any]) -> None:
        """Add what a link's near end reports."""
        key = f"{near}>{text(report.get('broker'))}"
        link, before = found.get(key), self._links.get(key, {})
        if link is None:
            return
        link |= {
            "delay_ms": number_or_none(report.get("delay_ms")),
            "jitter_ms": number_or_none(report.get("jitter_ms")),
            "loss": number(report.get("loss")),
            "state": report["state"] if report.get("state") in ("silent", "disputed") else "up",
            "events": number(report.get("events")),
            "full": report.get("full") is True,
            "pending_bytes": number(report.get("pending_bytes")),
            "oldest_s": number_or_none(report.get("oldest_s")),
            "bytes_s": number(report.get("bytes_s")),
            "capacity": number_or_none(report.get("measured_capacity")),
            "utilisation": number_or_none(report.get("utilisation")),
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
        """Add links that have disappeared recently."""
        for key in found:
            self._links_removed.pop(key, None)
            self._links.setdefault(key, dict(found[key]))
        for key in list(self._links):
            if key in found:
                continue
            removed_at = self._links_removed.setdefault(key, now)
            near, _, far = key.partition(">")
            known = {id_text(id) for id in self._brokers}
            if now - removed_at > REMEMBERED_S or near not in known or far not in known:
                del self._links[key], self._links_removed[key]
            else:
                found[key] = {"from": near, "to": far, "delay_ms": None, "state": "down"}
        return found

    def _subscriptions(self) -> dict[str, Json]:
        """Return the most interesting subscriptions of all brokers."""
        rows: list[tuple[float, float, str, Json]] = []
        for id, seen in self._brokers.items():
            if seen.reading is None or seen.removed_at is not None:
                continue
            for report in seen.reading.shown:
                row = _row(id_text(id), seen.name, report)
                key = f"{id_text(id)}/{row['number']:.0f}"
                rows.append((-row["pending"] - row["lost"] - row["late"], -row["delivered"], key, row))
        rows.sort(key=lambda row: row[:3])
        return {key: row for _, _, key, row in rows[:SUBSCRIPTIONS_MAX]}

    def _totals(self, brokers: dict[str, Json], links: dict[str, Json]) -> Json:
        here = [facts for facts in brokers.values() if facts["status"] in ("ready", "draining", "silent")]
        totals: Json = {
            name: short(sum(facts.get(name) or 0 for facts in here))
            for name in ("published_s", "delivered_s", "lost_s", "late_s", "forwarded_s")
        }
        for name in ("clients", "subscriptions", "advertisements", "pending", "slow_consumers", "exported"):
            totals[name] = sum(facts.get(name) or 0 for facts in here)
        reasons: dict[str, float] = {}
        for facts in here:
            for reason, rate in facts.get("reasons", {}).items():
                reasons[reason] = short(reasons.get(reason, 0) + rate)
        return totals | {
            "reasons": reasons,
            "lost_reasons": {reason: rate for reason, rate in reasons.items() if reason in LOST},
            "brokers": len(brokers),
            "brokers_up": sum(facts["status"] in ("ready", "draining") for facts in brokers.values()),
            "links": len(links) // 2,
            "links_up": sum(link["state"] == "up" for link in links.values()) // 2,
        }


def _status(seen: SeenBroker, reached: bool, now: float) -> str:
    if seen.removed_at is not None:
        return "gone"
    if not reached:
        return "out of reach"
    if _is_silent(seen, now):
        return "silent"
    return "draining" if seen.reading is not None and seen.reading.draining else "ready"


def _page(reading: SummaryReading, link_state: LinkState | None) -> str:
    """Return the address of a broker's page. A broker that listens on all addresses does not name its host; the host
    where other brokers reach it is one of them."""
    if reading.http is None:
        return ""
    scheme, host, port = reading.http
    host = host or ("" if link_state is None else link_state.address.rpartition(":")[0])
    return f"{scheme}://{host}:{port}/" if http_address(f"{scheme}://{host}:{port}") is not None and host else ""


def _is_silent(seen: SeenBroker, now: float) -> bool:
    return seen.queried_since is not None and now - seen.queried_since > SILENT_S


def _row(broker: str, name: str, report: Mapping[str, Any]) -> Json:
    """Return one subscription as its broker reports it."""
    dropped, client_dropped = numbers(report.get("dropped")), numbers(report.get("client_dropped"))
    return {
        "broker": broker,
        "at": name,
        "number": number(report.get("number")),
        "client": text(report.get("client")),
        "filter": text(report.get("filter")),
        "within_ms": number_or_none(report.get("within_ms")),
        "connected": report.get("connected") is True,
        "durable": text(report.get("durable")),
        "oldest_s": number_or_none(report.get("oldest_s")),
        "seen_s": number_or_none(report.get("seen_s")),
        "counted": report.get("counted") is not False,
        "delivered": number(report.get("delivered")),
        "late": count_late(dropped, number(report.get("late"))),
        "lost": count_lost(dropped) + sum(client_dropped.values()),
        "dropped": dropped,
        "handed_out": number_or_none(report.get("handed_out")),
        "client_waiting": number_or_none(report.get("client_waiting")),
        "client_dropped": client_dropped,
        "pending": number(report.get("pending")),
        "pending_bytes": number(report.get("pending_bytes")),
        "slow": report.get("slow") is True,
        "p50_ms": number_or_none(report.get("p50_ms")),
        "p99_ms": number_or_none(report.get("p99_ms")),
    }
