"""Advertisements of this broker's clients: when all brokers in reach know them, and what a silent broker costs."""

from __future__ import annotations

from collections import Counter

from flooding_broker import FloodingBroker

from plait_broker.overlay.interest.advertisement_table import AdvertisementTable
from plait_broker.overlay.interest.local_advertisements import ADVERTISE_TIMES, LocalAdvertisements
from plait_broker.overlay.interest.remote_interest import HomeInterest
from plait_broker.overlay.outputs import Advertised, Output
from plait_core.filters import parse
from plait_core.wire.frame_types.envelope_frames import envelop_document
from plait_core.wire.frame_types.overlay_frames import Advertisement

ME, NEAR, FAR = 1, 2, 3
DETECT_S = 3.0
TIMEOUT_S = ADVERTISE_TIMES * DETECT_S


class Advertiser:
    """One broker with a link to NEAR."""

    def __init__(self) -> None:
        self.flooder = FloodingBroker(ME, NEAR)
        self.table = AdvertisementTable(ME)
        self.outputs: list[Output] = []
        self.counts: Counter[str] = Counter()
        flooding = self.flooder.flooding
        self.local = LocalAdvertisements(ME, self.table, flooding, DETECT_S, self.outputs, self.counts)
        self.homes: dict[int, HomeInterest] = {}

    def advertise(self, number: int, text: str, now: float = 0.0) -> None:
        self.local.advertise(number, parse(text), 0.0, b"", now)

    def inform(self, *brokers: int) -> None:
        """Have brokers send their interest, computed against the present advertisements."""
        for broker in brokers:
            self.homes[broker] = HomeInterest(offers=self.table.fingerprint(ME))

    def settle(self, *reached: int, now: float = 0.0) -> list[Output]:
        """Return what is reported while these brokers can be reached."""
        self.outputs.clear()
        self.local.settle(self.homes, [ME, *reached], now)
        return list(self.outputs)


def test_an_advertisement_floods_with_its_rate_and_values() -> None:
    one = Advertiser()
    one.local.advertise(4, parse("x > 1"), 2.5, b"sketch", 0.0)
    assert one.flooder.sent == [(NEAR, envelop_document(Advertisement(ME, 4, 1, "x > 1", 2.5, b"sketch")))]


def test_a_changed_advertisement_and_its_withdrawal_have_higher_versions() -> None:
    one = Advertiser()
    one.advertise(4, "x > 1")
    one.advertise(4, "x > 2")
    one.local.withdraw(4)
    texts = [Advertisement(ME, 4, 1, "x > 1"), Advertisement(ME, 4, 2, "x > 2"), Advertisement(ME, 4, 3, "")]
    assert one.flooder.sent == [(NEAR, envelop_document(document)) for document in texts]
    assert one.table.filters == {}


def test_without_other_brokers_an_advertisement_is_known_at_once() -> None:
    one = Advertiser()
    one.advertise(4, "x > 1")
    assert one.settle() == [Advertised(4)]
    assert one.settle() == [], "it is reported once"


def test_it_is_known_once_all_brokers_in_reach_have_sent_their_interest_in_it() -> None:
    one = Advertiser()
    one.inform(NEAR, FAR)
    one.advertise(4, "x > 1")
    assert one.settle(NEAR, FAR) == []
    one.inform(NEAR)
    assert one.settle(NEAR, FAR) == []
    assert one.settle(NEAR) == [Advertised(4)], "a broker out of reach is not waited for"


def test_interest_in_an_earlier_revision_makes_the_earlier_advertisements_known() -> None:
    one = Advertiser()
    one.advertise(4, "x > 1")
    one.inform(NEAR)
    one.advertise(5, "x > 2")
    assert one.settle(NEAR) == [Advertised(4)]
    one.inform(NEAR)
    assert one.settle(NEAR) == [Advertised(5)]


def test_a_silent_broker_is_waited_for_until_the_timeout() -> None:
    one = Advertiser()
    one.advertise(4, "x > 1", now=10.0)
    assert one.local.next_deadline() == 10.0 + TIMEOUT_S
    assert one.settle(NEAR, now=9.9 + TIMEOUT_S) == []
    assert one.counts["advertisements_unacked"] == 0
    assert one.settle(NEAR, now=10.0 + TIMEOUT_S) == [Advertised(4)]
    assert one.counts["advertisements_unacked"] == 1
    assert one.local.next_deadline() is None


def test_a_withdrawn_advertisement_is_not_reported() -> None:
    one = Advertiser()
    one.advertise(4, "x > 1")
    one.local.withdraw(4)
    one.inform(NEAR)
    assert one.settle(NEAR, now=TIMEOUT_S) == []
    assert one.local.next_deadline() is None


def test_a_filter_that_changes_meanwhile_is_waited_for_anew() -> None:
    one = Advertiser()
    one.advertise(4, "x > 1")
    one.inform(NEAR)
    one.advertise(4, "x > 0", now=5.0)
    assert one.settle(NEAR, now=5.0) == [], "the known revision has the earlier filter"
    assert one.local.next_deadline() == 5.0 + TIMEOUT_S
    one.inform(NEAR)
    assert one.settle(NEAR, now=5.0) == [Advertised(4)]
