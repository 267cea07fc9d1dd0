"""The demo's audit catches what it is there to catch, and its quotes are the same for the same seed."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

import pytest

from plait import Subscription, SubscriptionStats, parse
from plait.commands.demo.listeners import KILLED, Listener
from plait.commands.demo.quotes import quotes
from plait.commands.demo.record import Act, Ear, Key, Published, ReceivedEvent, Record, key_of
from plait.commands.demo.verdict import faults
from plait.commands.terminal.percentiles import percentile


class Reported:
    """A subscription that says how much it dropped."""

    def __init__(self, dropped: int) -> None:
        self.stats = SubscriptionStats(0, 0, dropped, 0, 0, 0, 0, 0, 0.0, 0)


def books(*, dropped: int = 0, durable: bool = False, at: str = KILLED) -> tuple[Record, Ear, dict[Act, list[Key]]]:
    """Three events in each act, of which the filter wants two; and a listener that has heard those."""
    listener = Listener("ear", parse("wanted"), "", at, durable="place" if durable else None)
    ear = Ear(listener, cast("Subscription[Any]", Reported(dropped)))
    record = Record(ears=[ear], moved=True)
    wanted: dict[Act, list[Key]] = {}
    for act in ("calm", "slow", "crash", "after"):
        for number in range(3):
            key: Key = (act, number)
            attributes = {"exchange": act, "quote": number, "wanted": number > 0}
            assert key_of(attributes) == key
            record.published[key] = Published(dict(attributes), act, at=0.0, confirmed=True)
        wanted[act] = [(act, 1), (act, 2)]
    ear.heard = {key: ReceivedEvent(0.5, ("here", "there")) for keys in wanted.values() for key in keys}
    return record, ear, wanted


def test_all_is_well() -> None:
    record, ear, _ = books()
    assert faults(record) == []
    assert record.filtered_out == 4
    assert record.delay_s(ear, ("calm", 1)) == 0.5


def test_what_was_lost_in_the_crash_is_no_fault_except_of_the_durable_one() -> None:
    for durable in (False, True):
        record, ear, wanted = books(durable=durable)
        del ear.heard[wanted["crash"][0]]
        assert bool(faults(record)) is durable


def test_who_is_at_home_elsewhere_loses_nothing_in_the_crash() -> None:
    record, ear, wanted = books(at="tokyo")
    assert faults(record) == []
    del ear.heard[wanted["crash"][0]]
    assert len(faults(record)) == 1


def test_events_are_to_leave_the_slowed_link() -> None:
    record, ear, _ = books()
    assert list(record.travels(ear, "slow", "slow")) == [("here", "there")]
    assert record.travels(ear, "slow", "calm") == {}
    record.moved = False
    assert len(faults(record)) == 1


def test_what_was_never_confirmed_the_durable_one_may_lack_and_that_is_told() -> None:
    record, ear, wanted = books(durable=True)
    del ear.heard[wanted["crash"][0]]
    record.published[wanted["crash"][0]].confirmed = False
    assert faults(record) == ["1 of 12 events were never confirmed"]


def test_a_loss_a_false_delivery_and_a_duplicate_are_faults() -> None:
    record, ear, wanted = books()
    del ear.heard[wanted["after"][1]]
    ear.heard["calm", 0] = ReceivedEvent(0.5, ())
    ear.repeated = 1
    assert [fault.split()[1:3] for fault in faults(record)] == [["got", "1"], ["got", "1"], ["did", "not"]]


def test_drops_are_to_be_counted() -> None:
    record, ear, wanted = books(dropped=1)
    del ear.heard[wanted["calm"][0]]
    assert len(faults(record)) == 1
    ear.dropped_before = 1
    assert faults(record) == []


def test_quotes_are_the_same_for_the_same_seed() -> None:
    assert list(islice(quotes(7, "NYSE"), 50)) == list(islice(quotes(7, "NYSE"), 50))
    assert list(islice(quotes(7, "NYSE"), 50)) != list(islice(quotes(8, "NYSE"), 50))


@pytest.mark.parametrize(("share", "value"), [(0.01, 1), (0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100)])
def test_percentiles(share: float, value: int) -> None:
    assert percentile(list(range(1, 101)), share) == value
    assert percentile([7.0], share) == 7.0
    assert str(percentile([], share)) == "nan"
