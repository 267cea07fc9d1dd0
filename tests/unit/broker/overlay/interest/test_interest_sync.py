"""Interest updates to publishers' brokers: their content, when interest counts as installed, and forgotten brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plait_broker.overlay.interest.advertisement_table import AdvertisementTable
from plait_broker.overlay.interest.install_watch import InstallDeadlines
from plait_broker.overlay.interest.interest_sync import CHANGES_MAX, InterestSync
from plait_broker.overlay.interest.peer_interest import AGAIN_S
from plait_broker.overlay.interest.remote_interest import RemoteInterest
from plait_core.errors import PlaitError
from plait_core.events import Event
from plait_core.filters import parse
from plait_core.limits import INTEREST_FILTERS_MAX
from plait_core.matching import new_index
from plait_core.wire import Confirm, FrameDecoder, Publish, encode_block, encode_frame
from plait_core.wire.frame_types.envelope_frames import EndToEnd, envelop_message, read_message
from plait_core.wire.frame_types.overlay_frames import Advertisement, InterestUpdate

HOME, ROOT, OTHER = 7, 1, 2


class Pair:
    """The home broker's side and the publisher's broker's side. No frame is lost unless a test drops it."""

    def __init__(self) -> None:
        self.sync = InterestSync(HOME, new_index)
        self.remote = RemoteInterest(new_index)
        self.known = AdvertisementTable(HOME)
        self.own = AdvertisementTable(ROOT)
        self.version = 0
        self.now = 10.0
        self.installed: list[int] = []

    def send(self, *, reaches: bool = True, distance_us: int = 0) -> list[InterestUpdate]:
        self.now += 0.001
        updates = self.sync.take_updates(self.now, lambda _: distance_us if reaches else None)
        self.installed += self.sync.installed
        self.sync.installed.clear()
        return updates

    def deliver(self, update: InterestUpdate) -> int:
        at = update.to.index(ROOT)
        version = self.remote.apply(update, update.versions[at], update.offers[at])
        self.sync.receive_ack(ROOT, version, self.own.fingerprint(ROOT), update.versions[at], self.now)
        return version

    def settle(self) -> Iterator[InterestUpdate]:
        """Deliver updates until none is left, and yield each one."""
        for _ in range(10):
            for update in self.send():
                self.deliver(update)
                yield update

    def advertise(self, text: str = "x >= 0", number: int = 1) -> None:
        """Advertise at the publisher's broker, whose advertisement the home broker learns at once."""
        self.learn(self.flood(text, number))

    def flood(self, text: str, number: int = 1) -> Advertisement:
        """Advertise at the publisher's broker and return the advertisement, which no other broker has yet."""
        self.version += 1
        advertisement = Advertisement(ROOT, number, self.version, text)
        self.own.learn(advertisement)
        return advertisement

    def learn(self, advertisement: Advertisement) -> None:
        filter, _ = self.known.learn(advertisement)
        assert filter is not None
        self.sync.offer(ROOT, advertisement.number, filter)
        self.sync.offered(ROOT, self.known.fingerprint(ROOT))

    @property
    def known_there(self) -> bool:
        """Whether the publisher's broker has the interest computed against all its advertisements."""
        return self.own.revision_of(self.remote.homes[HOME].offers) == self.own.revision

    def matches(self, x: int) -> bool:
        frame = Publish(Confirm.NONE, encode_block(Event({"x": x}, b"", publisher=1, sequence=1)))
        return self.remote.match(frame) == [HOME]


def test_a_filter_that_meets_an_advertisement_is_installed_once_it_is_acked() -> None:
    pair = Pair()
    pair.advertise("0 <= x < 100")
    pair.sync.add(1, parse("x >= 50"))
    pair.sync.add(2, parse("x < 0"))
    (update,) = pair.send()
    fingerprint = pair.own.fingerprint(ROOT)
    assert update == InterestUpdate((ROOT,), HOME, (1,), (fingerprint,), True, (1,), ("x >= 50",), ()), (
        "the whole table"
    )
    assert pair.installed == [], "whether there are more advertisements is not known yet"
    pair.deliver(update)
    assert pair.send() == []
    assert pair.installed == [1, 2], "the second meets no advertisement, so no broker needs it"
    assert pair.known_there
    assert pair.matches(60)
    assert not pair.matches(-1)


