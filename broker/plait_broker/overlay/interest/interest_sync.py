"""Interest on its way out: each publisher's broker is told which of our filters meet its advertisements.

For each such broker there is a desk with what it should know, what it was told, and what it has acknowledged. Changes
carry a version; they are told again until they are heard, in their order, whatever path they take and whatever becomes
of it: a change of routes changes nothing here. What is new is told together with what goes, so nothing is missed. Each
change says which offers it was made from (`advertisement_table.py`), and one is made, though it be empty, whenever
those change.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from plait_core.filters import Filter
from plait_core.limits import BROKERS_MAX, FRAME_BYTES_MAX, WANTS_MAX
from plait_core.matching import Index
from plait_core.wire.frame_types.overlay_frames import InterestUpdate

from .covering_set import CoveringSet

AGAIN_S: Final = 0.5
"""A change that was not heard is told again after this, then after twice as long, up to `AGAIN_MAX_S`."""

AGAIN_MAX_S: Final = 8.0

CHANGES_MAX: Final = 64
"""Changes that one broker has not heard of; beyond it, it is told everything instead."""

WANT_TEXTS_BYTES_MAX: Final = FRAME_BYTES_MAX // 2
"""Filters' texts, and what comes with them, in one frame; the rest of it is room for numbers."""


@dataclass(frozen=True, slots=True)
class FilterChange:
    """From one version of what a broker knows to the next."""

    version: int
    whole: bool
    added: tuple[int, ...]
    filters: tuple[str, ...]
    removed: tuple[int, ...]
    offers: int
    """The fingerprint of the offers that it was made from."""
    more: bool = False
    """Whether the rest of the whole follows."""
    routing: tuple[bytes, ...] = ()
    """What comes with each filter; () for nothing with any."""


_Saying: TypeAlias = tuple[bool, tuple[int, ...], tuple[str, ...], tuple[int, ...], bool, tuple[bytes, ...]]
"""What a frame says, whoever it is for."""


@dataclass(slots=True)
class PeerInterest:
    """What one publisher's broker is told."""

    meets: dict[int, int] = field(default_factory=dict)
    """By exported filter, how many of its offers that meets."""
    told: dict[int, int] = field(default_factory=dict)
    """What it was told, each with the version since which."""
    touched: dict[int, None] = field(default_factory=dict)
    """Filters that may have to be told or taken back."""
    version: int = 0
    offers: int = 0
    """The fingerprint of its offers, as they are known here."""
    offers_told: int = 0
    offers_there: int | None = None
    """What it said itself that it offers."""
    agree_from: int = 0
    """What answers no later version than this was said before it could be reached."""
    agreed: bool = False
    """Whether since it could be reached we have known all that it offers: it waits for us before it offers more."""
    sent: int = 0
    heard: int = 0
    unheard: deque[FilterChange] = field(default_factory=deque)
    again_at: float = 0.0
    again_s: float = AGAIN_S
    tries: int = 0
    """How often in a row it was told again, without having heard."""
    asked: list[int] = field(default_factory=list)
    """Filters that it is to answer for though it has no offer for them."""
    again_to: int = 0
    """The last version that was told again."""
    moved_at: float = -math.inf
    """When it last answered to something new."""
    mute: bool = False
    """Whether it was waited for in vain, and has answered to nothing new since."""
    stores_nothing: bool = False
    """The same, by those who waited for it only to store what it need not know."""
    whole: bool = False
    """Whether it is to be told everything: we had forgotten it, and it may remember what we said before."""


@dataclass(slots=True)
class InstallDeadlines:
    """What a filter waits for until it is installed."""

    since: float = 0.0
    wait_s: float = math.inf
    """For so long for a broker that answers to nothing."""
    store_s: float = math.inf
    """And for one that is only to store what it need not know."""
    versions: dict[int, int] = field(default_factory=dict)
    """By broker that is to answer whatever it offers, the version that it is to have heard."""


