"""Prints the demo as it happens: lines for people, coloured at a terminal, or one JSON object a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click

from ..terminal.durations import shown
from ..terminal.output import attributes_text, print_json
from ..terminal.percentiles import percentile
from ..terminal.tables import print_table
from .analysis import MISSING
from .listeners import KILLED
from .record import key_of

if TYPE_CHECKING:
    from plait_core import Attributes

    from .record import Ear, Record


LINKS_A_LINE: Final = 4

ENGINES: Final = {"spark": "Spark", "duckdb": "DuckDB"}


class Telling:
    """What is told, in order."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._began = monotonic()

    def step(self, text: str, **facts: Any) -> None:
        """Something happens."""
        if self._as_json:
            print_json({"kind": "step", "at_s": self._at(), "text": text, **facts})
        else:
            click.echo(f"{self._at():5.1f} s  {click.style(text, bold=True)}")

    def links(self, delays_ms: Mapping[tuple[str, str], float]) -> None:
        """How the brokers are linked."""
        if self._as_json:
            for (near, far), delay_ms in delays_ms.items():
                print_json({"kind": "link", "between": [near, far], "delay_ms": delay_ms})
        else:
            named = [f"{near} - {far} {delay_ms:g} ms" for (near, far), delay_ms in delays_ms.items()]
            for at in range(0, len(named), LINKS_A_LINE):
                click.echo(f"{'':9}{'   '.join(named[at : at + LINKS_A_LINE])}")

    def ways(self, when: str, ways: Mapping[tuple[str, ...], Sequence[float]]) -> None:
        """The ways that events took, and how long they took."""
        for path, delays_s in sorted(ways.items(), key=lambda way: -len(way[1])):
            p50_s, p99_s = percentile(delays_s, 0.5), percentile(delays_s, 0.99)
            if self._as_json:
                print_json({"kind": "way", "when": when, "path": path, "events": len(delays_s),
                            "p50_ms": round(p50_s * 1000, 3), "p99_ms": round(p99_s * 1000, 3)})  # fmt: skip
            else:
                way = " > ".join(path)
                click.echo(
                    f"{'':9}{when:<7} {way:<40} {len(delays_s):5} events, p50 {shown(p50_s)}, p99 {shown(p99_s)}"
                )

    def listener(self, ear: Ear) -> None:
        """Who listens."""
        listener = ear.listener
        if self._as_json:
            print_json({"kind": "listener", "name": listener.name, "at": listener.at, "filter": listener.filter.text})
        else:
            click.echo(f"{'':9}{listener.name:<12} in {listener.at:<7} {listener.filter.text:<38} {listener.about}")

    def journey(self, feed: str, id: str, attributes: Attributes, record: Record) -> None:
        """One event: to whom it went and why, and why not to the others."""
        if not self._as_json:
            click.echo(f"{self._at():5.1f} s  {feed} publishes {attributes_text(attributes)}")
        for ear in record.ears:
            explanation = ear.listener.filter.explain(attributes)
            why = "; ".join(str(reason) for reason in explanation.reasons)
            delay_s = record.delay_s(ear, key_of(attributes))
            if self._as_json:
                print_json(
                    {
                        "kind": "journey",
                        "event": id,
                        "attributes": attributes,
                        "listener": ear.listener.name,
                        "matches": explanation.result is True,
                        "delivered": delay_s is not None,
                        "why": why,
                    }
                )
            elif explanation.result is True:
                state = f"after {shown(delay_s)}" if delay_s is not None else "is behind, it waits or was dropped"
                click.echo(f"{'':9}{click.style('->', fg='green')} {ear.listener.name:<12} {state}")
            else:
                click.echo(f"{'':9}{click.style('x', fg='yellow')}  {ear.listener.name:<12} {why}")

    def tally(self, record: Record) -> None:
        """How it stands."""
        published, deliveries, filtered = len(record.published), record.deliveries, record.filtered_out
        if self._as_json:
            print_json({"kind": "tally", "at_s": self._at(), "published": published, "deliveries": deliveries,
                        "filtered_out": filtered})  # fmt: skip
        else:
            click.echo(
                f"{self._at():5.1f} s  published {published}, delivered {deliveries}, "
                f"kept from who did not ask {filtered}"
            )

    def result(self, record: Record, faults: list[str]) -> None:
        """How it ended."""
        confirmed = sum(event.confirmed for event in record.published.values())
        if self._as_json:
            for ear in record.ears:
                print_json({"kind": "result", **_facts(record, ear)})
            print_json({"kind": "verdict", "ok": not faults, "faults": faults, "published": len(record.published),
                        "confirmed": confirmed, "deliveries": record.deliveries,
                        "filtered_out": record.filtered_out})  # fmt: skip
            return
        click.echo()
        columns = ["LISTENER", "MATCHED", "DELIVERED", "NOT DELIVERED", "P50", "P99", "SLOWEST"]
        rows = [_row(_facts(record, ear)) for ear in record.ears]
        print_table(columns, rows, right=["MATCHED", "DELIVERED", "P50", "P99", "SLOWEST"])
        pairs = len(record.published) * len(record.ears)
        click.echo("Delays from publish to the listener's hands; those of the crash aside.")
        share = 100 * record.filtered_out / pairs if pairs else 0.0
        click.echo(
            f"\n{len(record.published)} events published, {confirmed} confirmed; {record.deliveries} deliveries; "
            f"{record.filtered_out} of {pairs} ({share:.0f} %) filtered out by brokers, never sent."
        )
        for fault in faults:
            click.echo(f"{click.style('fault', fg='red', bold=True)}: {fault}")
        if not faults:
            ok = click.style("ok", fg="green", bold=True)
            click.echo(f"{ok}: every delivery is what its filter says, none came twice, every drop is counted.")
            click.echo(f"{ok}: nothing that was confirmed was lost, though {KILLED} was killed: "
                       "not what passed through it, nor what was for the durable listener there.")  # fmt: skip

    def analysis(self, found: tuple[str, dict[str, Any]] | None) -> None:
        """What the brokers' own records say."""
        if self._as_json:
            engine, facts = found or (None, {})
            print_json({"kind": "analysis", "engine": engine, **{k: v for k, v in facts.items() if k != "lines"}})
            return
        if found is None:
            click.echo(f"\n{MISSING}")
            return
        engine, facts = found
        click.echo(f"\nWhat the brokers recorded (plait analyze, by {ENGINES.get(engine, engine)}):")
        for line in facts["lines"]:
            click.echo(f"  {line}")
        if facts["missing"]:
            click.echo(f"  What {KILLED} had not yet written down when it was killed is missing there.")

    def _at(self) -> float:
        return round(monotonic() - self._began, 2)


def _facts(record: Record, ear: Ear) -> dict[str, Any]:
    matched = record.matched(ear.listener)
    calm = record.matched(ear.listener, "calm", "slow", "after")
    delays_s = sorted(delay_s for key in calm if (delay_s := record.delay_s(ear, key)) is not None)
    missing = len(set(matched) - set(ear.heard))
    reasons = {reason: count for reason, count in ear.reasons.items() if count}
    if (crash := missing - sum(reasons.values())) > 0:
        reasons["broker down"] = crash
    return {
        "listener": ear.listener.name,
        "matched": len(matched),
        "delivered": len(ear.heard),
        "not_delivered": reasons,
        "delay_ms": {
            name: round(percentile(delays_s, share) * 1000, 3) if delays_s else None
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        },
    }


def _row(facts: dict[str, Any]) -> list[str]:
    dropped = ", ".join(f"{count} {reason}" for reason, count in facts["not_delivered"].items())
    delays = [shown(ms / 1000) if ms is not None else "" for ms in facts["delay_ms"].values()]
    return [facts["listener"], str(facts["matched"]), str(facts["delivered"]), dropped, *delays]
