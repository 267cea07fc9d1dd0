"""Whole overlays on virtual time: exactly once in order at every broker, and agreement after a cold start and churn.

`make nightly` plays larger ones; `python -m plait_lab.wide_overlay` those of the results.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from plait_lab.benchmarks.wide_overlay.cold_start import measure_cold_start
from plait_lab.benchmarks.wide_overlay.exactly_once import DeliveryCount, measure_deliveries
from plait_lab.benchmarks.wide_overlay.many_brokers import ManyBrokers


@pytest.mark.parametrize(
    ("brokers", "events"), [(30, 300), (70, 200), pytest.param(300, 10_000, marks=pytest.mark.nightly)]
)
def test_every_subscriber_gets_each_event_once_and_in_order_while_links_are_cut(brokers: int, events: int) -> None:
    row = measure_deliveries(1, brokers, events)
    assert row.cut_links == max(1, row.links // 100)
    assert row.deliveries == brokers * events
    assert row.wrong == 0


@pytest.mark.parametrize(
    ("brokers", "subscriptions", "churn_s"),
    [(40, 4_000, 60.0), pytest.param(300, 300_000, 600.0, marks=pytest.mark.nightly)],
)
def test_an_overlay_agrees_after_a_cold_start_and_after_churn(brokers: int, subscriptions: int, churn_s: float) -> None:
    row = measure_cold_start(1, brokers, subscriptions, churn_s)
    assert row.agreed
    assert row.faults >= churn_s / 10
    assert row.filters > 0


def test_brokers_do_not_agree_while_one_is_down_or_a_link_comes_back() -> None:
    many = ManyBrokers(1, 10)
    many.world.start()
    assert many.world.run_until(lambda: many.converged, 60.0)
    link = many.links[0]
    many.cut(link)
    many.world.run(1.0)
    assert many.converged, "without the link"
    many.mend(link)
    assert not many.same_map, "it is not back yet"
    many.nodes[3].kill()
    assert not many.same_map


def test_the_counts_tell_lost_repeated_and_disordered_events_apart() -> None:
    count, subscription = DeliveryCount(4), cast(Any, object())
    count.follow(subscription)
    for sequence in (1, 3, 2, 2):
        count.delivered(subscription, cast(Any, SimpleNamespace(id=(7, sequence))), (1, 0, 0))
    assert (count.deliveries, count.lost, count.repeated, count.disordered) == (4, 1, 1, 1)
