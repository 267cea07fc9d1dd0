"""Interest updates to publishers' brokers: their content, when interest counts as installed, and forgotten brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plait_broker.overlay.interest.advertisement_table import AdvertisementTable
from plait_broker.overlay.interest.interest_sync import AGAIN_S, CHANGES_MAX, InterestSync
from plait_broker.overlay.interest.remote_interest import RemoteInterest
from plait_core.errors import PlaitError
from plait_core.events import Event
from plait_core.filters import parse
from plait_core.limits import WANTS_MAX
from plait_core.matching import new_index
from plait_core.wire import Confirm, FrameDecoder, Publish, encode_block, encode_frame
from plait_core.wire.frame_types.envelope_frames import EndToEnd, envelop_message, read_message
from plait_core.wire.frame_types.overlay_frames import Advertisement, InterestUpdate

HOME, ROOT, OTHER = 7, 1, 2


class Pair:
    """The home broker's side and the publisher's broker's side. No frame is lost unless a test drops it."""

    def __init__(self) -> None:
        self.wanting = InterestSync(HOME, new_index)
        self.wanted = RemoteInterest(new_index)
        self.known = AdvertisementTable(HOME)
        self.own = AdvertisementTable(ROOT)
        self.version = 0
        self.now = 10.0
        self.installed: list[int] = []

    def tell(self, *, reaches: bool = True) -> list[InterestUpdate]:
        self.now += 0.001
        wants = self.wanting.take_updates(self.now, lambda _: reaches)
        self.installed += self.wanting.installed
        self.wanting.installed.clear()
        return wants

    def hear(self, want: InterestUpdate) -> int:
        at = want.to.index(ROOT)
        version = self.wanted.apply(want, want.versions[at], want.offers[at])
        self.wanting.acked(ROOT, version, self.own.fingerprint(ROOT), want.versions[at], self.now)
        return version

    def settle(self) -> Iterator[InterestUpdate]:
        """Deliver updates until none is left, and yield each one."""
        for _ in range(10):
            for want in self.tell():
                self.hear(want)
                yield want

    def offer(self, text: str = "x >= 0", number: int = 1) -> None:
        self.learn(self.say(text, number))

    def say(self, text: str, number: int = 1) -> Advertisement:
        """Advertise at the publisher's broker and return the advertisement, which no other broker has yet."""
        self.version += 1
        offer = Advertisement(ROOT, number, self.version, text)
        self.own.learn(offer)
        return offer

    def learn(self, offer: Advertisement) -> None:
        filter, _ = self.known.learn(offer)
        assert filter is not None
        self.wanting.offer(ROOT, offer.number, filter)
        self.wanting.offered(ROOT, self.known.fingerprint(ROOT))

    @property
    def seen(self) -> bool:
        """Whether the publisher's broker has the interest computed against all its advertisements."""
        return self.own.revision_of(self.wanted.homes[HOME].offers) == self.own.revision

    def matches(self, x: int) -> bool:
        frame = Publish(Confirm.NONE, encode_block(Event({"x": x}, b"", publisher=1, sequence=1)))
        return self.wanted.match(frame) == [HOME]


def test_what_meets_an_offer_is_told_and_counts_once_it_is_heard() -> None:
    pair = Pair()
    pair.offer("0 <= x < 100")
    pair.wanting.add(1, parse("x >= 50"))
    pair.wanting.add(2, parse("x < 0"))
    (want,) = pair.tell()
    fingerprint = pair.own.fingerprint(ROOT)
    assert want == InterestUpdate((ROOT,), HOME, (1,), (fingerprint,), True, (1,), ("x >= 50",), ()), "all there is"
    assert pair.installed == [], "whether that is all that is offered there is not known yet"
    pair.hear(want)
    assert pair.tell() == []
    assert pair.installed == [1, 2], "nobody offers what the second wants: all who need to know it do"
    assert pair.seen
    assert pair.matches(60)
    assert not pair.matches(-1)


def test_what_is_not_heard_is_told_again() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.add(1, parse("x > 1"))
    first = pair.tell()
    assert pair.tell() == []
    deadline = pair.wanting.next_deadline()
    assert deadline is not None
    assert deadline == pytest.approx(pair.now + AGAIN_S, abs=0.01)
    pair.now = deadline
    assert pair.tell() == first
    pair.now += AGAIN_S
    assert pair.tell() == [], "less often then"
    pair.now += AGAIN_S
    assert pair.tell() == first
    assert pair.installed == []


def test_who_cannot_be_reached_is_not_told_and_not_waited_for() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.add(1, parse("x > 1"))
    assert pair.tell(reaches=False) == []
    assert pair.installed == [1]
    assert len(pair.tell()) == 1


