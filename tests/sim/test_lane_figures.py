"""The figures of a full lane are those of its link, and those of an idle lane name no capacity."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from math import isnan

import pytest

from plait_broker.broker import Broker
from plait_broker.overlay.topology.neighbours import Neighbour
from plait_broker.status import capacity_of, describe_links
from plait_broker.telemetry.periodic_samples import Sampler
from plait_broker.tracing.broker_summary import describe_summary
from plait_broker.web.metrics.overlay_metrics import overlay_metrics
from plait_broker.web.overlay_view import OverlayView
from plait_core.ids import id_text
from plait_core.telemetry import RECORD, record_attributes
from plait_core.values import Attributes, Json
from plait_lab.simulation.overlay.worlds.full_lanes import BEGIN_S, DELAY_S, LANE_BYTES_PER_S, FullLane
from plait_telemetry.telemetry import Telemetry, TelemetrySettings

LOAD_S = 20.0


SEEN_S = BEGIN_S + LOAD_S / 2
"""When the facts are read: half of the events are offered."""


@cache
def loaded(load: float) -> FullLane:
    lane = FullLane()
    lane.world.timeline.after(SEEN_S, partial(see, lane, load))
    lane.measure(load, LOAD_S)
    return lane


@dataclass
class Shown:
    """Facts, summary and metrics of a lane, as its sender shows them under load."""

    link: Json
    summary: Json
    metrics: dict[str, float]
    records: dict[str, Attributes]
    """Its telemetry records of one sample, by kind."""
    overview: Json


shown_under: dict[float, Shown] = {}


def see(lane: FullLane, load: float) -> None:
    world = lane.world
    broker, name = world.broker(1), world.broker(2).settings.name
    (link,) = [link for link in describe_links(broker) if link["name"] == name]
    (summary,) = [link for link in describe_summary(broker, {}, world.now)["links"] if link["name"] == name]
    metrics = {
        sample.name: sample.value
        for metric in overlay_metrics(broker, world.now)
        for sample in metric.samples
        if sample.labels.get("neighbour") == name
    }
    shown_under[load] = Shown(link, summary, metrics, recorded(broker, lane), overview(broker, lane))


def overview(broker: Broker, lane: FullLane) -> Json:
    """Return the lane as the live page of its sender has it."""

    async def nobody(brokers: Iterable[int], topic: str, query: Json) -> dict[int, Json]:
        return {}

    async def sampled() -> Json:
        view = OverlayView(lambda: broker, nobody, "0", clock=lambda: lane.world.now)
        links = view.sample()["links"]
        await view.close()
        return dict(links)

    links = asyncio.run(sampled())
    return dict(links[f"{id_text(broker.id)}>{id_text(lane.world.nodes[2].overlay.me)}"])


def recorded(broker: Broker, lane: FullLane) -> dict[str, Attributes]:
    """Return what telemetry records of the lane in one sample, by kind."""
    telemetry = Telemetry(TelemetrySettings(), 0)
    Sampler(broker, telemetry).sample(lane.world.now, 1.0, 0)
    receiver = id_text(lane.world.nodes[2].overlay.me)
    records = [record_attributes(fields, "b1") for fields in RECORD.iter_unpack(b"".join(telemetry.ring.filled()))]
    return {str(record["$kind"]): record for record in records if record.get("$subject") == receiver}


def shown(load: float) -> Shown:
    loaded(load)
    return shown_under[load]


def sender(lane: FullLane) -> Neighbour:
    """Return the receiver as its sender knows it."""
    return neighbour(lane, 1, 2)


def neighbour(lane: FullLane, of: int, broker: int) -> Neighbour:
    nodes = lane.world.nodes
    return nodes[of].overlay.neighbours[nodes[broker].overlay.me]


def test_the_capacity_of_a_full_lane_is_that_of_its_link() -> None:
    measured = sender(loaded(1.6)).lane.figures.capacity.bytes_per_s
    assert measured == pytest.approx(LANE_BYTES_PER_S, rel=0.05)
    assert sender(loaded(0.8)).lane.figures.capacity.bytes_per_s == 0.0


def test_both_ends_measure_the_capacity_of_a_full_lane() -> None:
    for load, known in ((1.6, True), (0.8, False)):
        arriving = neighbour(loaded(load), 2, 1).lane.figures.arrivals.bytes_per_s
        assert arriving == (pytest.approx(LANE_BYTES_PER_S, rel=0.05) if known else 0.0)
        assert neighbour(loaded(load), 1, 2).lane.figures.arrivals.bytes_per_s == 0.0, "the opposite lane is idle"


def test_copies_of_events_are_counted_where_they_arrive() -> None:
    world = loaded(0.8).world
    published, relayed, arrived = (world.broker(number).counters for number in range(3))
    assert published.copies == 0
    assert relayed.copies == arrived.copies == arrived.arrived > 1_000


def test_a_full_lane_shows_what_waits_and_for_how_long() -> None:
    figures, now = sender(loaded(1.6)).lane.figures, loaded(1.6).world.now
    assert figures.is_full(now)
    assert figures.peak(10, now).bytes > 0.5 * LANE_BYTES_PER_S
    assert figures.utilisation(now) == pytest.approx(1.0, abs=0.1)
    half = figures.waits.percentile_us(0.5)
    assert half is not None
    assert half > 500_000, "what waits is the work of a second"


def test_a_lane_below_its_capacity_is_not_full() -> None:
    figures, now = sender(loaded(0.8)).lane.figures, loaded(0.8).world.now
    assert not figures.is_full(now)
    assert figures.utilisation(now) is None
    assert figures.peak(10, now).events == 0


def test_both_ends_measure_the_delay_of_events() -> None:
    for load in (0.8, 1.6):
        sent, received = sender(loaded(load)).lane.figures.round_trips, neighbour(loaded(load), 2, 1).arrivals
        assert sum(sent.counts.values()) == sum(received.counts.values()) > 1_000
        assert received.base_us >= DELAY_S * 1e6
        near, far = sent.percentile_us(0.99), received.percentile_us(0.99)
        assert near is not None
        assert far is not None
        assert DELAY_S * 1e6 < far < near, "a round trip has both directions"


def test_the_lane_to_a_full_one_is_not_full() -> None:
    world = loaded(1.6).world
    assert not neighbour(loaded(1.6), 0, 1).lane.figures.is_full(world.now)


def test_a_full_lane_is_shown_with_its_true_backlog() -> None:
    seen = shown(1.6)
    assert seen.link["full"]
    assert seen.link["pending_bytes"] > 0.5 * LANE_BYTES_PER_S
    assert seen.link["pending_bytes_max"] >= seen.link["pending_bytes"]
    assert 0.5 < seen.link["oldest_s"] < 2.0
    assert seen.link["utilisation"] == pytest.approx(1.0, abs=0.05)
    assert seen.link["wait_ms"]["p99"] > 500 > seen.link["round_trip_ms"]["p99"] > seen.link["round_trip_ms"]["least"]
    assert seen.summary["pending_bytes"] == seen.metrics["plait_link_queue_bytes"] == seen.link["pending_bytes"]
    assert seen.metrics["plait_link_full"] == 1
    assert seen.metrics["plait_link_capacity_bytes_per_second"] == pytest.approx(LANE_BYTES_PER_S, rel=0.05)
    assert seen.metrics["plait_link_utilisation_ratio"] == pytest.approx(seen.link["utilisation"], abs=0.005), (
        "one is for now, the other for the last input"
    )
    assert seen.metrics["plait_link_queue_seconds"] == pytest.approx(seen.link["oldest_s"], abs=0.05)


def test_a_lane_with_room_shows_no_backlog_and_an_unknown_capacity() -> None:
    seen = shown(0.8)
    assert (seen.link["full"], seen.link["pending_bytes"], seen.link["oldest_s"]) == (False, 0, None)
    assert (seen.link["measured_capacity"], seen.link["utilisation"]) == (None, None)
    assert seen.link["bytes_s"] == pytest.approx(0.8 * LANE_BYTES_PER_S, rel=0.1)
    assert seen.metrics["plait_link_full"] == seen.metrics["plait_link_capacity_bytes_per_second"] == 0
    assert isnan(seen.metrics["plait_link_utilisation_ratio"])


def test_telemetry_records_the_true_backlog_of_a_full_lane() -> None:
    seen = shown(1.6)
    assert seen.records["link"]["$size"] == seen.link["pending_bytes"]
    lane = seen.records["lane"]
    assert lane["$full"]
    assert lane["$bound_us"] == seen.link["measured_capacity"]
    assert lane["$size"] == pytest.approx(seen.link["pending_bytes"], rel=0.3)
    assert lane["$expected"] == pytest.approx(seen.link["pending"], rel=0.3)
    assert lane["$delay_us"] == pytest.approx(1e6 * seen.link["oldest_s"], rel=0.1)
    assert lane["$count"] == pytest.approx(LANE_BYTES_PER_S * LOAD_S / 2, rel=0.2)


def test_telemetry_of_a_lane_with_room_records_what_it_carries() -> None:
    lane = shown(0.8).records["lane"]
    assert (lane["$full"], lane["$size"], lane["$delay_us"], lane["$bound_us"]) == (False, 0, 0, 0)
    assert lane["$count"] == pytest.approx(0.8 * LANE_BYTES_PER_S * LOAD_S / 2, rel=0.2)


def test_the_page_shows_the_true_backlog() -> None:
    seen = shown(1.6)
    for name, fact in (("full", "full"), ("pending_bytes", "pending_bytes"), ("capacity", "measured_capacity")):
        assert seen.overview[name] == seen.link[fact]
    assert seen.overview["state"] == "up"
    assert shown(0.8).overview["full"] is False
    assert shown(0.8).overview["utilisation"] is None


def test_all_brokers_learn_the_capacity_of_a_full_lane() -> None:
    for load, known in ((1.6, True), (0.8, False)):
        nodes = loaded(load).world.nodes
        me, receiver = nodes[1].overlay.me, nodes[2].overlay.me
        for node in nodes:
            found = capacity_of(node.overlay.map.known[me], receiver)
            assert found == (pytest.approx(LANE_BYTES_PER_S, rel=0.05) if known else None)