def test_a_lost_update_is_retransmitted_with_backoff() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x > 1"))
    first = pair.send()
    assert pair.send() == []
    deadline = pair.sync.next_deadline()
    assert deadline is not None
    assert deadline == pytest.approx(pair.now + AGAIN_S, abs=0.01)
    pair.now = deadline
    assert pair.send() == first
    pair.now += AGAIN_S
    assert pair.send() == [], "the timeout has doubled"
    pair.now += AGAIN_S
    assert pair.send() == first
    assert pair.installed == []


def test_the_delay_of_the_path_is_added_to_the_timeout() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x > 1"))
    first = pair.send(distance_us=1_000_000)
    pair.now += AGAIN_S + 1.9
    assert pair.send(distance_us=1_000_000) == [], "the ack may still be on its way"
    pair.now += 0.1
    assert pair.send(distance_us=1_000_000) == first


def test_links_that_change_all_the_time_do_not_stop_the_backoff() -> None:
    """While a large overlay starts, links come up all the time. Retransmissions of all brokers would overload it."""
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x > 1"))
    pair.send()
    sent = 0
    for _ in range(80):
        pair.now += 0.1
        pair.sync.retransmit_soon(pair.now)
        sent += len(pair.send())
    assert 1 <= sent <= 5, "0.5, 1, 2 and 4 s after each other"


def test_a_broker_out_of_reach_gets_no_update_and_delays_no_installation() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x > 1"))
    assert pair.send(reaches=False) == []
    assert pair.installed == [1]
    assert len(pair.send()) == 1


def test_equal_updates_for_two_brokers_are_one_frame() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.offer(OTHER, 1, parse("x >= 0"))
    pair.sync.add(1, parse("x > 1"))
    (update,) = pair.send()
    assert update.to == (ROOT, OTHER)
    assert update.versions == (1, 1)


def test_a_covered_filter_is_announced_when_its_coverer_goes() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x > 1"))
    list(pair.settle())
    pair.sync.add(2, parse("x > 5"))
    assert list(pair.settle()) == []
    assert pair.installed == [1, 2]
    pair.sync.remove(1)
    (update,) = pair.settle()
    assert (update.added, update.removed) == ((2,), (1,)), "in one update, so no event falls between them"


def test_a_new_advertisement_is_known_once_an_update_was_computed_against_it() -> None:
    pair = Pair()
    pair.advertise("x < 10")
    pair.sync.add(1, parse("x > 5"))
    list(pair.settle())
    more = pair.flood("x < 100", number=2)
    assert not pair.known_there
    pair.learn(more)
    (update,) = pair.send()
    assert (update.added, update.removed) == ((), ()), "no filter meets it, and an empty update tells so"
    assert not pair.known_there
    pair.deliver(update)
    assert pair.known_there


def test_a_new_advertisement_is_known_after_all_parts_of_the_update() -> None:
    pair = Pair()
    pair.advertise("x < 10")
    for number in range(2 * INTEREST_FILTERS_MAX):
        pair.sync.add(number, parse(f"x == {10 + number}"))
    list(pair.settle())
    pair.advertise("x >= 10", number=2)
    updates = pair.send()
    assert len(updates) >= 2, "too many for one frame"
    for update in updates:
        assert not pair.known_there
        pair.deliver(update)
    assert pair.known_there
    assert pair.matches(10 + 2 * INTEREST_FILTERS_MAX - 1)


def test_the_old_table_stays_until_the_last_part_of_a_whole_update() -> None:
    pair = Pair()
    pair.advertise()
    for number in range(2 * INTEREST_FILTERS_MAX):
        pair.sync.add(number, parse(f"x == {number}"))
    list(pair.settle())
    pair.sync.gone(ROOT)
    pair.sync.remove(7)
    pair.advertise()
    updates = pair.send()
    assert [(update.whole, update.more) for update in updates] == [(True, True), (False, False)]
    pair.deliver(updates[0])
    assert pair.matches(2 * INTEREST_FILTERS_MAX - 1)
    assert pair.matches(7), "until the last part arrives"
    pair.deliver(updates[1])
    assert pair.matches(2 * INTEREST_FILTERS_MAX - 1)
    assert not pair.matches(7)
    assert len(pair.remote) == 2 * INTEREST_FILTERS_MAX - 1


def test_a_filter_is_not_installed_while_a_returned_broker_has_unknown_advertisements() -> None:
    pair = Pair()
    pair.advertise("x < 10")
    list(pair.settle())
    more = pair.flood("x >= 10", number=2)
    pair.sync.back(ROOT)
    pair.sync.add(1, parse("x > 20"))
    list(pair.settle())
    assert pair.installed == [], "its advertisement is not known here"
    pair.learn(more)
    list(pair.settle())
    assert pair.installed == [1]
    assert pair.matches(21)