class InterestSync:
    """Our interest, at all publishers' brokers."""

    def __init__(self, me: int, new_index: Callable[[], Index]) -> None:
        self._me = me
        self._exports = CoveringSet(new_index)
        self._offers = new_index()
        self._offer_of: dict[int, tuple[int, int]] = {}
        self._handles: dict[tuple[int, int], tuple[int, Filter]] = {}
        self._next_handle = 0
        self._desks: dict[int, PeerInterest] = {}
        self._left: dict[int, int] = {}
        """By publisher's broker that was forgotten, the last version that it was told."""
        self._dirty: dict[int, None] = {}
        self._installing: dict[int, InstallDeadlines] = {}
        """Filters that are to be installed."""
        self._look_at = math.inf
        """When somebody is not waited for any longer."""
        self._unheard = False
        """Whether some desk may have changes that were not heard."""
        self.installed: list[int] = []
        """Filters that all publishers' brokers know now; whoever reads it clears it."""
        self.silent: list[int] = []
        """Brokers that were not waited for any longer; likewise."""

    def __len__(self) -> int:
        return len(self._exports)

    @property
    def exported(self) -> int:
        """Filters that others are told of: what no other of ours covers."""
        return len(self._exports.exported)

    # --- what our clients want ----------------------------------------------------------------------------------------

    def add(
        self,
        number: int,
        filter: Filter,
        deposit: bytes = b"",
        terms: InstallDeadlines | None = None,
        *,
        everywhere: bool = False,
    ) -> None:
        """A client subscribed; `installed` will name it, `everywhere` only once those have answered, too, who offer
        nothing that it wants."""
        self._export(*self._exports.add(number, filter, deposit))
        self._installing[number] = terms or InstallDeadlines()
        if everywhere:
            for root, desk in self._desks.items():
                desk.asked.append(number)
                self._dirty[root] = None

    def remove(self, number: int) -> None:
        """A client wants it no more."""
        self._installing.pop(number, None)
        self._export(*self._exports.remove(number))

    # --- what others offer --------------------------------------------------------------------------------------------

    def meet(self, root: int) -> None:
        """There is another broker."""
        if root not in self._desks and root != self._me:
            desk = self._desks[root] = self._open_desk(root)
            self._dirty[root] = None
            for number in self._exports.system:  # whoever is a broker records
                self._meet(root, desk, number, 1)

    def offered(self, root: int, fingerprint: int) -> None:
        """A broker's offers are these now; what each of them is was said before."""
        desk = self._desks[root]
        desk.offers = fingerprint
        desk.agreed = desk.agreed or desk.offers_there == fingerprint
        self._dirty[root] = None

    def offer(self, root: int, number: int, filter: Filter) -> None:
        """A broker has a new offer, or another filter for one."""
        self.withdraw(root, number)
        self.meet(root)
        handle = self._next_handle = self._next_handle + 1
        self._handles[root, number] = (handle, filter)
        self._offer_of[handle] = (root, number)
        self._offers.add(handle, filter)
        desk = self._desks[root]
        for exported in sorted(self._exports.exported.intersecting(filter)):
            self._meet(root, desk, exported, 1)

    def withdraw(self, root: int, number: int) -> None:
        """An offer is no more."""
        handle, filter = self._handles.pop((root, number), (0, None))
        if filter is None:
            return
        del self._offer_of[handle]
        self._offers.remove(handle)
        desk = self._desks[root]
        for exported in sorted(self._exports.exported.intersecting(filter)):
            self._meet(root, desk, exported, -1)

    def gone(self, root: int) -> None:
        """A publisher's broker is no more: nobody waits for it."""
        for number in [number for origin, number in self._handles if origin == root]:
            self.withdraw(root, number)
        desk = self._desks.pop(root, None)
        self._dirty.pop(root, None)
        if desk is not None and desk.version:
            self._left[root] = desk.version
            if len(self._left) > BROKERS_MAX:
                del self._left[next(iter(self._left))]

    def back(self, root: int) -> None:
        """A publisher's broker can be reached again. It may have forgotten us meanwhile, and may have offered more
        without having waited for us: an empty change finds out."""
        desk = self._desks.get(root)
        if desk is None:
            return
        desk.agreed, desk.offers_there, desk.agree_from = False, None, desk.version
        if desk.version:
            self._change(desk, [], [])

    # --- telling ------------------------------------------------------------------------------------------------------

    @property
    def restless(self) -> bool:
        """Whether `tell` may have something to say or to install."""
        return bool(self._dirty or self._installing or self._unheard)

    def tell(self, now: float, reaches: Callable[[int], bool]) -> list[InterestUpdate]:
        """What is to be said: new changes, and old ones that were not heard. Equal ones go out as one frame, and those
        of each broker in their order."""
        for root in self._dirty:
            desk = self._desks[root]
            self._decide(desk)
            self._ask(root, desk)
        self._dirty.clear()
        alike: dict[tuple[int, _Saying], list[tuple[int, int, int]]] = {}
        for root, desk in self._desks.items():
            if not desk.unheard:
                continue
            if not reaches(root):
                desk.again_at = max(desk.again_at, now + AGAIN_S)
                continue
            changes = [change for change in desk.unheard if change.version > desk.sent]
            if len(changes) < len(desk.unheard) and now >= desk.again_at:
                changes = list(desk.unheard)
                desk.again_s = min(2 * desk.again_s, AGAIN_MAX_S)
                desk.tries += 1
                desk.again_to = desk.version
            elif not changes:
                continue
            if len(changes) == len(desk.unheard):  # what is new puts off nothing that was told before
                desk.again_at = now + desk.again_s
            desk.sent = desk.version
            for place, change in enumerate(changes):
                what = (change.whole, change.added, change.filters, change.removed, change.more, change.routing)
                alike.setdefault((place, what), []).append((root, change.version, change.offers))
        self._look_installed(now, reaches)
        self._unheard = any(desk.unheard for desk in self._desks.values())
        wants = []
        for (_, what), named in sorted(alike.items(), key=lambda item: item[0][0]):
            to, versions, offers = zip(*named, strict=True)
            wants.append(InterestUpdate(to, self._me, versions, offers, *what[:-1], routing=what[-1]))
        return wants

    def hurry(self, now: float) -> None:
        """A link has come or gone: what was told in vain may be heard now."""
        for desk in self._desks.values():
            desk.again_s, desk.again_at = AGAIN_S, min(desk.again_at, now + AGAIN_S)

    def tries(self, root: int) -> int:
        """How often it was told in vain what it is told now, beyond the first time."""
        return max(0, self._desks[root].tries - 1)

    def heard(self, root: int, version: int, offers: int, asked: int, now: float) -> None:
        """A publisher's broker knows what was told up to a version, says what it offers, and what it answers."""
        desk = self._desks.get(root)
        if desk is None or version > desk.version or max(version, asked) < desk.heard:
            return
        if max(version, asked) > desk.agree_from:
            desk.offers_there = offers
            desk.agreed = desk.agreed or offers == desk.offers
        if version < desk.heard:
            if asked > desk.heard:  # it has forgotten
                self._tell_all(desk)
                self._dirty[root] = None
            return
        if version > desk.heard:
            desk.tries, desk.mute, desk.stores_nothing = 0, False, False
            desk.moved_at = now
            desk.again_s, desk.again_at = AGAIN_S, now + AGAIN_S
        elif asked > max(version, desk.again_to):  # it misses what was told before that
            desk.again_at = now
        desk.heard = version
        while desk.unheard and desk.unheard[0].version <= version:
            desk.unheard.popleft()
        self._dirty[root] = None

    def next_deadline(self) -> float | None:
        """When `tell` has something to say again."""
        if self._dirty:
            return 0.0
        if not self.restless:
            return None
        again_at = min((desk.again_at for desk in self._desks.values() if desk.unheard), default=math.inf)
        return min(again_at, self._look_at) if min(again_at, self._look_at) < math.inf else None

    @property
    def told(self) -> dict[int, list[int]]:
        """By publisher's broker, the filters that it was told of."""
        return {root: sorted(desk.told) for root, desk in self._desks.items()}

    # --- inside -------------------------------------------------------------------------------------------------------

    def _export(self, added: list[int], removed: list[int]) -> None:
        for number in added:
            if number in self._exports.system:
                for root, desk in self._desks.items():
                    self._meet(root, desk, number, 1)
                continue
            for handle in sorted(self._offers.intersecting(self._exports[number])):
                root = self._offer_of[handle][0]
                self._meet(root, self._desks[root], number, 1)
        for number in removed:
            for root, desk in self._desks.items():
                if desk.meets.pop(number, 0):
                    desk.touched[number] = None
                    self._dirty[root] = None

    def _meet(self, root: int, desk: PeerInterest, exported: int, by: int) -> None:
        count = desk.meets.get(exported, 0) + by
        assert count >= 0, "an offer that met it is counted"
        if count:
            desk.meets[exported] = count
        else:
            desk.meets.pop(exported, None)
        desk.touched[exported] = None
        self._dirty[root] = None

    def _decide(self, desk: PeerInterest) -> None:
        """Make a change of what is touched."""
        if desk.whole or not desk.version:  # the first says all there is, though that be nothing
            desk.whole = False
            self._tell_all(desk)
            return
        added = [number for number in desk.touched if number in desk.meets and number not in desk.told]
        removed = [number for number in desk.touched if number in desk.told and number not in desk.meets]
        desk.touched.clear()
        parts = self._parts(added)
        for part in parts[:-1]:
            self._change(desk, part, [], last=False)
        last = parts[-1]
        while last or removed or desk.offers != desk.offers_told:  # nothing goes before all that replaces it has come
            self._change(desk, last, removed[:WANTS_MAX])
            last, removed = [], removed[WANTS_MAX:]
        if len(desk.unheard) > CHANGES_MAX:
            self._tell_all(desk)

    def _ask(self, root: int, desk: PeerInterest) -> None:
        """Have it answer for what is to be installed everywhere, with an empty change if there is none."""
        asked = [number for number in desk.asked if number in self._installing]
        desk.asked.clear()
        if asked and desk.version == desk.sent:
            self._change(desk, [], [])
        for number in asked:
            self._installing[number].versions[root] = desk.version

    def _tell_all(self, desk: PeerInterest) -> None:
        """Instead of all changes that were not heard, say everything."""
        desk.unheard.clear()
        desk.touched.clear()
        desk.told.clear()
        parts = self._parts(sorted(desk.meets))
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            self._change(desk, part, [], whole=at == 0, last=last, more=not last)
        desk.heard = desk.unheard[0].version - 1
        desk.again_at = 0.0

    def _parts(self, numbers: list[int]) -> list[list[int]]:
        """Filters in portions that a frame has room for; at least one."""
        parts: list[list[int]] = [[]]
        size = 0
        for number in numbers:
            own = len(self._exports[number].text.encode()) + len(self._exports.deposit(number))
            size += own
            if len(parts[-1]) == WANTS_MAX or (parts[-1] and size > WANT_TEXTS_BYTES_MAX):
                parts.append([])
                size = own
            parts[-1].append(number)
        return parts

    def _open_desk(self, root: int) -> PeerInterest:
        version = self._left.pop(root, 0)
        if version:
            self._dirty[root] = None
        return PeerInterest(version=version, sent=version, heard=version, whole=version > 0)

    def _change(
        self,
        desk: PeerInterest,
        added: list[int],
        removed: list[int],
        *,
        whole: bool = False,
        last: bool = True,
        more: bool = False,
    ) -> None:
        """`last`: whether all that meets its offers, as they are known here, is said with this."""
        desk.version += 1
        self._unheard = True
        if last:
            desk.offers_told = desk.offers
        filters = tuple(self._exports[number].text for number in added)
        deposits = tuple(self._exports.deposit(number) for number in added)
        routing = deposits if any(deposits) else ()
        desk.unheard.append(
            FilterChange(desk.version, whole, tuple(added), filters, tuple(removed), desk.offers_told, more, routing)
        )
        for number in added:
            desk.told[number] = desk.version
        for number in removed:
            del desk.told[number]

    def _look_installed(self, now: float, reaches: Callable[[int], bool]) -> None:
        self._look_at = math.inf
        desks = [(root, desk) for root, desk in self._desks.items() if reaches(root)] if self._installing else []
        for number, terms in list(self._installing.items()):
            coverer = self._exports.coverer(number)
            for root, desk in desks:
                until = self._waits(terms, coverer, root, desk, now)
                if until > now:
                    self._look_at = min(self._look_at, until)
                    break
            else:
                del self._installing[number]
                self.installed.append(number)

    def _waits(self, terms: InstallDeadlines, coverer: int, root: int, desk: PeerInterest, now: float) -> float:
        """Until when a filter waits for a broker, if it does: who answers to nothing for long keeps nobody waiting."""
        knows = desk.mute or (desk.agreed and self._knows(desk, coverer))
        stored = desk.stores_nothing or desk.heard >= terms.versions.get(root, 0)
        if knows and stored:
            return -math.inf
        since = max(terms.since, desk.moved_at)
        until = since + (terms.store_s if knows else terms.wait_s)
        if now >= until:
            desk.mute, desk.stores_nothing = desk.mute or not knows, True
            self.silent.append(root)
        return until

    def _knows(self, desk: PeerInterest, number: int) -> bool:
        return number not in desk.meets or desk.told.get(number, desk.heard + 1) <= desk.heard
