"""Outgoing interest: each publisher's broker gets the filters of ours that meet its advertisements.

`PeerInterest` holds, for each such broker, the filters that it should have, the announced ones, and its last ack.
Changes are numbered by version. They are retransmitted in order until they are acked, over any path: a change of next
hops does not matter here. New filters and removals go in one change, so no event falls between them. Each change names
the fingerprint of the advertisements that it was computed against (`advertisement_table.py`). When these change, a
change follows, even an empty one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Final, TypeAlias

from plait_core.filters import Filter
from plait_core.limits import BROKERS_MAX, FRAME_BYTES_MAX, INTEREST_FILTERS_MAX
from plait_core.matching import Index
from plait_core.wire.frame_types.overlay_frames import InterestUpdate

from .covering_set import CoveringSet
from .install_watch import InstallDeadlines, InstallWatch, stored_key
from .peer_interest import AGAIN_S, OUTDATED, FilterChange, PeerInterest

AGAIN_MAX_S: Final = 8.0

CHANGES_MAX: Final = 64
"""Unacked changes of one broker. Beyond it, one update of all filters replaces them."""

WANT_TEXTS_BYTES_MAX: Final = FRAME_BYTES_MAX // 2
"""Bytes of filters and routing tokens in one update. The rest of a frame is room for numbers."""


_Content: TypeAlias = tuple[
    bool, tuple[int, ...], tuple[str, ...], tuple[int, ...], bool, tuple[bytes, ...], tuple[int, ...]
]
"""The content of an update, which is the same for all its destinations."""


class InterestSync:
    """Our interest at all publishers' brokers."""

    def __init__(self, me: int, new_index: Callable[[], Index]) -> None:
        self._me = me
        self._exports = CoveringSet(new_index)
        self._offers = new_index()
        self._offer_of: dict[int, tuple[int, int]] = {}
        self._handles: dict[tuple[int, int], tuple[int, Filter]] = {}
        self._next_handle = 0
        self._within_us: dict[int, int] = {}
        """By filter, the delay bound of its subscription, where it has one."""
        self._peers: dict[int, PeerInterest] = {}
        self._left: dict[int, int] = {}
        """By forgotten publisher's broker, the last version that was sent to it."""
        self.dirty: dict[int, None] = {}
        self._unsent: dict[int, None] = {}
        """Brokers with changes that were not sent because they are out of reach."""
        self._installs = InstallWatch()
        self.installing: Final = self._installs.installing
        """Filters that are being installed."""
        self.held: dict[int, None] = {}
        """Brokers whose first update was held back."""
        self._again_at = math.inf
        """The time of the next retransmission, or an earlier one."""
        self._check_at = math.inf
        """The time of the next timeout of an installation, or an earlier one."""
        self._hastened_at = -math.inf
        """The last time at which a change of links shortened the retransmission timeouts."""
        self._unacked: dict[int, None] = {}
        """Brokers that may have unacked changes."""
        self._review = True
        """Whether a broker may have come into reach or gone, or agrees or is mute now: installations look at all."""
        self._ready = False
        """Whether all brokers that count have agreed on their advertisements."""
        self.installed: list[int] = []
        """Filters that all publishers' brokers have now; the caller clears it."""
        self.due_at = math.inf
        """When to call `take_updates` again, at the latest. It counts only while something is pending."""
        self.silent: list[int] = []
        """Brokers whose acks timed out; the caller clears it."""

    def __len__(self) -> int:
        return len(self._exports)

    def covering_filters(self) -> dict[int, Filter]:
        """Return the covering set of our clients' filters, by number, without filters for system events."""
        return self._exports.covering_filters()

    @property
    def exported(self) -> int:
        """The size of the covering set."""
        return len(self._exports.exported)

    # --- our clients' filters -----------------------------------------------------------------------------------------

    def add(
        self,
        number: int,
        filter: Filter,
        deposit: bytes = b"",
        terms: InstallDeadlines | None = None,
        *,
        everywhere: bool = False,
        within_us: int = 0,
    ) -> None:
        """Add a subscription's filter, or replace the one with this number; `installed` will name it. With
        `everywhere`, all brokers must ack it, even those with no advertisement that it meets."""
        if number in self._exports:
            self._outdate(number)
        added, removed = self._exports.add(number, filter, deposit)
        self._within_us.pop(number, None)
        if within_us:
            self._within_us[number] = within_us
        if added or removed:
            self._export(added, removed)
        terms = terms or InstallDeadlines()
        self._installs.add(number, terms)
        self._check_at = min(self._check_at, terms.since + min(terms.wait_s, terms.store_s))
        if everywhere:
            for root, peer in self._peers.items():
                peer.asked.append(number)
                self.dirty[root] = None

    def remove(self, number: int) -> None:
        """Remove a subscription's filter."""
        self._installs.remove(number)
        self._outdate(number)
        self._export(*self._exports.remove(number))
        self._within_us.pop(number, None)

    # --- other brokers' advertisements --------------------------------------------------------------------------------

    def meet(self, root: int) -> None:
        """Begin to announce interest to a broker."""
        if root not in self._peers and root != self._me:
            peer = self._peers[root] = self._open_peer(root)
            self._review = True
            self.dirty[root] = None
            for number in self._exports.system:  # every broker records
                self._count_intersection(root, peer, number, 1)

    def offered(self, root: int, fingerprint: int) -> None:
        """Note the fingerprint of a broker's advertisements, after `offer` and `withdraw` have changed them."""
        peer = self._peers[root]
        peer.offers = fingerprint
        peer.agreed = peer.agreed or peer.offers_there == fingerprint
        self._review = True
        self.dirty[root] = None

    def offer(self, root: int, number: int, filter: Filter) -> None:
        """Add a broker's advertisement, or change its filter."""
        self.withdraw(root, number)
        self.meet(root)
        handle = self._next_handle = self._next_handle + 1
        self._handles[root, number] = (handle, filter)
        self._offer_of[handle] = (root, number)
        self._offers.add(handle, filter)
        peer = self._peers[root]
        for exported in sorted(self._exports.exported.intersecting(filter)):
            self._count_intersection(root, peer, exported, 1)

    def withdraw(self, root: int, number: int) -> None:
        """Remove a broker's advertisement."""
        handle, filter = self._handles.pop((root, number), (0, None))
        if filter is None:
            return
        del self._offer_of[handle]
        self._offers.remove(handle)
        peer = self._peers[root]
        for exported in sorted(self._exports.exported.intersecting(filter)):
            self._count_intersection(root, peer, exported, -1)

    def gone(self, root: int) -> None:
        """Forget a publisher's broker."""
        for number in [number for origin, number in self._handles if origin == root]:
            self.withdraw(root, number)
        peer = self._peers.pop(root, None)
        self.dirty.pop(root, None)
        self._unsent.pop(root, None)
        self._unacked.pop(root, None)
        self.held.pop(root, None)
        self._review = True
        if peer is not None:
            self._count_acks(peer, reachable=False)
        if peer is not None and peer.version:
            self._left[root] = peer.version
            if len(self._left) > BROKERS_MAX:
                del self._left[next(iter(self._left))]

    def back(self, root: int) -> None:
        """Check a publisher's broker that can be reached again, by an empty change.

        Meanwhile it may have forgotten us, or advertised more without waiting for us. Its ack shows which.
        """
        peer = self._peers.get(root)
        if peer is None:
            return
        if not peer.sent:  # its first update will do
            self.dirty[root], self._review = None, True
            return
        peer.agreed, peer.offers_there, peer.agree_from = False, None, peer.version
        self._review = True
        if peer.version:
            self._change(peer, [], [])
        self.dirty[root] = None

    # --- updates and acks ---------------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether `take_updates` may return or install something."""
        return bool(self.dirty or self.installing or self._unacked)

    def take_updates(
        self, now: float, distance_us: Callable[[int], int | None], *, hold: bool = False
    ) -> list[InterestUpdate]:
        """Return the updates to send: new changes, and retransmissions. Equal ones for several brokers are one update,
        and those of each broker come in their order. `distance_us` returns the delay to a broker, None if it is out of
        reach. With `hold`, brokers that have got no update yet get none now."""
        if not self.pending:
            self.due_at = math.inf
            return []
        if self.held and not hold:
            self.dirty |= self.held
            self.held.clear()
        elif not (self.dirty or self._unsent or self._review or self._installs.due) and now < self.due_at:
            return []
        for root in self.dirty:
            peer = self._peers[root]
            self._make_changes(peer)
            self._request_acks(root, peer)
            if peer.unacked:
                self._unacked[root] = None
            else:
                self._unacked.pop(root, None)
        if now >= self._again_at:
            changed, self._again_at = list(self._unacked), math.inf
        else:
            changed = list(self._unsent | self.dirty)
        self.dirty.clear()
        updates = self._updates_to(changed, now, distance_us, hold=hold)
        self._install(now, distance_us)
        self.due_at = min(self._again_at, self._check_at if self.installing else math.inf)
        return updates

    def _updates_to(
        self, roots: list[int], now: float, distance_us: Callable[[int], int | None], *, hold: bool
    ) -> list[InterestUpdate]:
        """Return the updates to send to these brokers, and note when to retransmit to them."""
        alike: dict[tuple[int, _Content], list[tuple[int, int, int]]] = {}
        for root in roots:
            peer = self._peers[root]
            if not peer.unacked:
                continue
            if hold and not peer.sent:
                self.held[root] = None
                continue
            path_us = distance_us(root)
            if path_us is None:
                peer.again_at = max(peer.again_at, now + AGAIN_S)
                self._again_at = min(self._again_at, peer.again_at)
                self._unsent[root] = None
                continue
            self._unsent.pop(root, None)
            changes = [change for change in peer.unacked if change.version > peer.sent]
            if len(changes) < len(peer.unacked) and now >= peer.again_at:
                changes = list(peer.unacked)
                peer.again_s = min(2 * peer.again_s, AGAIN_MAX_S)
                peer.tries += 1
                peer.again_to = peer.version
            elif not changes:
                self._again_at = min(self._again_at, peer.again_at)
                continue
            if len(changes) == len(peer.unacked):  # a new change does not put off a retransmission
                peer.again_at = now + peer.again_s + 2e-6 * path_us  # busy brokers make the path longer
            self._again_at = min(self._again_at, peer.again_at)
            peer.sent = peer.version
            for place, change in enumerate(changes):
                content = (
                    *(change.whole, change.added, change.filters, change.removed),
                    *(change.more, change.routing, change.within_us),
                )
                alike.setdefault((place, content), []).append((root, change.version, change.offers))
        updates = []
        for (_, content), named in sorted(alike.items(), key=lambda item: item[0][0]):
            to, versions, offers = zip(*named, strict=True)
            updates.append(InterestUpdate(to, self._me, versions, offers, *content))
        return updates

    def reach_changed(self) -> None:
        """Note that brokers may have come into reach or gone out of it."""
        self._review = True

    def retransmit_soon(self, now: float) -> None:
        """Retransmit soon: a link came up or failed, so lost updates may get through now.

        Where links change all the time, as while an overlay starts, the timeouts double as usual: otherwise all brokers
        would retransmit everything, and the load would delay the acks that they wait for.
        """
        if now - self._hastened_at < AGAIN_MAX_S:
            return
        self._hastened_at = now
        for peer in self._peers.values():
            peer.again_s, peer.again_at = AGAIN_S, min(peer.again_at, now + AGAIN_S)
        self._again_at = min(self._again_at, now + AGAIN_S)

    def tries(self, root: int) -> int:
        """Return the retransmissions of the present changes to a broker, not counting the first one."""
        return max(0, self._peers[root].tries - 1)

    def receive_ack(self, root: int, version: int, offers: int, asked: int, now: float) -> None:
        """Take the ack of a publisher's broker: its version, its fingerprint, and the version that it answers."""
        peer = self._peers.get(root)
        if peer is None or version > peer.version or max(version, asked) < peer.acked:
            return
        if max(version, asked) > peer.agree_from:
            peer.offers_there = offers
            self._review = self._review or (offers == peer.offers and not peer.agreed)
            peer.agreed = peer.agreed or offers == peer.offers
        if version < peer.acked:
            if asked > peer.acked:  # it has forgotten our interest
                self._announce_all(peer)
                self.dirty[root] = None
            return
        if version > peer.acked:
            self._review = self._review or peer.mute or peer.stores_nothing
            peer.tries, peer.mute, peer.stores_nothing = 0, False, False
            peer.moved_at = now
            peer.again_s, peer.again_at = AGAIN_S, now + AGAIN_S
        elif asked > max(version, peer.again_to):  # an earlier change was lost
            peer.again_at = now
        peer.acked = version
        acked = bisect_right(peer.unacked, version, key=attrgetter("version"))
        for change in peer.unacked[:acked] if peer.counted else ():
            self._installs.count(change.added, -1)
        del peer.unacked[:acked]
        stored = bisect_right(peer.stores, version, key=itemgetter(0))
        if peer.stores_counted:
            self._installs.count([stored_key(number) for _, number in peer.stores[:stored]], -1)
        del peer.stores[:stored]
        self.dirty[root] = None

    def next_deadline(self) -> float | None:
        """Return when `take_updates` is to be called, or None when nothing is pending."""
        if self.dirty:
            return 0.0
        if not self.pending:
            return None
        again_at = min((peer.again_at for peer in self._peers.values() if peer.unacked), default=math.inf)
        at = min(again_at, self._check_at if self.installing else math.inf)
        return at if at < math.inf else None

    @property
    def announced(self) -> dict[int, list[int]]:
        """By publisher's broker, the filters that were announced to it."""
        return {root: sorted(peer.announced) for root, peer in self._peers.items()}

    # --- inside -------------------------------------------------------------------------------------------------------

    def _outdate(self, number: int) -> None:
        """Note that brokers have a former filter of this number, even if it is not exported: it may be again before
        the next update."""
        for peer in self._peers.values():
            if number in peer.announced:
                peer.announced[number] = OUTDATED

    def _export(self, added: list[int], removed: list[int]) -> None:
        """Count the advertisements that filters meet from now on. A filter in both lists has been replaced."""
        for number in removed:
            for root, peer in self._peers.items():
                if peer.refcount.pop(number, 0):
                    peer.dirty[number] = None
                    self.dirty[root] = None
        for number in added:
            if number in self._exports.system:
                for root, peer in self._peers.items():
                    self._count_intersection(root, peer, number, 1)
                continue
            for handle in sorted(self._offers.intersecting(self._exports[number])):
                root = self._offer_of[handle][0]
                self._count_intersection(root, self._peers[root], number, 1)

    def _count_intersection(self, root: int, peer: PeerInterest, exported: int, by: int) -> None:
        count = peer.refcount.get(exported, 0) + by
        assert count >= 0, "a removed intersection was counted before"
        if count:
            peer.refcount[exported] = count
        else:
            peer.refcount.pop(exported, None)
        peer.dirty[exported] = None
        self.dirty[root] = None

    def _make_changes(self, peer: PeerInterest) -> None:
        """Turn the dirty filters into changes."""
        if peer.whole or not peer.version:  # the first change is whole, even if empty
            peer.whole = False
            self._announce_all(peer)
            return
        known = peer.announced
        added = [number for number in peer.dirty if number in peer.refcount and known.get(number, OUTDATED) == OUTDATED]
        removed = [number for number in peer.dirty if number in known and number not in peer.refcount]
        peer.dirty.clear()
        parts = self._parts(added)
        if len(parts) > 1 and any(number in known for number in added):
            self._announce_all(peer)  # the old filter goes with the part that replaces it: no part may come later
            return
        for part in parts[:-1]:
            self._change(peer, part, [], last=False)
        last = parts[-1]
        while last or removed or peer.offers != peer.offers_announced:  # removals follow the filters that replace them
            self._change(peer, last, removed[:INTEREST_FILTERS_MAX])
            last, removed = [], removed[INTEREST_FILTERS_MAX:]
        if len(peer.unacked) > CHANGES_MAX:
            self._announce_all(peer)

    def _request_acks(self, root: int, peer: PeerInterest) -> None:
        """Have a broker ack filters that are installed everywhere; by an empty change if no other is pending."""
        asked = [number for number in peer.asked if number in self.installing]
        peer.asked.clear()
        if asked and peer.version == peer.sent:
            self._change(peer, [], [])
        for number in asked:
            self.installing[number].versions[root] = peer.version
            peer.stores.append((peer.version, number))
            if peer.stores_counted:
                self._installs.count((stored_key(number),), 1)

    def _announce_all(self, peer: PeerInterest) -> None:
        """Replace all unacked changes by the whole table."""
        if peer.counted:
            for change in peer.unacked:
                self._installs.count(change.added, -1)
        peer.unacked.clear()
        peer.dirty.clear()
        peer.announced.clear()
        parts = self._parts(sorted(peer.refcount))
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            self._change(peer, part, [], whole=at == 0, last=last, more=not last)
        peer.acked = peer.unacked[0].version - 1
        peer.again_at = 0.0

    def _parts(self, numbers: list[int]) -> list[list[int]]:
        """Split filters into parts that an update has room for; at least one."""
        parts: list[list[int]] = [[]]
        size = 0
        for number in numbers:
            own = len(self._exports[number].text.encode()) + len(self._exports.deposit(number))
            size += own
            if len(parts[-1]) == INTEREST_FILTERS_MAX or (parts[-1] and size > WANT_TEXTS_BYTES_MAX):
                parts.append([])
                size = own
            parts[-1].append(number)
        return parts

    def _open_peer(self, root: int) -> PeerInterest:
        version = self._left.pop(root, 0)
        if version:
            self.dirty[root] = None
        return PeerInterest(version=version, sent=version, acked=version, whole=version > 0)

    def _change(
        self,
        peer: PeerInterest,
        added: list[int],
        removed: list[int],
        *,
        whole: bool = False,
        last: bool = True,
        more: bool = False,
    ) -> None:
        """Append a change. With `last`, the peer then has all filters that meet its known advertisements."""
        peer.version += 1
        if last:
            peer.offers_announced = peer.offers
        filters = tuple(self._exports[number].text for number in added)
        deposits = tuple(self._exports.deposit(number) for number in added)
        bounds = tuple(self._within_us.get(number, 0) for number in added)
        peer.unacked.append(
            FilterChange(
                *(peer.version, whole, tuple(added), filters, tuple(removed), peer.offers_announced, more),
                *(deposits if any(deposits) else (), bounds if any(bounds) else ()),
            )
        )
        if peer.counted:
            self._installs.count(added, 1)
        for number in added:
            peer.announced[number] = peer.version
        for number in removed:
            del peer.announced[number]

    def _install(self, now: float, distance_us: Callable[[int], int | None]) -> None:
        """Move filters that no reachable broker has to ack any more to `installed`."""
        installs = self._installs
        if not self.installing:
            return
        if self._review:
            self._review, self._ready = False, True
            for root, peer in self._peers.items():
                reachable = distance_us(root) is not None
                if peer.counted is not (reachable and not peer.mute) or (
                    peer.stores_counted is not (reachable and not peer.stores_nothing)
                ):
                    self._count_acks(peer, reachable=reachable)
                self._ready = self._ready and (peer.agreed or not peer.counted)
        if now >= self._check_at:
            self._ready = self._skip_silent(now)
        if self._ready and installs.due:
            self.installed += installs.take_installed(self._exports.coverer)

    def _count_acks(self, peer: PeerInterest, *, reachable: bool) -> None:
        """Count the acks that are awaited from a broker, or count them no longer: it is out of reach, or silent."""
        counted = reachable and not peer.mute
        if counted is not peer.counted:
            peer.counted = counted
            for change in peer.unacked:
                self._installs.count(change.added, 1 if counted else -1)
        counted = reachable and not peer.stores_nothing
        if counted is not peer.stores_counted:
            peer.stores_counted = counted
            self._installs.count([stored_key(number) for _, number in peer.stores], 1 if counted else -1)

    def _skip_silent(self, now: float) -> bool:
        """Wait no longer for brokers whose timeout is over. Return whether all others have agreed on what they
        advertise."""
        limit_s = min((min(terms.wait_s, terms.store_s) for terms in self.installing.values()), default=math.inf)
        counted = [(root, peer) for root, peer in self._peers.items() if peer.counted or peer.stores_counted]
        late = [(root, peer) for root, peer in counted if peer.moved_at + limit_s <= now]
        self._check_at = min((peer.moved_at for _, peer in counted if peer.moved_at + limit_s > now), default=math.inf)
        self._check_at += limit_s
        for number, terms in self.installing.items():
            if terms.since + limit_s > now:
                self._check_at = min(self._check_at, terms.since + limit_s)
                continue
            coverer = self._exports.coverer(number)
            for root, peer in late:
                until = self._ack_deadline(terms, coverer, root, peer, now)
                if until > now:
                    self._check_at = min(self._check_at, until)
        for _, peer in late:
            self._count_acks(peer, reachable=True)
        return all(peer.agreed or not peer.counted for _, peer in counted)

    def _ack_deadline(self, terms: InstallDeadlines, coverer: int, root: int, peer: PeerInterest, now: float) -> float:
        """Return when installation stops waiting for this broker's ack (-inf: not waiting). A broker that is silent
        past its deadline is marked mute and skipped."""
        knows = peer.mute or (peer.agreed and self._knows(peer, coverer))
        stored = peer.stores_nothing or peer.acked >= terms.versions.get(root, 0)
        if knows and stored:
            return -math.inf
        since = max(terms.since, peer.moved_at)
        until = since + (terms.store_s if knows else terms.wait_s)
        if now >= until:
            peer.mute, peer.stores_nothing = peer.mute or not knows, True
            self.silent.append(root)
        return until

    def _knows(self, peer: PeerInterest, number: int) -> bool:
        return number not in peer.refcount or peer.announced.get(number, peer.acked + 1) <= peer.acked