def test_updates_are_applied_in_their_order_alone() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x == 1"))
    (first,) = pair.send()
    pair.sync.add(2, parse("x == 2"))
    (second,) = pair.send()
    assert pair.deliver(second) == 0
    assert not pair.matches(2)
    assert pair.deliver(first) == 1
    assert pair.deliver(second) == 2
    assert pair.deliver(first) == 2, "an old one changes nothing"
    assert pair.matches(1)
    assert pair.matches(2)


def test_too_many_unacked_changes_are_replaced_by_a_whole_update() -> None:
    pair = Pair()
    pair.advertise()
    for number in range(1, CHANGES_MAX + 2):
        pair.sync.add(number, parse(f"x == {number}"))
        lost = pair.send()
    (update,) = lost
    assert update.whole
    assert update.added == tuple(range(1, CHANGES_MAX + 2))
    pair.deliver(update)
    list(pair.settle())
    assert pair.matches(CHANGES_MAX + 1)


def test_a_removal_follows_all_filters_that_replace_it() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(0, parse("x >= 0"))
    for number in range(1, INTEREST_FILTERS_MAX + 500):
        pair.sync.add(number, parse(f"x == {number}"))
    list(pair.settle())
    pair.sync.remove(0)
    frames = 0
    for update in pair.settle():
        frames += 1
        assert len(update.added) <= INTEREST_FILTERS_MAX
        assert pair.matches(5)
        assert pair.matches(INTEREST_FILTERS_MAX + 400)
    assert frames == 2
    assert not pair.matches(INTEREST_FILTERS_MAX + 900)


def test_long_filters_are_split_into_frames_within_the_limit() -> None:
    pair = Pair()
    pair.advertise()
    for number in range(150):
        names = ", ".join(f"'{number}-{name:05}-abcdefghijklmnopqrstuvwxyz'" for name in range(300))
        pair.sync.add(number, parse(f"name in [{names}]"))
    frames = 0
    for update in pair.settle():
        frames += 1
        decoder = FrameDecoder(version=1)
        decoder.feed(encode_frame(envelop_message(update)))
        (envelope,) = decoder.take()
        assert isinstance(envelope, EndToEnd)
        assert read_message(envelope, 0) == update
    assert frames >= 2
    assert pair.installed == list(range(150))


def test_a_publishers_broker_that_forgot_us_gets_the_whole_table() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x == 1"))
    pair.sync.add(2, parse("x == 2"))
    list(pair.settle())
    pair.remote.gone(HOME)
    assert not pair.matches(1)
    pair.sync.back(ROOT)
    empty, whole = pair.settle()
    assert (empty.added, empty.removed, empty.whole) == ((), (), False), "an empty update is enough to learn it"
    assert whole.whole
    assert pair.matches(1)
    assert pair.matches(2)


def test_a_publishers_broker_that_did_not_forget_gets_an_empty_update() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x == 1"))
    list(pair.settle())
    pair.sync.back(ROOT)
    (empty,) = pair.settle()
    assert not empty.added
    assert pair.matches(1)


def test_a_publishers_broker_that_we_forgot_gets_the_whole_table() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x == 1"))
    list(pair.settle())
    pair.sync.gone(ROOT)
    pair.sync.remove(1)
    pair.sync.add(2, parse("x == 2"))
    list(pair.settle())
    pair.advertise()
    (update,) = pair.settle()
    assert update.whole
    assert update.versions == (2,), "above the version that it has"
    assert pair.matches(2)
    assert not pair.matches(1)


def test_an_update_with_an_unreadable_filter_changes_nothing() -> None:
    remote = RemoteInterest(new_index)
    with pytest.raises(PlaitError):
        remote.apply(InterestUpdate((ROOT,), HOME, (1,), (0,), True, (1, 2), ("x > 1", "x >"), ()), 1, 0)
    assert len(remote) == 0
    assert remote.apply(InterestUpdate((ROOT,), HOME, (1,), (0,), True, (1,), ("x > 1",), ()), 1, 0) == 1


def test_a_forgotten_home_broker_has_no_interest() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x == 1"))
    list(pair.settle())
    assert pair.remote.meets(parse("x > 0"))
    pair.remote.gone(HOME)
    assert not pair.matches(1)
    assert not pair.remote.meets(parse("x > 0"))
    assert len(pair.remote) == 0


