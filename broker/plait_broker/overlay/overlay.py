"""One broker's part in the overlay, without I/O: frames from neighbours and a time in, calls to its host out.

Follow one event: `publish` at its publisher's broker -> a stream for each destination (`streams.py`) -> one copy a
neighbour, with the destinations that this copy alone is responsible for (`dissemination.py`, `routes.py`) -> `hear` at
each broker on the way -> its destination's stream -> the host. Follow interest: `want` -> `wanting.py` -> Want, hop by
hop -> `wanted.py` at the publisher's broker -> Heard. What floods is in `flooding.py`, its consequences in `map.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from plait_core import PlaitError
from plait_core.filters import Filter
from plait_core.ids import Randomness, new_id
from plait_core.matching import Index, new_index
from plait_core.wire import ControlFrame, Destination, EventFrame, Forward, Frame, Ping, Pong
from plait_core.wire.explaining_frames import Finding, Inquiry, Step, Telling
from plait_core.wire.overlay_frames import Detour, Digest, Errand, Heard, Offer, Outcome, Sheet, Skip, Took, Want

from .detours import unwrap
from .dissemination import Dissemination
from .errands import Errands
from .flooding import Document, Flooding
from .host import Host
from .identity import Forged, Identity
from .map import Map
from .neighbours import Neighbour
from .offered import Offered
from .routes import Routes
from .settings import OverlaySettings
from .trust import Trust
from .wanted import Wanted
from .wanting import Wanting

OFFER_TIMES: Final = 2
"""Brokers that can be reached but do not say what they want are waited for so many times as long as a link that says
nothing: whoever does not answer must not keep others from publishing."""

TOMBSTONES: Final = 4
"""A withdrawn offer is remembered for so many times what a broker may be out of reach: until nobody can tell of it."""


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
        identity: Identity | None = None,
    ) -> None:
        """`log`: which log it keeps, so that others know it again when it has started anew; `born`: when that was, by
        the calendar, compared with its own other starts alone. Without an identity it believes whatever is said."""
        self.me = me
        self.settings = settings
        self.log = log
        self.born = born
        self.map = Map()
        self.neighbours: dict[int, Neighbour] = {}
        self.routes = Routes(me, self.map, self.neighbours)
        self.counts: Counter[str] = Counter()
        self.offered = Offered(me)
        self._unsettled: dict[int, tuple[int, float]] = {}
        """By number of an offer of ours that not all have seen yet, the revision of our offers that has it, and until
        when they are waited for."""
        self.wanted = Wanted(index)
        self.wanting = Wanting(me, index)
        self.trust = Trust(me, identity)
        self._errands = Errands(me, self.map, lambda: self.routes, self.neighbours, self.trust, self.counts, self._send)
        self.dissemination = Dissemination(
            me, settings, host, self.map, self.routes, self.counts, self._errands, self.trust
        )
        self._host = host
        self._randomness = randomness
        self._flooding = Flooding(me, self._send, self._learned, self.trust)
        self._lonely: dict[int, float] = {}
        """Brokers that cannot be reached, since when."""
        self._now = now
        self._beat_at = now
        self._bury_at = now
        """No link is to be given up before; looked at anew with each beat."""
        self._reported = -1
        self.address = ""
        """Where other brokers may connect to this one, once that is known."""
        self._sheet(now)

    @property
    def offers(self) -> dict[tuple[int, int], Filter]:
        """What other brokers offer, by their ids and numbers."""
        return {key: filter for key, filter in self.offered.filters.items() if key[0] != self.me}

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
            neighbour.delay_us, neighbour.hop_us = delay_us, delay_us
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
        self.dissemination.hurry(now, lost=broker)

    def hear(self, broker: int, frame: ControlFrame | Forward, now: float) -> None:
        """A neighbour says something."""
        self._now = now
        neighbour = self.neighbours.get(broker)
        if neighbour is None:
            return
        neighbour.heard_at = now
        try:
            self._hear(neighbour, frame, now)
        except Forged as error:
            self.counts["forged"] += 1
            if isinstance(frame, Sheet | Offer):  # which an honest neighbour checks before it hands them on
                self._host.close(neighbour.link, f"{neighbour.name} tells what is forged: {error}")
                self.link_down(broker, now)

    def hear_events(self, broker: int, frames: Sequence[Frame], at: int, now: float) -> int:
        """A neighbour hands on events, from one of these frames on; where they end."""
        self._now = now
        neighbour = self.neighbours.get(broker)
        if neighbour is not None:
            neighbour.heard_at = now
        return self.dissemination.hear_all(frames, at, now, known=neighbour is not None)

    def _hear(self, neighbour: Neighbour, frame: ControlFrame | Forward, now: float) -> None:
        broker = neighbour.id
        match frame:
            case Forward():
                self.dissemination.hear(frame, now)
            case Sheet() | Offer():
                self._flooding.hear(frame, broker)
            case Digest():
                self._flooding.hear_digest(frame, broker)
            case Want():
                self._hear_want(frame)
            case Heard() | Took() | Skip() | Outcome() | Step() | Inquiry() | Finding():
                self._hear_errand(frame, now)
            case Detour():
                self._hear_detour(neighbour, frame, now)
            case Ping(nonce):
                self._host.send(neighbour.link, Pong(nonce))
            case Pong(nonce):
                neighbour.pong(nonce, now)
                self._delays(now)
            case _:
                self.counts["unexpected"] += 1

    def locate(self, address: str, now: float) -> None:
        """Other brokers may connect to this one there."""
        if address != self.address:
            self.address = address
            self._sheet(now)

    # --- what this broker's clients offer and want --------------------------------------------------------------------

    def offer(self, number: int, filter: Filter) -> None:
        """A client advertises: `offered` will say when all know it, and what is wanted of it is known here."""
        self._say_offer(number, filter.text)
        self._unsettled[number] = (self.offered.revision, self._now + OFFER_TIMES * self.settings.detect_s)

    def withdraw(self, number: int) -> None:
        """It does so no more."""
        self._unsettled.pop(number, None)
        self._say_offer(number, "")

    def want(self, number: int, filter: Filter, deposit: bytes = b"") -> None:
        """A client subscribes: `installed` will say when that is known everywhere."""
        self.wanting.add(number, filter, deposit)

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
        self._errands.say(Outcome(root, self.me, position, matched, code))

    # --- explanations -------------------------------------------------------------------------------------------------

    def tell(self, frame: Telling) -> None:
        """Tell another broker of a marked event, ask it, or answer it."""
        self._errands.say(frame)

    # --- time ---------------------------------------------------------------------------------------------------------

    def settle(self, now: float) -> None:
        """After some input: say what has become of it."""
        self._now = now
        if self.wanting.restless:
            for want in self.wanting.tell(now, self._reaches):
                self._errands.say_want(want, [self.wanting.tries(root) for root in want.to])
        while self.wanting.installed:
            self._host.installed(self.wanting.installed.pop(0))
        if self._unsettled:
            self._look_offered()
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
        return min([deadline, *(by for _, by in self._unsettled.values())]) if self._unsettled else deadline

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
        self._flooding.forget_withdrawn(now, TOMBSTONES * self.settings.gone_s)
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
        sheet = Sheet(
            self.me, version, self.settings.name, tuple(told), delays, self.log, self.born, address=self.address
        )
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
        if self.map.put(sheet):
            self.dissemination.hurry(self._now)
        self.wanting.meet(sheet.origin)
        reached = self.map.distances(self.me)
        for known in self.map.sheets:
            broker = known.origin
            if broker in reached:
                if self._lonely.pop(broker, None) is not None:
                    self.dissemination.hurry(self._now, broker)
                    self.wanting.back(broker)
            else:
                self._lonely.setdefault(broker, self._now)
        if sheet.log:
            self._look_for_successors(sheet.log)

    def _look_for_successors(self, log: int) -> None:
        """Of brokers with the same log only the last can be alive, whether or not the end of the others was noticed:
        it has started anew under another id. Before it says what it wants now, it gets what it had not taken."""
        lives = sorted((known for known in self.map.sheets if known.log == log), key=lambda known: known.born)
        for known in lives[:-1]:
            successor = lives[-1].origin
            if known.origin == self.me:
                self.counts["usurped"] += 1
                continue
            if successor != self.me:
                anew = self.wanted.homes.get(successor)
                since = anew.since if anew is not None else math.inf
                self.dissemination.succeed(known.origin, successor, since, self._now)
                self.wanted.succeed(known.origin, successor)
            self._gone(known.origin, dead=True)
            if known.origin in self.neighbours:
                neighbour = self.neighbours[known.origin]
                self._host.close(neighbour.link, f"{neighbour.name} has started anew")
                self.link_down(known.origin, self._now)

    def _learn_offer(self, offer: Offer) -> None:
        key = (offer.origin, offer.number)
        filter, readable = self.offered.learn(offer)
        if not readable:
            self.counts["bad_filters"] += 1
        if offer.origin == self.me:
            return
        self.wanting.meet(offer.origin)
        if filter is None:
            self.wanting.withdraw(*key)
        else:
            self.wanting.offer(*key, filter)
        self.wanting.offered(offer.origin, self.offered.fingerprint(offer.origin))

    def _say_offer(self, number: int, text: str) -> None:
        offer = Offer(self.me, number, self._flooding.next_version((self.me, number)), text)
        self.offered.learn(offer)
        self._flooding.say(offer)

    def _look_offered(self) -> None:
        """Whether all brokers that can be reached have said what they want of our latest offers."""
        homes, seen = self.wanted.homes, self.offered.revision
        for broker in self.map.distances(self.me):
            if broker != self.me:
                home = homes.get(broker)
                seen = min(seen, -1 if home is None else self.offered.revision_of(home.offers))
        for number, (revision, by) in list(self._unsettled.items()):
            if revision <= seen or self._now >= by:
                self.counts["offers_unseen"] += revision > seen
                del self._unsettled[number]
                self._host.offered(number)

    def _gone(self, broker: int, *, dead: bool = False) -> None:
        """A broker could not be reached for long: forget it."""
        self._lonely.pop(broker, None)
        self._flooding.forget(broker, dead=dead)
        self.map.remove(broker)
        self.routes.forget(broker)
        self.offered.forget(broker)
        self.trust.forget(broker)
        self.wanting.gone(broker)
        self.wanted.gone(broker)
        self.dissemination.gone(broker)

    def _reaches(self, broker: int) -> bool:
        return broker in self.map.distances(self.me)

    # --- inside: from one broker to another ---------------------------------------------------------------------------

    def _send(self, broker: int, frame: ControlFrame) -> None:
        self.counts[type(frame).__name__] += 1
        self._host.send(self.neighbours[broker].link, frame)

    def _hear_errand(self, frame: Errand | Telling, now: float) -> None:
        if frame.source == self.me:
            self.counts["loops"] += 1
            return
        if frame.to != self.me:
            self._errands.pass_on(frame)
            return
        self.trust.check_errand(frame)
        match frame:
            case Heard():
                self.wanting.heard(frame.source, frame.version, frame.offers, frame.asked, now)
            case Took():
                self.dissemination.hear_took(frame, now)
            case Skip():
                self.dissemination.hear_skip(frame, now)
            case Outcome():
                self._host.outcome(frame.source, frame.position, frame.matched, frame.code)
            case Step() | Inquiry() | Finding():
                self._host.told(frame)

    def _hear_detour(self, neighbour: Neighbour, detour: Detour, now: float) -> None:
        if detour.route[detour.at] != self.me:
            self.counts["unexpected"] += 1
        elif detour.at + 1 < len(detour.route):
            self._errands.pass_detour(detour)
        elif (frame := unwrap(detour)) is not None:
            self._hear(neighbour, frame, now)

    def _hear_want(self, want: Want) -> None:
        if want.source == self.me:
            self.counts["loops"] += 1
            return
        others = [at for at, to in enumerate(want.to) if to != self.me]
        if len(others) < len(want.to):
            at = want.to.index(self.me)
            self.trust.check_want(want, at)
            try:
                version = self.wanted.hear(want, want.versions[at], want.offers[at])
                heard = Heard(want.source, self.me, version, self.offered.fingerprint(self.me), want.versions[at])
                self._errands.say(heard, self.wanted.homes[want.source].repeats)
                if not want.more:
                    self.wanted.homes[want.source].since = min(self.wanted.homes[want.source].since, self._now)
                self._host.interest_changed()
            except PlaitError:
                self.counts["bad_filters"] += 1
        if others:
            self._errands.spread(want, others)
