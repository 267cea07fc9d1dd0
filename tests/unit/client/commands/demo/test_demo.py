"""The demo's audit finds every kind of fault, and its quotes are equal for equal seeds."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

import pytest

from plait import Subscription, SubscriptionStats, parse
from plait.commands.demo.audit import find_faults
from plait.commands.demo.listeners import KILLED, Listener
from plait.commands.demo.quotes import quotes
from plait.commands.demo.record import Key, Phase, Published, ReceivedEvent, Record, Subscriber, key_of
from plait.commands.terminal.percentiles import percentile


class Reported:
    """A subscription that has dropped a given number of events."""

    def __init__(self, dropped: int) -> None:
        self.stats = SubscriptionStats(0, 0, dropped, 0, 0, 0, 0, 0, 0.0, 0)


def recorded(
    *, dropped: int = 0, durable: bool = False, at: str = KILLED
) -> tuple[Record, Subscriber, dict[Phase, list[Key]]]:
    """Return a record of three events in each phase. Two of them match, and the listener has received both."""
    listener = Listener("one", parse("matching"), "", at, durable="place" if durable else None)
    subscriber = Subscriber(listener, cast("Subscription[Any]", Reported(dropped)))
    record = Record(subscribers=[subscriber], rerouted=True)
    matching: dict[Phase, list[Key]] = {}
    for phase in ("calm", "slow", "crash", "after"):
        for number in range(3):
            key: Key = (phase, number)
            attributes = {"exchange": phase, "quote": number, "matching": number > 0}
            assert key_of(attributes) == key
            record.published[key] = Published(dict(attributes), phase, at=0.0, confirmed=True)
        matching[phase] = [(phase, 1), (phase, 2)]
    subscriber.received = {key: ReceivedEvent(0.5, ("here", "there")) for keys in matching.values() for key in keys}
    return record, subscriber, matching


def test_all_is_well() -> None:
    record, subscriber, _ = recorded()
    assert find_faults(record) == []
    assert record.filtered_out == 4
    assert record.delay_s(subscriber, ("calm", 1)) == 0.5


def test_losses_of_the_crash_are_faults_of_the_durable_subscription_alone() -> None:
    for durable in (False, True):
        record, subscriber, matching = recorded(durable=durable)
        del subscriber.received[matching["crash"][0]]
        assert bool(find_faults(record)) is durable


def test_subscribers_at_other_brokers_lose_nothing_in_the_crash() -> None:
    record, subscriber, matching = recorded(at="tokyo")
    assert find_faults(record) == []
    del subscriber.received[matching["crash"][0]]
    assert len(find_faults(record)) == 1


def test_events_are_to_leave_the_slowed_link() -> None:
    record, subscriber, _ = recorded()
    assert list(record.delays_by_path(subscriber, "slow", "slow")) == [("here", "there")]
    assert record.delays_by_path(subscriber, "slow", "calm") == {}
    record.rerouted = False
    assert len(find_faults(record)) == 1


def test_unconfirmed_events_may_miss_the_durable_subscription_and_are_reported() -> None:
    record, subscriber, matching = recorded(durable=True)
    del subscriber.received[matching["crash"][0]]
    record.published[matching["crash"][0]].confirmed = False
    assert find_faults(record) == ["1 of 12 events were never confirmed"]


def test_a_loss_a_false_delivery_and_a_duplicate_are_faults() -> None:
    record, subscriber, matching = recorded()
    del subscriber.received[matching["after"][1]]
    subscriber.received["calm", 0] = ReceivedEvent(0.5, ())
    subscriber.repeated = 1
    assert [fault.split()[1:3] for fault in find_faults(record)] == [["got", "1"], ["got", "1"], ["did", "not"]]


def test_drops_are_to_be_counted() -> None:
    record, subscriber, matching = recorded(dropped=1)
    del subscriber.received[matching["calm"][0]]
    assert len(find_faults(record)) == 1
    subscriber.dropped_before = 1
    assert find_faults(record) == []


def test_quotes_are_the_same_for_the_same_seed() -> None:
    assert list(islice(quotes(7, "NYSE"), 50)) == list(islice(quotes(7, "NYSE"), 50))
    assert list(islice(quotes(7, "NYSE"), 50)) != list(islice(quotes(8, "NYSE"), 50))


@pytest.mark.parametrize(("share", "value"), [(0.01, 1), (0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100)])
def test_percentiles(share: float, value: int) -> None:
    assert percentile(list(range(1, 101)), share) == value
    assert percentile([7.0], share) == 7.0
    assert str(percentile([], share)) == "nan"
