"""Which brokers to have links to: seeds until others are known, then a few near ones and a far one. No I/O.

Every broker floods its address in its link state, so all know where all are. From that each decides for
itself: links that it was configured with always; seeds while it is alone, or cannot reach them; brokers that it cannot
reach, since there may be a whole overlay behind them; else near ones, until it has its degree of links, and one drawn
at random, which is what holds a graph together when a part of it dies. What fails is tried again after a pause drawn
between nothing and a bound that doubles. One that has too many links gives up those without which it reaches as many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from plait_core.ids import Randomness

from ...settings import LinkSettings
from ..topology.link_state import LinkStateDatabase
from ..topology.neighbours import Neighbour

PAUSE_S: Final = 0.2
PAUSE_MAX_S: Final = 3.0
"""Bounds of the pause between two attempts: at first, and at most where a configured broker is to be back soon."""

PAUSE_FAR_MAX_S: Final = 60.0
"""At most, where nobody waits for it: a broker that was heard of, and a seed while there are other neighbours."""

DOUBLINGS_MAX: Final = 16

GOOD_S: Final = 5.0
"""A link that lasted so long was a good one: the pauses begin anew."""

GIVEN_UP_S: Final = 60.0
"""Where a broker has given up a link for being one too many, nobody asks again before, unless it is out of reach."""

RENEWED_S: Final = 30.0
"""That somebody new is at an address is believed so often: more than one may claim it, and none be there."""

PROBES_MAX: Final = 3
"""Attempts at once, beside those at configured links and seeds: after a partition one that succeeds is enough."""

LOST_S: Final = 2.0
"""For which a broker is out of reach before it is dialled on that account: one that has just come is on the map before
its links are, and a path that has broken is often mended. Who is alone does not wait."""

PLACES_MAX: Final = 2048
"""Addresses that are known; beyond it the one that was heard of first is forgotten."""

FORGOTTEN_S: Final = 3600.0
"""An address that nobody has answered at, or spoken of, for so long is forgotten."""

GAP_S: Final = 0.1
"""Between two decisions: the map may change with each frame, and looking at it costs a walk."""

REVIEW_S: Final = 1.0
"""Between two decisions though nothing has happened."""

SHED_S: Final = 2.0
"""Between two links given up, on average: each is to be on the others' maps before the next is chosen."""


@dataclass(slots=True)
class Place:
    """An address, and what is known of it."""

    address: str
    spoken_of: float
    fixed: bool = False
    seed: bool = False
    broker: int = 0
    """Who is there, as far as that is known: whoever was found there, until others say that it is someone new."""
    told: int = 0
    """Who is there, by what others said last."""
    renewed_at: float = -math.inf
    """When somebody new was last said to be there."""
    failures: int = 0
    not_before: float = -math.inf
    busy: bool = False
    """Whether a connection to it stands, or is being made."""
    up_since: float | None = None
    ours: bool = False
    """Whether it leads to this broker itself."""
    far: bool = False
    """Whether it was drawn at random."""
    lost_since: float | None = None
    """Since when nobody reaches who is there."""


