"""The overlay's parts compared with brute force, and pairs of them over a network that loses, reorders and repeats."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from plait_broker.overlay.interest.advertisement_table import AdvertisementTable
from plait_broker.overlay.interest.covering_set import CoveringSet
from plait_broker.overlay.interest.interest_sync import AGAIN_MAX_S, InterestSync
from plait_broker.overlay.interest.remote_interest import RemoteInterest
from plait_broker.overlay.topology.link_state import HOP_US, LinkStateDatabase
from plait_broker.overlay.transport.reliable_stream import (
    ACK_EVENTS,
    EARLY_MAX,
    GAP_S,
    ReceivedEvent,
    ReceiveStream,
    SendStream,
)
from plait_core.events import Event
from plait_core.filters import Filter, parse
from plait_core.limits import INTEREST_FILTERS_MAX
from plait_core.matching import new_index
from plait_core.wire import Confirm, Publish, encode_block
from plait_core.wire.frame_types.overlay_frames import Advertisement, InterestUpdate, LinkState

SEEDS = st.integers(0, 2**32 - 1)

# --- link state -------------------------------------------------------------------------------------------------------

INFINITE = 1 << 60


@st.composite
def link_states(draw: st.DrawFn) -> list[LinkState]:
    """Draw the link states of up to nine brokers. One has none, and links are not always listed at both ends."""
    rng = draw(st.randoms(use_true_random=False))
    count = rng.randint(1, 9)
    claimed: dict[int, dict[int, int]] = {broker: {} for broker in range(1, count + 1)}
    for _ in range(rng.randint(0, 2 * count)):
        near, far = rng.randint(1, count), rng.randint(1, count + 1)
        if near != far:
            claimed[near][far] = rng.choice((1, 1, 100, 1000, rng.randint(1, 100_000)))
            if far in claimed and rng.random() < 0.8:
                claimed[far][near] = rng.choice((claimed[near][far], rng.randint(1, 100_000)))
    return [LinkState(broker, 1, "", tuple(delays), tuple(delays.values())) for broker, delays in claimed.items()]


def drawn(claimed: list[LinkState]) -> LinkStateDatabase:
    map = LinkStateDatabase()
    for link_state in claimed:
        map.put(link_state)
    return map


def floyd_warshall(claimed: list[LinkState]) -> dict[tuple[int, int], int]:
    delays = {
        (link_state.origin, far): us
        for link_state in claimed
        for far, us in zip(link_state.neighbours, link_state.delays_us, strict=True)
    }
    brokers = [link_state.origin for link_state in claimed]
    best = {(a, b): 0 if a == b else INFINITE for a in brokers for b in brokers}
    both = {pair: max(us, delays[pair[::-1]]) for pair, us in delays.items() if pair[::-1] in delays and pair in best}
    best |= {pair: us + HOP_US for pair, us in both.items()}
    for via in brokers:
        for a in brokers:
            for b in brokers:
                best[a, b] = min(best[a, b], best[a, via] + best[via, b])
    return best


@given(link_states())
def test_distances_are_those_of_floyd_and_warshall(claimed: list[LinkState]) -> None:
    map, best = drawn(claimed), floyd_warshall(claimed)
    for (a, b), distance in best.items():
        assert map.distances(b).get(a, INFINITE) == min(distance, INFINITE)
        assert map.reaches(a, b) == (distance < INFINITE)


@given(link_states())
def test_a_parent_is_on_a_shortest_path_and_all_parents_make_a_tree(claimed: list[LinkState]) -> None:
    map = drawn(claimed)
    for root in (link_state.origin for link_state in claimed):
        distances = map.distances(root)
        for broker in (link_state.origin for link_state in claimed):
            parent = map.parent(root, broker)
            assert (parent is None) == (broker == root or broker not in distances)
            if parent is not None:
                cost = map.cost_us(broker, parent)
                assert cost is not None
                assert distances[broker] == cost + distances[parent]
                assert distances[parent] < distances[broker], "so following parents ends at the root"


@given(link_states())
def test_no_link_is_longer_than_its_detours_and_distances_obey_the_triangle(claimed: list[LinkState]) -> None:
    map = drawn(claimed)
    brokers = [link_state.origin for link_state in claimed]
    for a in brokers:
        for b in brokers:
            for c in brokers:
                to_c = map.distances(c)
                if a in map.distances(b) and b in to_c:
                    assert to_c[a] <= map.distances(b)[a] + to_c[b]


@given(link_states(), st.data())
def test_what_was_put_and_taken_away_leaves_no_trace(claimed: list[LinkState], data: st.DataObject) -> None:
    map = drawn(claimed)
    gone = data.draw(st.sampled_from(claimed))
    other = LinkState(gone.origin, 2, "other", (), ())
    for broker in (link_state.origin for link_state in claimed):
        map.distances(broker)
    map.put(other)
    fresh = drawn([link_state for link_state in claimed if link_state is not gone] + [other])
    for broker in (link_state.origin for link_state in claimed):
        assert map.distances(broker) == fresh.distances(broker)
    map.remove(gone.origin)
    assert gone.origin not in map
    assert map.distances(gone.origin) == {}
    map.put(gone)
    fresh = drawn(claimed)
    for broker in (link_state.origin for link_state in claimed):
        assert map.distances(broker) == fresh.distances(broker)


# --- the covering set -------------------------------------------------------------------------------------------------


def interval(rng: random.Random) -> Filter:
    """Return an interval. Such filters often cover each other, and at times only together."""
    low = rng.randrange(20)
    text = f"{low} <= x < {low + rng.choice((1, 3, 10, 30))}"
    if rng.random() < 0.3:
        text += f" and y >= {rng.randrange(3)}"
    if rng.random() < 0.15:
        text = f"({text}) or x == {rng.randrange(40)}"
    return parse(text)


GRID = [{"x": x, "y": y} for x in range(45) for y in range(4)]
FRAMES = {(event["x"], event["y"]): Publish(Confirm.NONE, encode_block(Event(event))) for event in GRID}


def deposit_of(rng: random.Random) -> bytes:
    """Return the routing tokens of a filter; most filters have none."""
    return rng.choice((b"", b"", b"", b"one", b"two"))


@cache
def matched(text: str) -> frozenset[int]:
    """Return which events of the grid a filter matches."""
    filter = parse(text)
    return frozenset(at for at, event in enumerate(GRID) if filter.matches(event))


def matched_by(filters: Iterable[tuple[Filter, bytes]], key: bytes) -> set[int]:
    """Return which events of the grid any of these filters matches, if the tags of the events fit this deposit."""
    return set[int]().union(*(matched(filter.text) for filter, deposit in filters if deposit in (b"", key)))


class ExportsAgainstBruteForce(RuleBasedStateMachine):
    """A covering set whose filters are added, replaced and removed, and a copy of what is exported by its results."""

    def __init__(self) -> None:
        super().__init__()
        self.exports = CoveringSet(new_index)
        self.filters: dict[int, tuple[Filter, bytes]] = {}
        self.replayed: dict[int, tuple[Filter, bytes]] = {}
        self.number = 0

    @rule(seed=SEEDS)
    def add(self, seed: int) -> None:
        self.number += 1
        self._put(self.number, seed)

    @precondition(lambda self: self.filters)
    @rule(data=st.data(), seed=SEEDS)
    def replace(self, data: st.DataObject, seed: int) -> None:
        self._put(data.draw(st.sampled_from(sorted(self.filters))), seed)

    @precondition(lambda self: self.filters)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.filters)))
        del self.filters[number]
        added, removed = self.exports.remove(number)
        assert not set(added) & set(removed)
        self._replay(added, removed)

    def _put(self, number: int, seed: int) -> None:
        rng = random.Random(seed)
        self.filters[number] = interval(rng), deposit_of(rng)
        added, removed = self.exports.add(number, *self.filters[number])
        assert set(added) & set(removed) <= {number}, "no other filter is both added and removed"
        self._replay(added, removed)

    def _replay(self, added: list[int], removed: list[int]) -> None:
        """Remove and add what the covering set says. It says neither too much nor too little."""
        assert len(set(added)) == len(added)
        assert len(set(removed)) == len(removed)
        assert set(removed) <= set(self.replayed)
        for number in removed:
            del self.replayed[number]
        assert not set(added) & set(self.replayed)
        self.replayed |= {number: self.filters[number] for number in added}

    @invariant()
    def replayed_changes_give_the_exported_filters(self) -> None:
        exported = {number: each for number, each in self.filters.items() if number in self.exports.exported}
        assert self.replayed == exported
        assert len(self.exports.exported) == len(exported)
        assert len(self.exports) == len(self.filters)
        assert {number: self.exports.deposit(number) for number in exported} == {
            number: deposit for number, (_, deposit) in exported.items()
        }

    @invariant()
    def each_has_an_exported_coverer(self) -> None:
        for number, (filter, deposit) in self.filters.items():
            coverer = self.exports.coverer(number)
            assert coverer in self.replayed
            if coverer != number:
                covering, its_deposit = self.filters[coverer]
                assert its_deposit in (b"", deposit)
                assert matched(filter.text) <= matched(covering.text)

    @invariant()
    def nothing_exported_is_covered_by_another(self) -> None:
        for number, (filter, deposit) in self.replayed.items():
            covering = self.exports.exported.covering(filter)
            assert [other for other in covering if self.filters[other][1] in (b"", deposit)] == [number]

    @invariant()
    def exported_filters_match_the_same_events_as_all_filters(self) -> None:
        for key in (b"", b"one", b"two"):
            assert matched_by(self.replayed.values(), key) == matched_by(self.filters.values(), key)

    def teardown(self) -> None:
        """Compare it with a covering set to which only the present filters were added."""
        fresh = CoveringSet(new_index)
        for number, each in self.filters.items():
            fresh.add(number, *each)
        for event in GRID:
            assert bool(fresh.exported.match(event)) == bool(self.exports.exported.match(event))


TestExports = ExportsAgainstBruteForce.TestCase


# --- interest, from a home broker to a publisher's --------------------------------------------------------------------

HOME, ROOT, OTHER = 7, 1, 2


class Interest(RuleBasedStateMachine):
    """One broker with subscribers, two with publishers, and an unreliable network in between."""

    def __init__(self) -> None:
        super().__init__()
        self.sync = InterestSync(HOME, new_index)
        self.remote = {ROOT: RemoteInterest(new_index), OTHER: RemoteInterest(new_index)}
        self.updates: list[tuple[int, InterestUpdate]] = []
        self.acks: list[tuple[int, int, int, int]] = []
        self.own = {ROOT: AdvertisementTable(ROOT), OTHER: AdvertisementTable(OTHER)}
        """The advertisements at the publishers' brokers."""
        self.known = AdvertisementTable(HOME)
        self.news: list[Advertisement] = []
        """Advertisements that are still being flooded."""
        self.versions = 0
        self.unsettled: dict[tuple[int, int], int] = {}
        """Advertisements, with their revision, whose brokers do not have this broker's interest yet."""
        self.filters: dict[int, Filter] = {}
        self.offers: dict[tuple[int, int], Filter] = {}
        self.reachable = {ROOT: True, OTHER: True}
        self.latest: dict[tuple[int, int], int] = {}
        self.texts: dict[tuple[int, int], Advertisement] = {}
        """Advertisements as this broker knows them, including withdrawn ones."""
        self.number = 0
        self.now = 100.0
        self.installed: set[int] = set()
        for root in (ROOT, OTHER):
            self.sync.meet(root)
        self.forgetful: set[int] = set()
        """Brokers that lost the interest which they had acknowledged."""
        self.lasting: dict[tuple[int, int], list[dict[str, Any]]] = {}
        """By publisher's broker and installed filter that was replaced since, events that the old and the new one
        match: they must be matched there at every moment."""

    # --- events at both ends

    @rule(seed=SEEDS)
    def subscribe(self, seed: int) -> None:
        self.number += 1
        self.filters[self.number] = interval(random.Random(seed))
        self.sync.add(self.number, self.filters[self.number])
        self.send()

    @precondition(lambda self: self.filters)
    @rule(data=st.data(), seed=SEEDS, at_once=st.booleans())
    def replace(self, data: st.DataObject, seed: int, at_once: bool) -> None:
        """Replace the filter of a subscription. Further changes may come before the next update is made."""
        number = data.draw(st.sampled_from(sorted(self.filters)))
        before, after = self.filters[number], interval(random.Random(seed))
        for root in (ROOT, OTHER):
            if number in self.installed and self.reachable[root]:
                events = [event for event in self._events(before) if self._matches(root, event)]
            else:
                events = self.lasting.pop((root, number), [])
            self.lasting[root, number] = [event for event in events if after.matches(event)]
        self.installed.discard(number)
        self.filters[number] = after
        self.sync.add(number, after)
        if at_once:
            self.send()

    @precondition(lambda self: self.filters)
    @rule(data=st.data(), at_once=st.booleans())
    def unsubscribe(self, data: st.DataObject, at_once: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.filters)))
        del self.filters[number]
        self.installed.discard(number)
        self._forget_lasting(number=number)
        self.sync.remove(number)
        if at_once:
            self.send()

    def _forget_lasting(self, *, root: int = 0, number: int = 0) -> None:
        """Expect nothing more of a publisher's broker, or of a filter."""
        self.lasting = {key: events for key, events in self.lasting.items() if root != key[0] and number != key[1]}

    @rule(seed=SEEDS, root=st.sampled_from((ROOT, OTHER)), number=st.integers(1, 3))
    def offer(self, seed: int, root: int, number: int) -> None:
        self.offers[root, number] = interval(random.Random(seed))
        self._flood(root, number, self.offers[root, number].text)

    @precondition(lambda self: self.offers)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.offers)))
        del self.offers[key]
        self._flood(*key, "")

    def _flood(self, root: int, number: int, text: str) -> None:
        self.versions += 1
        offer = Advertisement(root, number, self.versions, text)
        self.own[root].learn(offer)
        self.news.append(offer)
        self.unsettled.pop((root, number), None)
        if text:
            self.unsettled[root, number] = self.own[root].revision
        self.settle()

    def settle(self) -> None:
        """A publisher's broker waits for this one as long as it can reach it, and then goes on without."""
        for (root, number), revision in list(self.unsettled.items()):
            home = self.remote[root].homes.get(HOME)
            knows = home is not None and self.own[root].revision_of(home.offers) >= revision
            if knows or not self.reachable[root]:
                del self.unsettled[root, number]

    @precondition(lambda self: any(self.reachable[offer.origin] for offer in self.news))
    @rule(data=st.data())
    def learn_one(self, data: st.DataObject) -> None:
        some = [at for at, offer in enumerate(self.news) if self.reachable[offer.origin]]
        self._learn(self.news.pop(data.draw(st.sampled_from(some))))
        self.send()

    def _learn(self, offer: Advertisement) -> None:
        """Learn a flooded advertisement, in any order; versions older than the known one are ignored."""
        key = (offer.origin, offer.number)
        if offer.version < self.latest.get(key, 0):
            return
        self.latest[key] = offer.version
        self.texts[key] = offer
        filter, _ = self.known.learn(offer)
        self.sync.meet(offer.origin)
        if filter is None:
            self.sync.withdraw(*key)
        else:
            self.sync.offer(*key, filter)
        self.sync.offered(offer.origin, self.known.fingerprint(offer.origin))

    @rule(root=st.sampled_from((ROOT, OTHER)))
    def cut_or_mend(self, root: int) -> None:
        self._forget_lasting(root=root)
        self.reachable[root] = not self.reachable[root]
        self.settle()
        if self.reachable[root]:
            self.sync.back(root)
            self.send()

    @rule(root=st.sampled_from((ROOT, OTHER)))
    def the_publishers_broker_forgets(self, root: int) -> None:
        """The publisher's broker could not reach this one for long, and then reaches it again."""
        self._forget_lasting(root=root)
        self.remote[root].gone(HOME)
        self.forgetful.add(root)
        self.reachable[root] = False
        self.settle()
        self.reachable[root] = True
        self.sync.back(root)
        self.send()

    @rule(root=st.sampled_from((ROOT, OTHER)))
    def we_forget_the_publishers_broker(self, root: int) -> None:
        """Forget a publisher's broker and learn its advertisements again."""
        self._forget_lasting(root=root)
        self.sync.gone(root)
        self.known.forget(root)
        self.reachable[root] = False
        self.settle()
        self.reachable[root] = True
        self.news += [offer for (origin, _), offer in self.texts.items() if origin == root]
        self.latest = {key: version for key, version in self.latest.items() if key[0] != root}
        self.sync.meet(root)
        self.send()

    # --- the network

    @precondition(lambda self: self.updates)
    @rule(data=st.data(), twice=st.booleans())
    def receive_one_update(self, data: st.DataObject, twice: bool) -> None:
        to, update = self.updates.pop(data.draw(st.integers(0, len(self.updates) - 1)))
        if twice:
            self.updates.append((to, update))
        self._receive(to, update)

    def _receive(self, to: int, update: InterestUpdate) -> None:
        at = update.to.index(to)
        version = self.remote[to].apply(update, update.versions[at], update.offers[at])
        self.acks.append((to, version, self.own[to].fingerprint(to), update.versions[at]))
        self.settle()
        for (root, number), events in self.lasting.items():
            if root == to:
                advertised = [event for event in events if self._is_advertised(root, event)]
                assert all(self._matches(root, event) for event in advertised), f"{number} has a gap"

    @precondition(lambda self: self.acks)
    @rule(data=st.data(), twice=st.booleans())
    def receive_one_ack(self, data: st.DataObject, twice: bool) -> None:
        answer = self.acks.pop(data.draw(st.integers(0, len(self.acks) - 1)))
        if twice:
            self.acks.append(answer)
        self.sync.receive_ack(*answer, self.now)
        self.send()

    @rule()
    def lose_all_frames_in_flight(self) -> None:
        self.updates.clear()
        self.acks.clear()

    @rule(seconds=st.sampled_from((0.1, 1.0, 10.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.send()

    def send(self) -> None:
        for update in self.sync.take_updates(self.now, lambda root: 0 if self.reachable[root] else None):
            assert len(update.added) <= INTEREST_FILTERS_MAX
            self.updates += [(to, update) for to in update.to]
        for number in self.sync.installed:
            self.installed.add(number)
            self._forget_lasting(number=number)
            for root in (ROOT, OTHER):
                if self.reachable[root] and root not in self.forgetful:
                    assert self._is_known(root, number), "installed only once the publishers' brokers have it"
        self.sync.installed.clear()

    def _is_known(self, root: int, number: int) -> bool:
        events = self._events(self.filters[number])
        return all(self._matches(root, event) for event in events if self._is_advertised(root, event))

    def _events(self, filter: Filter) -> list[dict[str, Any]]:
        return [GRID[at] for at in sorted(matched(filter.text))]

    def _is_advertised(self, root: int, event: dict[str, Any]) -> bool:
        """Return whether an advertisement whose interest is known matches an event."""
        settled = [o for (at, n), o in self.offers.items() if at == root and (at, n) not in self.unsettled]
        return any(offer.matches(event) for offer in settled)

    def _matches(self, root: int, event: dict[str, Any]) -> bool:
        return self.remote[root].match(FRAMES[event["x"], event["y"]]) == [HOME]

    def teardown(self) -> None:
        """Once the network is quiet, each publisher's broker has exactly the interest that it should have."""
        self.reachable = {ROOT: True, OTHER: True}
        while self.news:
            self._learn(self.news.pop(0))
        for root in (ROOT, OTHER):
            self.sync.back(root)
        for _ in range(20):
            self.now += AGAIN_MAX_S
            self.send()
            for _ in range(50):
                while self.updates:
                    to, update = self.updates.pop(0)
                    self._receive(to, update)
                while self.acks:
                    self.sync.receive_ack(*self.acks.pop(0), self.now)
                self.send()
                if not self.updates:
                    break
            assert not self.updates, "no update is pending"
        for root in (ROOT, OTHER):
            if root not in self.sync.announced:
                continue  # it has no advertisements, so interest that it may still hold does no harm
            known = dict(self.remote[root].filters(HOME))
            assert sorted(known) == self.sync.announced[root], "it has the filters that were announced to it"
            offered = [filter for (at, _), filter in self.offers.items() if at == root]
            for number in known:
                assert known[number] == self.filters[number]
                assert any(offer.intersects(known[number]) for offer in offered)
            assert all(self._is_known(root, number) for number in self.filters)
        assert self.installed >= set(self.filters), "all filters are installed"


TestInterest = Interest.TestCase


# --- streams ----------------------------------------------------------------------------------------------------------


class Stream(RuleBasedStateMachine):
    """A sender and a receiver. Copies, reports and skips are lost, repeated and reordered."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10.0
        self.outgoing = SendStream(1000)
        self.incoming = ReceiveStream()
        self.copies: list[int] = []
        self.skips: list[int] = [self.outgoing.floor]
        self.reports: list[tuple[int, tuple[int, ...]]] = []
        self.published: dict[int, int] = {}
        """Sequence numbers of events by position."""
        self.given_up: set[int] = set()
        self.handed: list[int] = []
        self.open: list[int] = []
        self.charge: set[int] = set()
        self.known_acked: set[int] = set()

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        for _ in range(count):
            frame = Publish(Confirm.NONE, encode_block(Event({}, b"", publisher=1, sequence=len(self.published) + 1)))
            position = self.outgoing.add((frame, 0, 0, self.now, None), self.now)
            assert position not in self.published
            self.published[position] = len(self.published) + 1
            self.copies.append(position)

    @precondition(lambda self: self.outgoing.kept)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.outgoing.kept)))
        self.outgoing.give_up(position)
        self.given_up.add(position)

    @precondition(lambda self: self.copies)
    @rule(data=st.data(), again=st.booleans())
    def a_copy_comes(self, data: st.DataObject, again: bool) -> None:
        position = self.copies.pop(data.draw(st.integers(0, len(self.copies) - 1)))
        if again:
            self.copies.append(position)
        self._receive(position)

    @precondition(lambda self: self.copies)
    @rule()
    def all_copies_come_in_order(self) -> None:
        copies, self.copies = self.copies, []
        for position in copies:
            self._receive(position)

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        for queue in (self.copies, self.skips, self.reports):
            del queue[: data.draw(st.integers(0, len(queue)))]  # type: ignore[arg-type]

    @precondition(lambda self: self.skips)
    @rule(data=st.data(), again=st.booleans())
    def a_skip_comes(self, data: st.DataObject, again: bool) -> None:
        up_to = self.skips.pop(data.draw(st.integers(0, len(self.skips) - 1)))
        if again:
            self.skips.append(up_to)
        self._hand_on(self.incoming.skip(up_to, self.now))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        position = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        self.charge.add(position)
        self.incoming.acknowledge(position, self.now)

    @precondition(lambda self: self.reports)
    @rule(data=st.data(), again=st.booleans())
    def a_report_comes(self, data: st.DataObject, again: bool) -> None:
        report = self.reports.pop(data.draw(st.integers(0, len(self.reports) - 1)))
        if again:
            self.reports.append(report)
        self._receive_ack(*report)

    @rule(seconds=st.sampled_from((0.03, GAP_S, 1.0, 10.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._tick()

    # --- what `Dissemination` adds

    def _receive(self, position: int) -> None:
        frame = Publish(Confirm.NONE, encode_block(Event({}, b"", publisher=1, sequence=self.published[position])))
        self._hand_on(self.incoming.receive(ReceivedEvent(1, position, frame, 0, 0, (1,), self.now), self.now))

    def _hand_on(self, ready: list[ReceivedEvent]) -> None:
        for arrival in ready:
            assert arrival.frame.sequence == self.published[arrival.position]
            self.handed.append(arrival.position)
            self.open.append(arrival.position)

    def _receive_ack(self, up_to: int, missing: tuple[int, ...]) -> None:
        news = [position for position, _ in self.outgoing.receive_ack(up_to, self.now)]
        assert set(news) <= self.charge, "only accepted events are acknowledged"
        assert not set(news) & self.known_acked, "each event is acknowledged as new once"
        self.known_acked.update(news)
        if missing or up_to < self.outgoing.first - 1:
            self.skips.append(self.outgoing.floor)
            self.copies += [position for position in missing if position in self.outgoing.kept]

    def _tick(self) -> None:
        due = self.outgoing.due(self.now, 0.0)
        if due:
            self.skips.append(self.outgoing.floor)
            self.copies += due
        report = self.incoming.report(self.now)
        if report is not None:
            self.reports.append(report)

    @invariant()
    def exactly_once_and_in_order(self) -> None:
        assert all(before < after for before, after in pairwise(self.handed))

    @invariant()
    def acknowledged_means_taken(self) -> None:
        for position in self.published:
            if position <= self.incoming.up_to and position not in self.given_up:
                assert position in self.charge

    @invariant()
    def nothing_is_kept_without_need(self) -> None:
        kept = self.outgoing.kept
        assert self.outgoing.kept_bytes == sum(len(one[0].block) for one in kept.values())
        assert set(kept) == set(self.published) - self.known_acked - self.given_up
        assert list(kept) == sorted(kept)
        assert len(self.incoming._early) <= EARLY_MAX + 1
        assert len(self.incoming._open) <= len(self.open) + len(self.incoming._taken)
        assert len(self.incoming._taken) <= len(self.incoming._open)

    def teardown(self) -> None:
        """Heal the network and check that all events not given up arrive, and that the sender's buffer is empty."""
        for _ in range(40):
            self.now += 10.0
            self._tick()
            while self.skips or self.copies or self.reports or self.open:
                while self.skips:
                    self._hand_on(self.incoming.skip(self.skips.pop(0), self.now))
                while self.copies:
                    self._receive(self.copies.pop(0))
                while self.open:
                    position = self.open.pop(0)
                    self.charge.add(position)
                    self.incoming.acknowledge(position, self.now)
                while self.reports:
                    self._receive_ack(*self.reports.pop(0))
        assert not self.outgoing.kept
        assert set(self.handed) >= set(self.published) - self.given_up
        assert Counter(self.handed).most_common(1)[:1] in ([], [(self.handed[0], 1)] if self.handed else [])
        assert not self.incoming._early
        assert not self.incoming._taken
        self.exactly_once_and_in_order()
        self.acknowledged_means_taken()


TestStream = Stream.TestCase


@given(st.integers(1, 3 * ACK_EVENTS), SEEDS)
def test_a_destination_sends_an_ack_after_so_many_events_at_the_latest(count: int, seed: int) -> None:
    incoming = ReceiveStream()
    incoming.skip(0, 0.0)
    unacked = 0
    for position in range(1, count + 1):
        frame = Publish(Confirm.NONE, encode_block(Event({}, b"", publisher=1, sequence=position)))
        (ready,) = incoming.receive(ReceivedEvent(1, position, frame, 0, 0, (1,), 0.0), 0.0)
        incoming.acknowledge(ready.position, 0.0)
        unacked += 1
        report = incoming.report(0.0)
        if report is not None:
            assert report == (position, ())
            unacked = 0
        assert unacked < ACK_EVENTS
