"""The choice of links: seeds until other brokers are known, then a few near brokers and a random one. No I/O.

Every broker floods its address in its link state, so each can choose links for itself. It always dials configured
links. It dials seeds while it has no neighbour or cannot reach them. It dials known brokers that it cannot reach: there
may be a whole partition behind them. Then it dials near brokers, up to its degree of links, and one broker drawn at
random. Random links keep the graph connected when a part of it dies.

A failed attempt is repeated after a random pause, whose bound doubles. A broker with too many links gives up a link
whose other end it still reaches without it.
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
"""The first and the greatest bound of the pause between two attempts at a configured address."""

PAUSE_FAR_MAX_S: Final = 60.0
"""The greatest bound for other addresses, and for seeds while there are neighbours."""

DOUBLINGS_MAX: Final = 16
"""Bound of the exponent: the pause has reached its greatest bound long before."""

GOOD_S: Final = 5.0
"""After a link that lasted for so long the pauses begin with the first bound again."""

GIVEN_UP_S: Final = 60.0
"""Pause after the other end gave up a link as one too many, unless the link is configured."""

RENEWED_S: Final = 30.0
"""Least time between two new brokers at an address that reset its pauses: two may claim one address in turn."""

PROBES_MAX: Final = 3
"""Concurrent attempts at brokers out of reach, besides configured links and seeds. After a partition one success is
enough."""

LOST_S: Final = 2.0
"""Time that a broker must be out of reach before it is dialled for that reason. The link state of a new broker comes
before those of its neighbours, and a broken path is often repaired soon. A broker without neighbours does not wait."""

PLACES_MAX: Final = 2048
"""Bound of known addresses. Beyond it the one that was confirmed longest ago is forgotten."""

FORGOTTEN_S: Final = 3600.0
"""An address without a link state or announcement that names it for so long is forgotten."""

GAP_S: Final = 0.1
"""Least time between two decisions: link states may change with each frame, and a decision computes distances."""

REVIEW_S: Final = 1.0
"""Greatest time between two decisions."""

SHED_S: Final = 2.0
"""Average time between two links given up: other brokers must learn of one before the next is chosen."""


@dataclass(slots=True)
class Place:
    """An address, and the state of attempts to link there."""

    address: str
    confirmed_at: float
    fixed: bool = False
    seed: bool = False
    broker: int = 0
    """The broker at this address, by the last connection or a newer report of others; 0 for unknown."""
    reported: int = 0
    """The broker at this address by the last link state or announcement."""
    reset_at: float = -math.inf
    """When a new broker at this address last reset the pauses."""
    failures: int = 0
    not_before: float = -math.inf
    busy: bool = False
    """Whether a connection to it exists or is being made."""
    up_since: float | None = None
    ours: bool = False
    """Whether it leads to this broker itself."""
    far: bool = False
    """Whether it was drawn as the random link."""
    lost_since: float | None = None
    """Since when its broker is out of reach, or None."""


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
        """By neighbour, the address that we dialled; None if it dialled us."""
        self._kept: dict[int, None] = {}
        """Neighbours for which the link is configured: they keep it."""
        self.due_at = now
        """When to decide again."""
        self._decided_at = now - GAP_S
        self._revision = -1
        self._shed_at = now
        self._stopped = False
        for address in (*terms.links, *terms.seeds):
            fixed, seed = address in terms.links, address in terms.seeds
            self._places[address] = Place(address, now, fixed=fixed, seed=seed, ours=address == terms.address)

    def __len__(self) -> int:
        return len(self._places)

    def stop(self) -> None:
        """Choose no more links, because the broker stops."""
        self._stopped = True
        self.due_at = math.inf

    # --- input --------------------------------------------------------------------------------------------------------

    def learn_address(self, address: str, broker: int, now: float) -> None:
        """Note an address of a broker, from an announcement or a link state."""
        if not self._terms.selects_links or not address or address == self._terms.address or broker == self._me:
            return
        place = self._places.get(address)
        if place is None:
            self._make_room()
            place = self._places[address] = Place(address, now)
        place.confirmed_at = now
        if place.reported != broker:
            place.reported = place.broker = broker
            if now - place.reset_at >= RENEWED_S:  # a restart, and not two claims in turn
                place.reset_at = now
                place.failures = 0
                place.not_before = min(place.not_before, now)
                self._decide_soon()

    def unreachable(self, address: str, now: float) -> None:
        """Note a failed attempt."""
        self.ended(address, 0, now)

    def itself(self, address: str) -> None:
        """Note that an address leads to this broker: it is not dialled again."""
        place = self._places.get(address)
        if place is not None:
            place.ours = True

    def fixed(self, address: str) -> bool:
        """Return whether the link to this address is configured."""
        place = self._places.get(address)
        return place is not None and place.fixed

    def found(self, address: str, broker: int) -> None:
        """Note the broker that answered at an address."""
        place = self._places.get(address)
        if place is not None:
            place.broker = broker

    def up(self, broker: int, address: str, now: float, *, kept: bool) -> None:
        """Note a new link: `address` if we dialled it, `kept` if it is configured at the other end."""
        place = self._places.get(address)
        self._links[broker] = place
        self._kept.pop(broker, None)
        if kept:
            self._kept[broker] = None
        if place is not None:
            place.broker, place.up_since = broker, now
        self._decide_soon()

    def down(self, broker: int) -> None:
        """Note the end of a link."""
        self._links.pop(broker, None)
        self._kept.pop(broker, None)
        self._decide_soon()

    def ended(
        self, address: str, broker: int, now: float, *, given_up: bool = False, not_before: float = -math.inf
    ) -> None:
        """Note the end of a dialled connection or attempt. The address is not dialled again before `not_before`."""
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
        self._decide_soon()

    # --- decisions ----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Decide soon if the link-state database has changed."""
        if self._terms.selects_links and self._map.revision != self._revision:
            self._decide_soon()

    def dial(self, now: float) -> list[str]:
        """Return the addresses to connect to now."""
        self._decided_at, self._revision = now, self._map.revision
        reached = self._map.distances(self._me)
        if self._terms.selects_links:
            self._learn(reached, now)
        chosen = [place for place in self._free() if place.not_before <= now and self._required(place, reached)]
        if self._terms.selects_links:
            chosen += self._probes(reached, now)
            chosen += self._more(reached, now, len(chosen))
        for place in chosen:
            place.busy = True
        self.due_at = self._next(reached, now)
        return [place.address for place in chosen]

    def shed(self, now: float) -> int:
        """Return the broker whose link is given up now, or 0. One at a time, since other brokers choose as well."""
        loose = [
            broker
            for broker in self._neighbours
            if broker not in self._kept and not ((place := self._links.get(broker)) is not None and place.fixed)
        ]
        if len(loose) <= self._terms.links_max or now < self._shed_at:
            return 0
        links = {link_state.origin: link_state.neighbours for link_state in self._map.link_states}

        def worth(broker: int) -> tuple[bool, int, float, int]:
            place = self._links.get(broker)
            degree = len(links.get(broker, ()))
            return place is not None and place.seed, -degree, -self._neighbours[broker].delay_us, broker

        self._shed_at = now + SHED_S * (0.5 + self._randomness.random())
        return next((broker for broker in sorted(loose, key=worth) if self._spared(broker, links)), 0)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def _free(self) -> list[Place]:
        """Return the places without a connection whose broker is no neighbour."""
        return [p for p in self._places.values() if not (p.busy or p.ours or p.broker in self._neighbours)]

    def _required(self, place: Place, reached: Mapping[int, int]) -> bool:
        if place.fixed:
            return True
        return place.seed and (not self._neighbours or place.broker not in reached)

    def _probes(self, reached: Mapping[int, int], now: float) -> list[Place]:
        """Choose some brokers that are out of reach, at random."""
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
        """Return whether the place's broker has been out of reach for long enough."""
        if place.broker in reached:
            place.lost_since = None
            return False
        if place.lost_since is None:
            place.lost_since = now
        return not self._neighbours or now - place.lost_since >= LOST_S

    def _more(self, reached: Mapping[int, int], now: float, chosen: int) -> list[Place]:
        """Choose brokers within reach up to the degree: the nearest, and one at random unless there is such a link."""
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
        """Return the places whose broker is within reach and, by its link state, has room for a link."""
        crowded = {
            link_state.origin
            for link_state in self._map.link_states
            if len(link_state.neighbours) >= self._terms.links_max
        }
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
        """Return whether a broker can be reached without the link to it."""
        seen, ahead = {self._me}, [self._me]
        while ahead:
            near = ahead.pop()
            for far in links.get(near, ()):
                if far not in seen and near in links.get(far, ()) and {near, far} != {self._me, broker}:
                    seen.add(far)
                    ahead.append(far)
        return broker in seen

    def _learn(self, reached: Mapping[int, int], now: float) -> None:
        """Take addresses from link states, and forget unconfirmed ones.

        Of two brokers with one address the one that started last is there now. A broker out of reach may have an old
        link state, so its address does not replace a known one's broker.
        """
        by_age = sorted(self._map.link_states, key=lambda known: known.born)
        there = {known.address: known for known in by_age}
        for link_state in there.values():
            if link_state.origin in reached or link_state.address not in self._places:
                self.learn_address(link_state.address, link_state.origin, now)
        for place in list(self._places.values()):
            if now - place.confirmed_at >= FORGOTTEN_S and not (place.fixed or place.seed or place.busy):
                del self._places[place.address]

    def _next(self, reached: Mapping[int, int], now: float) -> float:
        waiting = [place.not_before for place in self._free() if self._required(place, reached)]
        due_at = min(waiting, default=math.inf)
        if self._terms.selects_links or len(self._neighbours) > self._terms.links_max:
            due_at = min(due_at, now + REVIEW_S)
        return max(due_at, now + GAP_S)

    def _make_room(self) -> None:
        loose = [place for place in self._places.values() if not (place.fixed or place.seed or place.busy)]
        if len(self._places) >= PLACES_MAX and loose:
            oldest = min(loose, key=lambda place: place.confirmed_at)
            del self._places[oldest.address]

    def _draw(self, count: int) -> int:
        return int(self._randomness.random() * count)

    def _decide_soon(self) -> None:
        if not self._stopped:
            self.due_at = min(self.due_at, self._decided_at + GAP_S)