class LinkSelection:
    """One broker's choice of links."""

    def __init__(
        self,
        me: int,
        terms: LinkSettings,
        overlay_map: LinkStateDatabase,
        neighbours: Mapping[int, Neighbour],
        randomness: Randomness,
        now: float,
    ) -> None:
        self._me = me
        self._terms = terms
        self._map = overlay_map
        self._neighbours = neighbours
        self._randomness = randomness
        self._places: dict[str, Place] = {}
        self._links: dict[int, Place | None] = {}
        """By broker, where this one has dialled it; None if it has dialled this one."""
        self._kept: dict[int, None] = {}
        """Brokers that hold on to their link to this one."""
        self._due_at = now
        self._decided_at = now - GAP_S
        self._revision = -1
        self._shed_at = now
        self.stopped = False
        for address in (*terms.links, *terms.seeds):
            fixed, seed = address in terms.links, address in terms.seeds
            self._places[address] = Place(address, now, fixed=fixed, seed=seed, ours=address == terms.address)

    def __len__(self) -> int:
        return len(self._places)

    # --- what happens -------------------------------------------------------------------------------------------------

    def heard(self, address: str, broker: int, now: float) -> None:
        """Someone says that a broker is there."""
        if not self._terms.gathers or not address or address == self._terms.address or broker == self._me:
            return
        place = self._places.get(address)
        if place is None:
            self._make_room()
            place = self._places[address] = Place(address, now)
        place.spoken_of = now
        if place.told != broker:
            place.told = place.broker = broker
            if now - place.renewed_at >= RENEWED_S:  # whoever starts anew; not two that claim one address in turn
                place.renewed_at = now
                place.failures = 0
                place.not_before = min(place.not_before, now)
                self._stir()

    def unreachable(self, address: str, now: float) -> None:
        """Nobody answers there."""
        self.ended(address, 0, now)

    def itself(self, address: str) -> None:
        """It leads to this broker: that is no place to dial."""
        place = self._places.get(address)
        if place is not None:
            place.ours = True

    def fixed(self, address: str) -> bool:
        """Whether a link there was configured, and so is to be held on to."""
        place = self._places.get(address)
        return place is not None and place.fixed

    def found(self, address: str, broker: int) -> None:
        """Who is there."""
        place = self._places.get(address)
        if place is not None:
            place.broker = broker

    def up(self, broker: int, address: str, now: float, *, kept: bool) -> None:
        """A link stands; `address` if it was dialled there, `kept` if the other end holds on to it."""
        place = self._places.get(address)
        self._links[broker] = place
        self._kept.pop(broker, None)
        if kept:
            self._kept[broker] = None
        if place is not None:
            place.broker, place.up_since = broker, now
        self._stir()

    def down(self, broker: int) -> None:
        """A link stands no more."""
        self._links.pop(broker, None)
        self._kept.pop(broker, None)
        self._stir()

    def ended(
        self, address: str, broker: int, now: float, *, given_up: bool = False, not_before: float = -math.inf
    ) -> None:
        """A connection that was dialled is gone, however far it had come; nobody dials it before `not_before`."""
        place = self._places.get(address)
        if place is None:
            return
        lasted_s = now - place.up_since if place.up_since is not None else 0.0
        place.busy, place.far, place.up_since = False, False, None
        place.failures = 0 if lasted_s >= GOOD_S else min(place.failures + 1, DOUBLINGS_MAX)
        soon = place.fixed or (place.seed and not self._neighbours)
        bound_s = min(PAUSE_S * 2**place.failures, PAUSE_MAX_S if soon else PAUSE_FAR_MAX_S)
        place.not_before = now + self._randomness.random() * bound_s
        if given_up and not place.fixed:
            place.not_before = now + GIVEN_UP_S
        place.not_before = max(place.not_before, not_before)
        self._stir()

    # --- what to do ---------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When to decide again."""
        if self.stopped:
            return math.inf
        if self._terms.gathers and self._map.revision != self._revision:
            return min(self._due_at, self._decided_at + GAP_S)
        return self._due_at

    def dial(self, now: float) -> list[str]:
        """The addresses to connect to now."""
        self._decided_at, self._revision = now, self._map.revision
        reached = self._map.distances(self._me)
        if self._terms.gathers:
            self._learn(reached, now)
        chosen = [place for place in self._free() if place.not_before <= now and self._required(place, reached)]
        if self._terms.gathers:
            chosen += self._probes(reached, now)
            chosen += self._more(reached, now, len(chosen))
        for place in chosen:
            place.busy = True
        self._due_at = self._next(reached, now)
        return [place.address for place in chosen]

    def shed(self, now: float) -> int:
        """The broker whose link is to be given up now; 0: none. One at a time, since others choose as well."""
        loose = [
            broker
            for broker in self._neighbours
            if broker not in self._kept and not ((place := self._links.get(broker)) is not None and place.fixed)
        ]
        if len(loose) <= self._terms.links_max or now < self._shed_at:
            return 0
        links = {sheet.origin: sheet.neighbours for sheet in self._map.link_states}

        def worth(broker: int) -> tuple[bool, int, float, int]:
            place = self._links.get(broker)
            degree = len(links.get(broker, ()))
            return place is not None and place.seed, -degree, -self._neighbours[broker].delay_us, broker

        self._shed_at = now + SHED_S * (0.5 + self._randomness.random())
        return next((broker for broker in sorted(loose, key=worth) if self._spared(broker, links)), 0)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def _free(self) -> list[Place]:
        """Places that are not dialled, and where no neighbour is."""
        return [p for p in self._places.values() if not (p.busy or p.ours or p.broker in self._neighbours)]

    def _required(self, place: Place, reached: Mapping[int, int]) -> bool:
        if place.fixed:
            return True
        return place.seed and (not self._neighbours or place.broker not in reached)

    def _probes(self, reached: Mapping[int, int], now: float) -> list[Place]:
        """Brokers that nobody reaches: some of them at a time."""
        under_way = sum(p.busy and p.up_since is None and not (p.fixed or p.seed) for p in self._places.values())
        lost = [
            place
            for place in self._free()
            if place.not_before <= now and self._lost(place, reached, now) and not (place.fixed or place.seed)
        ]
        chosen: list[Place] = []
        while lost and len(chosen) + under_way < PROBES_MAX:
            chosen.append(lost.pop(self._draw(len(lost))))
        return chosen

    def _lost(self, place: Place, reached: Mapping[int, int], now: float) -> bool:
        """Whether who is there has been out of reach for long enough."""
        if place.broker in reached:
            place.lost_since = None
            return False
        if place.lost_since is None:
            place.lost_since = now
        return not self._neighbours or now - place.lost_since >= LOST_S

    def _more(self, reached: Mapping[int, int], now: float, chosen: int) -> list[Place]:
        """Brokers that are reached, for as many links as there are to be, and always one drawn at random."""
        candidates = self._candidates(reached, now)
        under_way = sum(place.busy and place.up_since is None for place in self._places.values())
        missing = self._terms.degree - len(self._neighbours) - under_way - chosen
        found: list[Place] = []
        room = len(self._neighbours) + under_way < self._terms.links_max
        if candidates and room and not any(place.far for place in self._places.values()):
            drawn = candidates.pop(self._draw(len(candidates)))
            drawn.far = True
            found.append(drawn)
        candidates.sort(key=lambda place: (reached[place.broker], place.broker))
        return found + candidates[: max(0, missing - len(found))]

    def _candidates(self, reached: Mapping[int, int], now: float) -> list[Place]:
        """Those that have room, as far as one knows."""
        crowded = {sheet.origin for sheet in self._map.link_states if len(sheet.neighbours) >= self._terms.links_max}
        return [
            place
            for place in self._free()
            if place.not_before <= now
            and place.broker in reached
            and place.broker not in crowded
            and place.broker != self._me
            and not place.fixed
        ]

    def _spared(self, broker: int, links: Mapping[int, tuple[int, ...]]) -> bool:
        """Whether a broker is still reached without the link to it."""
        seen, ahead = {self._me}, [self._me]
        while ahead:
            near = ahead.pop()
            for far in links.get(near, ()):
                if far not in seen and near in links.get(far, ()) and {near, far} != {self._me, broker}:
                    seen.add(far)
                    ahead.append(far)
        return broker in seen

    def _learn(self, reached: Mapping[int, int], now: float) -> None:
        """Where brokers are, by what they say. Of two at one address, the one that has started last is there now; what
        one said that is out of reach may be old."""
        there = {sheet.address: sheet for sheet in sorted(self._map.link_states, key=lambda sheet: sheet.born)}
        for sheet in there.values():
            if sheet.origin in reached or sheet.address not in self._places:
                self.heard(sheet.address, sheet.origin, now)
        for place in list(self._places.values()):
            if now - place.spoken_of >= FORGOTTEN_S and not (place.fixed or place.seed or place.busy):
                del self._places[place.address]

    def _next(self, reached: Mapping[int, int], now: float) -> float:
        waiting = [place.not_before for place in self._free() if self._required(place, reached)]
        due_at = min(waiting, default=math.inf)
        if self._terms.gathers or len(self._neighbours) > self._terms.links_max:
            due_at = min(due_at, now + REVIEW_S)
        return max(due_at, now + GAP_S)

    def _make_room(self) -> None:
        loose = [place for place in self._places.values() if not (place.fixed or place.seed or place.busy)]
        if len(self._places) >= PLACES_MAX and loose:
            oldest = min(loose, key=lambda place: place.spoken_of)
            del self._places[oldest.address]

    def _draw(self, count: int) -> int:
        return int(self._randomness.random() * count)

    def _stir(self) -> None:
        self._due_at = min(self._due_at, self._decided_at + GAP_S)