def test_a_restarted_broker_keeps_its_interest_until_it_sends_its_own() -> None:
    """Check that interest of the previous incarnation stays valid until the next one sends its own.

    Otherwise events published meanwhile would be confirmed but never reach durable subscriptions.
    """
    remote = RemoteInterest(new_index)
    ours = InterestUpdate((ROOT,), HOME, (1,), (0,), True, (1, 2), ("price > 10", "price > 20"), ())
    remote.apply(ours, 1, 0)
    dear = Publish(Confirm.NONE, encode_block(Event({"price": 30})))
    assert remote.match(dear) == [HOME]
    remote.succeed(HOME, OTHER)
    remote.gone(HOME)
    assert remote.match(dear) == [OTHER]
    anew = InterestUpdate((ROOT,), OTHER, (1,), (0,), True, (1,), ("price > 40",), ())
    assert remote.apply(anew, 1, 0) == 1
    assert remote.match(dear) == []
    assert len(remote) == 1, "the old interest is gone"
    remote.apply(ours, 1, 0)
    remote.succeed(HOME, OTHER)
    remote.gone(HOME)
    assert remote.match(dear) == [], "its own interest stays"
    assert len(remote) == 1


def test_an_ack_that_reports_a_lost_update_has_it_retransmitted_at_once() -> None:
    pair = Pair()
    pair.advertise()
    list(pair.settle())
    pair.sync.add(1, parse("x >= 50"))
    assert pair.send(), "and it is lost"
    pair.sync.add(2, parse("x == 2"))
    (update,) = pair.send()
    assert pair.deliver(update) < update.versions[0], "its ack shows that one is missing"
    list(pair.settle())
    assert pair.installed == [1, 2]
    assert pair.matches(60)


def test_new_changes_do_not_put_off_a_retransmission() -> None:
    pair = Pair()
    pair.advertise()
    list(pair.settle())
    pair.sync.add(1, parse("x >= 50"))
    pair.send()
    again = 0
    for number in range(2, 30):
        pair.now += AGAIN_S / 5
        pair.sync.add(number, parse(f"x == {number}"))
        again += any(1 in update.added for update in pair.send())
    assert again >= 2


# --- replaced filters -------------------------------------------------------------------------------------------------


def test_a_replaced_filter_is_announced_under_the_same_number() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x < 10"))
    list(pair.settle())
    pair.sync.add(1, parse("x < 20"))
    (update,) = pair.send()
    assert (update.added, update.filters, update.removed) == ((1,), ("x < 20",), ())
    assert pair.installed == [1], "the new one is not installed yet"
    pair.deliver(update)
    list(pair.settle())
    assert pair.installed == [1, 1]
    assert pair.matches(15)


def test_a_filter_replaced_while_it_was_covered_is_announced_anew() -> None:
    """Check two changes before one update: the filter is replaced by one that is covered, and its coverer goes."""
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x < 5"))
    pair.sync.add(2, parse("x > 10"))
    list(pair.settle())
    pair.sync.add(1, parse("x > 12"))
    pair.sync.remove(2)
    list(pair.settle())
    assert pair.matches(13)
    assert not pair.matches(3)
    assert not pair.matches(11)


def test_a_number_that_is_used_again_at_once_has_its_new_filter() -> None:
    pair = Pair()
    pair.advertise()
    pair.sync.add(1, parse("x < 5"))
    list(pair.settle())
    pair.sync.remove(1)
    pair.sync.add(1, parse("x > 12"))
    list(pair.settle())
    assert pair.matches(13)
    assert not pair.matches(3)


def test_filters_that_a_replaced_one_covered_are_announced_without_a_gap() -> None:
    """Check it where they do not fit into one frame."""
    pair = Pair()
    pair.advertise("x >= 0 or x < 0")
    pair.sync.add(0, parse("x >= 0"))
    for number in range(1, INTEREST_FILTERS_MAX + 500):
        pair.sync.add(number, parse(f"x == {number}"))
    list(pair.settle())
    pair.sync.add(0, parse("x < 0"))
    frames = 0
    for _ in pair.settle():
        frames += 1
        assert pair.matches(1)
        assert pair.matches(INTEREST_FILTERS_MAX + 400)
    assert frames == 2
    assert pair.matches(-1)
    assert not pair.matches(0)


def test_a_replaced_filter_that_no_advertisement_meets_is_removed() -> None:
    pair = Pair()
    pair.advertise("x < 100")
    pair.sync.add(1, parse("x < 5"))
    list(pair.settle())
    pair.sync.add(1, parse("x > 200"))
    (update,) = pair.settle()
    assert (update.added, update.removed) == ((), (1,))
    assert len(pair.remote) == 0