def test_what_two_brokers_are_told_alike_is_one_frame() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.offer(OTHER, 1, parse("x >= 0"))
    pair.wanting.add(1, parse("x > 1"))
    (want,) = pair.tell()
    assert want.to == (ROOT, OTHER)
    assert want.versions == (1, 1)


def test_what_is_covered_is_not_told_until_it_is_uncovered() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.add(1, parse("x > 1"))
    list(pair.settle())
    pair.wanting.add(2, parse("x > 5"))
    assert list(pair.settle()) == []
    assert pair.installed == [1, 2]
    pair.wanting.remove(1)
    (want,) = pair.settle()
    assert (want.added, want.removed) == ((2,), (1,)), "together: nothing is missed"


def test_whoever_offers_more_learns_when_all_have_seen_it() -> None:
    pair = Pair()
    pair.offer("x < 10")
    pair.wanting.add(1, parse("x > 5"))
    list(pair.settle())
    more = pair.say("x < 100", number=2)
    assert not pair.seen
    pair.learn(more)
    (want,) = pair.tell()
    assert (want.added, want.removed) == ((), ()), "nothing more is wanted, and that is said"
    assert not pair.seen
    pair.hear(want)
    assert pair.seen


def test_what_a_new_offer_meets_is_known_before_it_counts_as_seen() -> None:
    pair = Pair()
    pair.offer("x < 10")
    for number in range(2 * WANTS_MAX):
        pair.wanting.add(number, parse(f"x == {10 + number}"))
    list(pair.settle())
    pair.offer("x >= 10", number=2)
    wants = pair.tell()
    assert len(wants) >= 2, "more than one frame has room for"
    for want in wants:
        assert not pair.seen
        pair.hear(want)
    assert pair.seen
    assert pair.matches(10 + 2 * WANTS_MAX - 1)


def test_what_is_said_anew_in_parts_holds_until_all_of_it_has_come() -> None:
    pair = Pair()
    pair.offer()
    for number in range(2 * WANTS_MAX):
        pair.wanting.add(number, parse(f"x == {number}"))
    list(pair.settle())
    pair.wanting.gone(ROOT)
    pair.wanting.remove(7)
    pair.offer()
    wants = pair.tell()
    assert [(want.whole, want.more) for want in wants] == [(True, True), (False, False)]
    pair.hear(wants[0])
    assert pair.matches(2 * WANTS_MAX - 1)
    assert pair.matches(7), "until all has come"
    pair.hear(wants[1])
    assert pair.matches(2 * WANTS_MAX - 1)
    assert not pair.matches(7)
    assert len(pair.wanted) == 2 * WANTS_MAX - 1


def test_one_that_comes_back_may_have_offered_more_meanwhile() -> None:
    pair = Pair()
    pair.offer("x < 10")
    list(pair.settle())
    more = pair.say("x >= 10", number=2)
    pair.wanting.back(ROOT)
    pair.wanting.add(1, parse("x > 20"))
    list(pair.settle())
    assert pair.installed == [], "it offers what we have not seen"
    pair.learn(more)
    list(pair.settle())
    assert pair.installed == [1]
    assert pair.matches(21)


def test_changes_are_taken_in_their_order_only() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.add(1, parse("x == 1"))
    (first,) = pair.tell()
    pair.wanting.add(2, parse("x == 2"))
    (second,) = pair.tell()
    assert pair.hear(second) == 0
    assert not pair.matches(2)
    assert pair.hear(first) == 1
    assert pair.hear(second) == 2
    assert pair.hear(first) == 2, "an old one changes nothing"
    assert pair.matches(1)
    assert pair.matches(2)


def test_too_many_changes_become_one() -> None:
    pair = Pair()
    pair.offer()
    for number in range(1, CHANGES_MAX + 2):
        pair.wanting.add(number, parse(f"x == {number}"))
        lost = pair.tell()
    (want,) = lost
    assert want.whole
    assert want.added == tuple(range(1, CHANGES_MAX + 2))
    pair.hear(want)
    list(pair.settle())
    assert pair.matches(CHANGES_MAX + 1)


def test_nothing_goes_before_all_that_replaces_it_has_come() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.add(0, parse("x >= 0"))
    for number in range(1, WANTS_MAX + 500):
        pair.wanting.add(number, parse(f"x == {number}"))
    list(pair.settle())
    pair.wanting.remove(0)
    frames = 0
    for want in pair.settle():
        frames += 1
        assert len(want.added) <= WANTS_MAX
        assert pair.matches(5)
        assert pair.matches(WANTS_MAX + 400)
    assert frames == 2
    assert not pair.matches(WANTS_MAX + 900)


