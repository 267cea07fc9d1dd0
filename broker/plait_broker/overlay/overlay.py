"""One broker's part in the overlay, without I/O: frames from neighbours and a time in, calls to its host out.

Follow one event: `publish` at its publisher's broker -> a stream for each destination (`streams.py`) -> one copy a
neighbour, with the destinations that this copy alone is responsible for (`dissemination.py`, `routes.py`) -> `hear` at
each broker on the way -> its destination's stream -> the host. Follow interest: `want` -> `wanting.py` -> Want, hop by
hop -> `wanted.py` at the publisher's broker -> Heard. What floods is in `flooding.py`, its consequences in `map.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from plait_core import PlaitError
from plait_core.filters import Filter, parse
from plait_core.ids import Randomness, new_id
from plait_core.matching import Index, new_index
from plait_core.wire import ControlFrame, Destination, EventFrame, Forward, Ping, Pong
from plait_core.wire.overlay_frames import Digest, Errand, Heard, Offer, Outcome, Sheet, Skip, Took, Want

from .dissemination import Dissemination
from .flooding import Document, Flooding
from .host import Host
from .map import Map
from .neighbours import Neighbour
from .routes import Routes
from .settings import OverlaySettings
from .wanted import Wanted
from .wanting import Wanting

HOPS_MAX: Final = 64
"""What goes from one broker to one other is dropped after so many: maps that differ may send it in circles."""


class Overlay:
    """One broker among others."""

    def __init__(
        self,
        me: int,
        settings: OverlaySettings,
        host: Host,
        randomness: Randomness,
        now: float,
        index: Callable[[], Index] = new_index,
        *,
        log: int = 0,
        born: int = 0,
    ) -> None:
        """`log`: which log it keeps, so that others know it again when it has started anew; `born`: when that was, by
        the calendar, compared with its own other starts alone."""
        self.me = me
        self.settings = settings
        self.log = log
        self.born = born
        self.map = Map()
        self.neighbours: dict[int, Neighbour] = {}
        self.routes = Routes(me, self.map, self.neighbours)
        self.counts: Counter[str] = Counter()
        self.offers: dict[tuple[int, int], Filter] = {}
        self.wanted = Wanted(index)
        self.wanting = Wanting(me, index)
        self.dissemination = Dissemination(me, settings, host, self.map, self.routes, self.counts, self._errand)
        self._host = host
        self._randomness = randomness
        self._flooding = Flooding(me, self._send, self._learned)
        self._lonely: dict[int, float] = {}
        """Brokers that cannot be reached, since when."""
        self._now = now
        self._beat_at = now
        self._bury_at = now
        """No link is to be given up before; looked at anew with each beat."""
        self._reported = -1
        self._sheet(now)

    @property
    def informed(self) -> bool:
        """Whether all brokers that can be reached have told what they want."""
        return all(broker in self.wanted.homes for broker in self.map.distances(self.me) if broker != self.me)

    # --- links --------------------------------------------------------------------------------------------------------

    def link_up(self, link: int, broker: int, name: str, now: float, delay_us: int = 0) -> bool:
        """A link to a broker stands; False when there is one already, or it leads here."""
        self._now = now
        if broker == self.me or broker in self.neighbours:
            return False
        neighbour = self.neighbours[broker] = Neighbour(broker, name, link, now)
        if delay_us:
            neighbour.delay_us = delay_us
            neighbour.tell(now)
        self.routes.stale()
        self._ping(neighbour, now)
        if delay_us:
            self._sheet(now)
        self._flooding.link_up(broker)
        return True

    def link_down(self, broker: int, now: float) -> None:
        """It stands no more: what may have been on it is sent again another way."""
        self._now = now
        if self.neighbours.pop(broker, None) is None:
            return
        self._flooding.link_down(broker)
        self.routes.stale()
        self._sheet(now)
        self.dissemination.hurry(now)

    def hear(self, broker: int, frame: ControlFrame | Forward, now: float) -> None:
        """A neighbour says something."""
        self._now = now
        neighbour = self.neighbours.get(broker)
        if neighbour is None:
            return
        neighbour.heard_at = now
        match frame:
            case Forward():
                self.dissemination.hear(frame, now)
            case Sheet() | Offer():
                self._flooding.hear(frame, broker)
            case Digest():
                self._flooding.hear_digest(frame, broker)
            case Want():
                self._hear_want(frame)
            case Heard() | Took() | Skip() | Outcome():
                self._hear_errand(frame, now)
            case Ping(nonce):
                self._host.send(neighbour.link, Pong(nonce))
            case Pong(nonce):
                neighbour.pong(nonce, now)
                self._delays(now)
            case _:
                self.counts["unexpected"] += 1

    # --- what this broker's clients offer and want --------------------------------------------------------------------

    def offer(self, number: int, filter: Filter) -> None:
        """A client advertises."""
        self._say_offer(number, filter.text)

    def withdraw(self, number: int) -> None:
        """It does so no more."""
        self._say_offer(number, "")

    def want(self, number: int, filter: Filter) -> None:
        """A client subscribes: `installed` will say when that is known everywhere."""
        self.wanting.add(number, filter)

    def unwant(self, number: int) -> None:
        """It does so no more."""
        self.wanting.remove(number)

    # --- events -------------------------------------------------------------------------------------------------------

    def destinations(self, frame: EventFrame) -> list[int]:
        """The brokers that an event must reach."""
        return self.wanted.match(frame)

    def publish(self, frame: EventFrame, homes: list[int], delay_us: int, flags: int, now: float) -> list[Destination]:
        """Send an event to these brokers; its position for each."""
        self._now = now
        return self.dissemination.publish(frame, homes, delay_us, flags, now)

    def take(self, root: int, position: int, now: float) -> None:
        """This broker has charge of an event that `arrived`."""
        self.dissemination.take(root, position, now)

    def tell_outcome(self, root: int, position: int, matched: int, code: str) -> None:
        """What became of an event that is to be confirmed."""
        self._errand(Outcome(root, self.me, position, matched, code))

    # --- time ---------------------------------------------------------------------------------------------------------

    def settle(self, now: float) -> None:
        """After some input: say what has become of it."""
        self._now = now
        for want in self.wanting.tell(now, self._reaches):
            self._spread(want)
        while self.wanting.installed:
            self._host.installed(self.wanting.installed.pop(0))
        self.dissemination.settle(now)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._now = now
        if now >= min(self._bury_at, self._beat_at):
            self._bury(now)
        if now >= self._beat_at:
            self._beat_at = now + self.settings.heartbeat_s
            self._beat(now)
        self.dissemination.tick(now)
        self.settle(now)

    def next_deadline(self) -> float:
        """When `tick` is to be called, at the latest."""
        deadline = min(self._beat_at, self._bury_at)
        wants = self.wanting.next_deadline()
        if wants is not None:
            deadline = min(deadline, max(wants, self._now))
        streams = self.dissemination.next_deadline()
        if streams is not None:
            deadline = min(deadline, streams)
        return deadline

    # --- inside: links and the map ------------------------------------------------------------------------------------

    def _bury(self, now: float) -> None:
        """Give up links that are dead."""
        for neighbour in list(self.neighbours.values()):
            if now >= neighbour.dies_at(self.settings.detect_s):
                self.counts["links_dead"] += 1
                self._host.close(neighbour.link, f"{neighbour.name} is silent")
                self.link_down(neighbour.id, now)
        deaths = [neighbour.dies_at(self.settings.detect_s) for neighbour in self.neighbours.values()]
        self._bury_at = min(deaths, default=math.inf)

    def _beat(self, now: float) -> None:
        for neighbour in list(self.neighbours.values()):
            self._ping(neighbour, now)
        self._delays(now)
        for broker, since in list(self._lonely.items()):
            if now - since >= self.settings.gone_s:
                self._gone(broker)
        self.dissemination.expire(now)

    def _ping(self, neighbour: Neighbour, now: float) -> None:
        nonce = new_id(self._randomness)
        neighbour.ping(nonce, now)
        self._host.send(neighbour.link, Ping(nonce))

    def _delays(self, now: float) -> None:
        """Delays were measured: tell the others when they have moved, and choose anew."""
        self.routes.stale()
        if any(neighbour.worth_telling(now) for neighbour in self.neighbours.values()):
            for neighbour in self.neighbours.values():
                if neighbour.worth_telling(now):
                    neighbour.tell(now)
            self._sheet(now)

    def _sheet(self, now: float) -> None:
        told = sorted(neighbour.id for neighbour in self.neighbours.values() if neighbour.told_us)
        delays = tuple(self.neighbours[broker].told_us for broker in told)
        version = self._reported = self._reported + 1
        sheet = Sheet(self.me, version, self.settings.name, tuple(told), delays, self.log, self.born)
        self._flooding.say(sheet)
        self._learn_sheet(sheet)

    def _learned(self, document: Document, before: Document | None) -> None:
        if isinstance(document, Sheet):
            if document.origin == self.me:
                self._reported = document.version
            self._learn_sheet(document)
        else:
            self._learn_offer(document)

    def _learn_sheet(self, sheet: Sheet) -> None:
        self.map.put(sheet)
        reached = self.map.distances(self.me)
        for known in self.map.sheets:
            broker = known.origin
            if broker in reached:
                if self._lonely.pop(broker, None) is not None:
                    self.dissemination.hurry(self._now, broker)
                    self.wanting.back(broker)
            else:
                self._lonely.setdefault(broker, self._now)
        if self._lonely:
            self._look_for_successors()

    def _look_for_successors(self) -> None:
        """Whether a broker that cannot be reached has started anew: then it is here under another id, with its log."""
        here = {known.log: known for known in self.map.sheets if known.log and known.origin not in self._lonely}
        for known in self.map.sheets:
            successor = here.get(known.log)
            if known.origin in self._lonely and successor is not None and successor.born > known.born:
                if successor.origin != self.me:
                    self.dissemination.succeed(known.origin, successor.origin, self._now)
                self._gone(known.origin, dead=True)

    def _learn_offer(self, offer: Offer) -> None:
        key = (offer.origin, offer.number)
        if key in self.offers:
            del self.offers[key]
            self.wanting.withdraw(*key)
        if offer.filter:
            try:
                filter = parse(offer.filter)
            except PlaitError:
                self.counts["bad_filters"] += 1
                return
            self.offers[key] = filter
            self.wanting.offer(*key, filter)

    def _say_offer(self, number: int, text: str) -> None:
        self._flooding.say(Offer(self.me, number, self._flooding.next_version((self.me, number)), text))

    def _gone(self, broker: int, *, dead: bool = False) -> None:
        """A broker could not be reached for long: forget it."""
        del self._lonely[broker]
        self._flooding.forget(broker, dead=dead)
        self.map.remove(broker)
        self.routes.forget(broker)
        for key in [key for key in self.offers if key[0] == broker]:
            del self.offers[key]
        self.wanting.gone(broker)
        self.wanted.gone(broker)
        self.dissemination.gone(broker)

    def _reaches(self, broker: int) -> bool:
        return broker in self.map.distances(self.me)

    # --- inside: from one broker to another ---------------------------------------------------------------------------

    def _send(self, broker: int, frame: ControlFrame) -> None:
        self.counts[type(frame).__name__] += 1
        self._host.send(self.neighbours[broker].link, frame)

    def _errand(self, frame: Errand) -> None:
        """Send a frame to the broker that it is for, or one step towards it."""
        neighbour = self.routes.next(frame.to)
        if neighbour is None or frame.hops >= HOPS_MAX:
            self.counts["errands_lost"] += 1
        else:
            self._send(neighbour.id, replace(frame, hops=frame.hops + 1))

    def _hear_errand(self, frame: Errand, now: float) -> None:
        if frame.to != self.me:
            self._errand(frame)
            return
        match frame:
            case Heard():
                self.wanting.heard(frame.source, frame.version, now)
            case Took():
                self.dissemination.hear_took(frame, now)
            case Skip():
                self.dissemination.hear_skip(frame, now)
            case Outcome():
                self._host.outcome(frame.source, frame.position, frame.matched, frame.code)

    def _spread(self, want: Want) -> None:
        """Send interest to all the brokers that it is for: one frame a neighbour."""
        if want.hops >= HOPS_MAX:
            return
        by: dict[int, list[tuple[int, int]]] = {}
        for to, version in zip(want.to, want.versions, strict=True):
            neighbour = self.routes.next(to)
            if neighbour is not None:
                by.setdefault(neighbour.id, []).append((to, version))
        for broker, named in by.items():
            part = Want(
                tuple(to for to, _ in named),
                want.source,
                tuple(version for _, version in named),
                want.whole,
                want.added,
                want.filters,
                want.removed,
                want.hops + 1,
            )
            self._send(broker, part)

    def _hear_want(self, want: Want) -> None:
        others = [(to, version) for to, version in zip(want.to, want.versions, strict=True) if to != self.me]
        if len(others) < len(want.to):
            version = want.versions[want.to.index(self.me)]
            try:
                self._errand(Heard(want.source, self.me, self.wanted.hear(want, version)))
                self._host.interest_changed()
            except PlaitError:
                self.counts["bad_filters"] += 1
        if others:
            rest = replace(want, to=tuple(to for to, _ in others), versions=tuple(version for _, version in others))
            self._spread(rest)