# --- timeouts of installations ----------------------------------------------------------------------------------------

WAIT_S = 12.0


class Roots:
    """A home broker that installs filters at several publishers' brokers, each with an advertisement of everything."""

    def __init__(self, *roots: int) -> None:
        self.sync = InterestSync(HOME, new_index)
        self.table = AdvertisementTable(HOME)
        self.now = 1.0
        self.silent: list[int] = []
        self.unreachable: set[int] = set()
        for root in roots:
            filter, _ = self.table.learn(Advertisement(root, 1, 1, "x >= 0"))
            assert filter is not None
            self.sync.offer(root, 1, filter)
            self.sync.offered(root, self.table.fingerprint(root))

    def add(self, number: int) -> None:
        self.sync.add(number, parse(f"x == {number}"), terms=InstallDeadlines(self.now, WAIT_S, WAIT_S / 2))
        self.installed()

    def ack(self, *roots: int) -> None:
        for root in roots:
            version = self.sync._peers[root].version
            self.sync.receive_ack(root, version, self.table.fingerprint(root), version, self.now)

    def installed(self) -> list[int]:
        self.sync.reach_changed()
        self.sync.take_updates(self.now, lambda root: None if root in self.unreachable else 0)
        installed, self.sync.installed[:] = list(self.sync.installed), []
        self.silent += self.sync.silent
        self.sync.silent.clear()
        return installed


def test_a_filter_is_installed_by_the_last_ack_and_another_one_later() -> None:
    world = Roots(1, 2, 3)
    world.add(5)
    world.ack(1, 2)
    assert world.installed() == []
    world.add(6)
    world.ack(3)
    assert world.installed() == [5]
    world.ack(1)
    assert world.installed() == [], "the second one waits for another broker"
    world.ack(2)
    assert world.installed() == [6]
    assert not world.sync._installs.awaited


def test_a_broker_that_goes_out_of_reach_delays_nothing_and_does_so_again_when_it_returns() -> None:
    world = Roots(1, 2)
    world.add(5)
    world.ack(1)
    world.unreachable.add(2)
    assert world.installed() == [5]
    world.add(6)
    world.unreachable.clear()
    world.ack(1)
    assert world.installed() == []
    world.ack(2)
    assert world.installed() == [6]


def test_a_silent_broker_is_skipped_although_another_one_makes_progress() -> None:
    world = Roots(1, 2)
    world.add(5)
    world.ack(1, 2)
    assert world.installed() == [5]
    world.add(6)
    began = world.now
    for number in range(7, 20):
        world.now += 1.0
        world.ack(1)
        world.add(number)
    assert world.now > began + WAIT_S
    world.ack(1)
    world.installed()
    assert world.silent == [2]
    assert world.sync.installing == {}, "the others need not wait for a mute broker"
    world.ack(2)
    assert not world.sync._installs.awaited


def test_a_deadline_lies_ahead_while_filters_wait() -> None:
    world = Roots(1, 2)
    world.add(5)
    for _ in range(50):
        if not world.sync.installing:
            break
        assert world.sync.due_at > world.now
        world.now = world.sync.due_at
        world.installed()
    assert world.sync.installing == {}
    assert sorted(world.silent) == [1, 2]


def test_brokers_that_are_met_in_a_storm_get_one_update_together_after_it() -> None:
    sync = InterestSync(HOME, new_index)
    sync.add(1, parse("x = 1"))
    for root in (1, 2, 3):
        sync.meet(root)
        assert sync.take_updates(1.0, lambda _: 0, hold=True) == []
    assert sync.held
    (update,) = sync.take_updates(1.1, lambda _: 0)
    assert sorted(update.to) == [1, 2, 3]
    assert not sync.held


def test_a_broker_that_has_got_an_update_gets_the_next_one_in_a_storm_too() -> None:
    sync = InterestSync(HOME, new_index)
    sync.meet(ROOT)
    assert len(sync.take_updates(1.0, lambda _: 0)) == 1
    sync.offer(ROOT, 1, parse("x >= 0"))
    sync.add(1, parse("x = 1"))
    assert len(sync.take_updates(1.1, lambda _: 0, hold=True)) == 1


def test_a_broker_that_comes_into_reach_before_its_first_update_gets_one_alone() -> None:
    sync = InterestSync(HOME, new_index)
    sync.meet(ROOT)
    assert sync.take_updates(1.0, lambda _: None) == []
    sync.back(ROOT)
    assert len(sync.take_updates(1.1, lambda _: 0)) == 1
