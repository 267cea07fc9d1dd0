"""Delays of a running broker as its operator sees them: histograms of the metrics, percentiles in `plait ls`."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse
from scripted import client_of, running

from plait_broker import Broker
from plait_broker.web.metrics.broker_metrics import BrokerCollector, new_registry

EVENTS = 50


def counts(broker: Broker) -> dict[str, float]:
    """Return the count of each delay histogram of the metrics."""
    page = generate_latest(new_registry(BrokerCollector("1", lambda: broker, lambda: None, lambda: None))).decode()
    return {
        family.name: sample.value
        for family in parse(page)
        for sample in family.samples
        if family.type == "histogram" and sample.name.endswith("_count")
    }


async def test_every_event_and_every_delivery_is_counted_once() -> None:
    async with (
        running() as server,
        client_of(server, "subscriber", 1) as subscriber,
        client_of(server, "publisher", 2) as source,
    ):
        assert server.broker is not None
        assert server.broker.describe()["counters"]["delivery_delay_ms"] == {"p50": None, "p90": None, "p99": None}
        await subscriber.subscribe("true")
        await source.send_bytes(b"".join(source.published({"n": n}) for n in range(EVENTS)))
        for n in range(EVENTS):
            assert await subscriber.delivered() == {"n": n}
        assert counts(server.broker) == {
            "plait_delivery_delay_seconds": EVENTS,
            "plait_matching_seconds": EVENTS,
            "plait_waiting_seconds": 0,
        }
        counters = server.broker.describe()["counters"]
        assert counters["delivered"] == EVENTS
        for times in (counters["delivery_delay_ms"], counters["matching_ms"]):
            assert 0 <= times["p50"] <= times["p90"] <= times["p99"]