def test_long_filters_are_told_in_frames_that_the_wire_allows() -> None:
    pair = Pair()
    pair.offer()
    for number in range(150):
        names = ", ".join(f"'{number}-{name:05}-abcdefghijklmnopqrstuvwxyz'" for name in range(300))
        pair.wanting.add(number, parse(f"name in [{names}]"))
    frames = 0
    for want in pair.settle():
        frames += 1
        decoder = FrameDecoder(version=1)
        decoder.feed(encode_frame(envelop_message(want)))
        (envelope,) = decoder.take()
        assert isinstance(envelope, EndToEnd)
        assert read_message(envelope, 0) == want
    assert frames >= 2
    assert pair.installed == list(range(150))


def test_a_publishers_broker_that_forgot_us_is_told_everything() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.add(1, parse("x == 1"))
    pair.wanting.add(2, parse("x == 2"))
    list(pair.settle())
    pair.wanted.gone(HOME)
    assert not pair.matches(1)
    pair.wanting.back(ROOT)
    asked, told = pair.settle()
    assert (asked.added, asked.removed, asked.whole) == ((), (), False), "the question is small"
    assert told.whole
    assert pair.matches(1)
    assert pair.matches(2)


def test_one_that_did_not_forget_is_told_nothing_anew() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.add(1, parse("x == 1"))
    list(pair.settle())
    pair.wanting.back(ROOT)
    (asked,) = pair.settle()
    assert not asked.added
    assert pair.matches(1)


def test_one_that_we_forgot_and_that_remembers_us_is_put_right() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.add(1, parse("x == 1"))
    list(pair.settle())
    pair.wanting.gone(ROOT)
    pair.wanting.remove(1)
    pair.wanting.add(2, parse("x == 2"))
    list(pair.settle())
    pair.offer()
    (want,) = pair.settle()
    assert want.whole
    assert want.versions == (2,), "above what it remembers"
    assert pair.matches(2)
    assert not pair.matches(1)


def test_a_filter_that_is_none_changes_nothing() -> None:
    wanted = RemoteInterest(new_index)
    with pytest.raises(PlaitError):
        wanted.apply(InterestUpdate((ROOT,), HOME, (1,), (0,), True, (1, 2), ("x > 1", "x >"), ()), 1, 0)
    assert len(wanted) == 0
    assert wanted.apply(InterestUpdate((ROOT,), HOME, (1,), (0,), True, (1,), ("x > 1",), ()), 1, 0) == 1


def test_a_broker_that_is_gone_wants_nothing() -> None:
    pair = Pair()
    pair.offer()
    pair.wanting.add(1, parse("x == 1"))
    list(pair.settle())
    assert pair.wanted.meets(parse("x > 0"))
    pair.wanted.gone(HOME)
    assert not pair.matches(1)
    assert not pair.wanted.meets(parse("x > 0"))
    assert len(pair.wanted) == 0


def test_a_broker_that_starts_anew_wants_what_it_did_until_it_says_what_it_wants_now() -> None:
    """Check that interest of the previous incarnation stays valid until the next one sends its own.

    Otherwise events published meanwhile would be confirmed but never reach durable subscriptions.
    """
    wanted = RemoteInterest(new_index)
    ours = InterestUpdate((ROOT,), HOME, (1,), (0,), True, (1, 2), ("price > 10", "price > 20"), ())
    wanted.apply(ours, 1, 0)
    dear = Publish(Confirm.NONE, encode_block(Event({"price": 30})))
    assert wanted.match(dear) == [HOME]
    wanted.succeed(HOME, OTHER)
    wanted.gone(HOME)
    assert wanted.match(dear) == [OTHER]
    anew = InterestUpdate((ROOT,), OTHER, (1,), (0,), True, (1,), ("price > 40",), ())
    assert wanted.apply(anew, 1, 0) == 1
    assert wanted.match(dear) == []
    assert len(wanted) == 1, "nothing of before is left"
    wanted.apply(ours, 1, 0)
    wanted.succeed(HOME, OTHER)
    wanted.gone(HOME)
    assert wanted.match(dear) == [], "what it has said itself stands"
    assert len(wanted) == 1


def test_whoever_has_missed_something_is_told_it_at_once() -> None:
    pair = Pair()
    pair.offer()
    list(pair.settle())
    pair.wanting.add(1, parse("x >= 50"))
    assert pair.tell(), "and nobody hears it"
    pair.wanting.add(2, parse("x == 2"))
    (news,) = pair.tell()
    assert pair.hear(news) < news.versions[0], "it says that it misses one"
    list(pair.settle())
    assert pair.installed == [1, 2]
    assert pair.matches(60)


def test_without_any_answer_it_is_told_again_in_time_though_there_is_always_news() -> None:
    pair = Pair()
    pair.offer()
    list(pair.settle())
    pair.wanting.add(1, parse("x >= 50"))
    pair.tell()
    again = 0
    for number in range(2, 30):
        pair.now += AGAIN_S / 5
        pair.wanting.add(number, parse(f"x == {number}"))
        again += any(1 in want.added for want in pair.tell())
    assert again >= 2
