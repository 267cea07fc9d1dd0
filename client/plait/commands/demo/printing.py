"""Output of the demo: lines for people, coloured at a terminal, or one JSON object a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click

from plait_core.values import Json

from ..terminal.durations import shown
from ..terminal.output import attributes_text, print_json
from ..terminal.percentiles import percentile
from ..terminal.tables import print_table
from .analysis import MISSING
from .listeners import KILLED
from .record import key_of

if TYPE_CHECKING:
    from plait_core import Attributes

    from .listeners import Listener
    from .record import Record, Subscriber


LINKS_A_LINE: Final = 4

ENGINES: Final = {"spark": "Spark", "duckdb": "DuckDB"}


class DemoPrinter:
    """Prints the steps and results of one demo."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._began = monotonic()

    def step(self, text: str, **facts: Any) -> None:
        """Print that a step of the demo has happened."""
        if self._as_json:
            print_json({"kind": "step", "at_s": self._at(), "text": text, **facts})
        else:
            click.echo(f"{self._at():5.1f} s  {click.style(text, bold=True)}")

    def links(self, delays_ms: Mapping[tuple[str, str], float]) -> None:
        """Print the links and their delays."""
        if self._as_json:
            for (near, far), delay_ms in delays_ms.items():
                print_json({"kind": "link", "between": [near, far], "delay_ms": delay_ms})
        else:
            named = [f"{near} - {far} {delay_ms:g} ms" for (near, far), delay_ms in delays_ms.items()]
            for at in range(0, len(named), LINKS_A_LINE):
                click.echo(f"{'':9}{'   '.join(named[at : at + LINKS_A_LINE])}")

    def paths(self, when: str, delays: Mapping[tuple[str, ...], Sequence[float]]) -> None:
        """Print the paths that events took, and their delays."""
        for path, delays_s in sorted(delays.items(), key=lambda item: -len(item[1])):
            p50_s, p99_s = percentile(delays_s, 0.5), percentile(delays_s, 0.99)
            if self._as_json:
                print_json({"kind": "way", "when": when, "path": path, "events": len(delays_s),
                            "p50_ms": round(p50_s * 1000, 3), "p99_ms": round(p99_s * 1000, 3)})  # fmt: skip
            else:
                written = " > ".join(path)
                click.echo(
                    f"{'':9}{when:<7} {written:<40} {len(delays_s):5} events, p50 {shown(p50_s)}, p99 {shown(p99_s)}"
                )

    def listener(self, listener: Listener) -> None:
        """Print one listener."""
        if self._as_json:
            print_json({"kind": "listener", "name": listener.name, "at": listener.at, "filter": listener.filter.text})
        else:
            click.echo(f"{'':9}{listener.name:<12} in {listener.at:<7} {listener.filter.text:<38} {listener.about}")

    def deliveries(self, feed: str, id: str, attributes: Attributes, record: Record) -> None:
        """Print which listeners one event was delivered to, and for the others why not."""
        if not self._as_json:
            click.echo(f"{self._at():5.1f} s  {feed} publishes {attributes_text(attributes)}")
        for subscriber in record.subscribers:
            explanation = subscriber.listener.filter.explain(attributes)
            why = "; ".join(str(reason) for reason in explanation.reasons)
            delay_s = record.delay_s(subscriber, key_of(attributes))
            if self._as_json:
                print_json(
                    {
                        "kind": "journey",
                        "event": id,
                        "attributes": attributes,
                        "listener": subscriber.listener.name,
                        "matches": explanation.result is True,
                        "delivered": delay_s is not None,
                        "why": why,
                    }
                )
            elif explanation.result is True:
                state = f"after {shown(delay_s)}" if delay_s is not None else "not delivered yet, or dropped"
                click.echo(f"{'':9}{click.style('->', fg='green')} {subscriber.listener.name:<12} {state}")
            else:
                click.echo(f"{'':9}{click.style('x', fg='yellow')}  {subscriber.listener.name:<12} {why}")

    def tally(self, record: Record) -> None:
        """Print the counts so far."""
        published, deliveries, filtered = len(record.published), record.deliveries, record.filtered_out
        if self._as_json:
            print_json({"kind": "tally", "at_s": self._at(), "published": published, "deliveries": deliveries,
                        "filtered_out": filtered})  # fmt: skip
        else:
            click.echo(f"{self._at():5.1f} s  published {published}, delivered {deliveries}, filtered out {filtered}")

    def result(self, record: Record, faults: list[str]) -> None:
        """Print the result of each listener, and the faults."""
        confirmed = sum(event.confirmed for event in record.published.values())
        if self._as_json:
            for subscriber in record.subscribers:
                print_json({"kind": "result", **_facts(record, subscriber)})
            print_json({"kind": "verdict", "ok": not faults, "faults": faults, "published": len(record.published),
                        "confirmed": confirmed, "deliveries": record.deliveries,
                        "filtered_out": record.filtered_out})  # fmt: skip
            return
        click.echo()
        columns = ["LISTENER", "MATCHED", "DELIVERED", "NOT DELIVERED", "P50", "P99", "SLOWEST"]
        rows = [_row(_facts(record, subscriber)) for subscriber in record.subscribers]
        print_table(columns, rows, right=["MATCHED", "DELIVERED", "P50", "P99", "SLOWEST"])
        pairs = len(record.published) * len(record.subscribers)
        click.echo("Delays from publish() to the listener's code, without those of the crash.")
        share = 100 * record.filtered_out / pairs if pairs else 0.0
        click.echo(
            f"\n{len(record.published)} events published, {confirmed} confirmed; {record.deliveries} deliveries; "
            f"{record.filtered_out} of {pairs} ({share:.0f} %) filtered out by brokers, never sent."
        )
        for fault in faults:
            click.echo(f"{click.style('fault', fg='red', bold=True)}: {fault}")
        if not faults:
            ok = click.style("ok", fg="green", bold=True)
            click.echo(f"{ok}: every delivery matches its filter, no event came twice, every drop is counted.")
            click.echo(f"{ok}: no confirmed event was lost, though {KILLED} was killed: "
                       "neither those that passed through it nor those of its durable listener.")  # fmt: skip

    def analysis(self, found: tuple[str, Json] | None) -> None:
        """Print the report on the brokers' telemetry."""
        if self._as_json:
            engine, facts = found or (None, {})
            print_json({"kind": "analysis", "engine": engine, **{k: v for k, v in facts.items() if k != "lines"}})
            return
        if found is None:
            click.echo(f"\n{MISSING}")
            return
        engine, facts = found
        click.echo(f"\nThe brokers' telemetry (plait analyze, by {ENGINES.get(engine, engine)}):")
        for line in facts["lines"]:
            click.echo(f"  {line}")
        if facts["missing"]:
            click.echo(f"  Records that {KILLED} had not written when it was killed are missing.")

    def _at(self) -> float:
        return round(monotonic() - self._began, 2)


def _facts(record: Record, subscriber: Subscriber) -> Json:
    matched = record.matched(subscriber.listener)
    calm = record.matched(subscriber.listener, "calm", "slow", "after")
    delays_s = sorted(delay_s for key in calm if (delay_s := record.delay_s(subscriber, key)) is not None)
    missing = len(set(matched) - set(subscriber.received))
    reasons = {reason: count for reason, count in subscriber.reasons.items() if count}
    if (crash := missing - sum(reasons.values())) > 0:
        reasons["broker down"] = crash
    return {
        "listener": subscriber.listener.name,
        "matched": len(matched),
        "delivered": len(subscriber.received),
        "not_delivered": reasons,
        "delay_ms": {
            name: round(percentile(delays_s, share) * 1000, 3) if delays_s else None
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        },
    }


def _row(facts: Json) -> list[str]:
    dropped = ", ".join(f"{count} {reason}" for reason, count in facts["not_delivered"].items())
    delays = [shown(ms / 1000) if ms is not None else "" for ms in facts["delay_ms"].values()]
    return [facts["listener"], str(facts["matched"]), str(facts["delivered"]), dropped, *delays]
