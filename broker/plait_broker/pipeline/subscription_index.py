"""Who is interested in what: every filter of the broker in one index, and what advertisers are told of it.

This is the *match* and *destinations* step of the pipeline for a single broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from plait_core.filters import Filter
from plait_core.limits import DEPOSITS_BYTES_MAX
from plait_core.matching import Index
from plait_core.values import Attributes
from plait_core.wire import EventFrame
from plait_core.wire.frame_types.session_frames import Matching

from ..clients.delivery_queue import Waiting
from ..clients.durable_subscriptions import DurableSubscription
from ..clients.sessions import ClientAdvertisement
from ..clients.subscriptions import Subscription
from ..joining import Joining
from ..telemetry.event_records import BrokerTelemetry
from .sealed_matching import TagVerdict

P = TypeVar("P", Subscription, DurableSubscription)


class SubscriptionIndex:
    """Subscriptions, durable subscriptions (attached or not) and advertisements, by number."""

    def __init__(self, new_index: Callable[[], Index]) -> None:
        self._index = new_index()
        self.system = new_index()
        """Of the parties, those that want what brokers record, and nothing that clients publish."""
        self.system_revision = 0
        """How often these have changed."""
        self._parties: dict[int, Subscription | DurableSubscription] = {}
        self.deposits: dict[int, bytes] = {}
        """By number, the routing keys that a subscription has deposited."""
        self._deposits_bytes = 0
        self._advertised = new_index()
        self._advertisements: dict[int, ClientAdvertisement] = {}
        self._doubtful: dict[int, ClientAdvertisement] = {}
        self._numbers = 0
        self.telemetry: BrokerTelemetry | None = None
        self.joining: Joining | None = None
        """The way to other brokers' publishers, which are told of what is wanted here."""
        self.waiting = Waiting()
        """What waits for all subscriptions together."""

    def __len__(self) -> int:
        return len(self._parties)

    @property
    def subscriptions(self) -> list[Subscription]:
        """All that are open, of durable ones those that are attached."""
        found = [party if isinstance(party, Subscription) else party.subscription for party in self._parties.values()]
        return [subscription for subscription in found if subscription is not None]

    @property
    def parties(self) -> list[Subscription | DurableSubscription]:
        """All who may get events, durable ones attached or not."""
        return list(self._parties.values())

    @property
    def advertisements(self) -> list[ClientAdvertisement]:
        return list(self._advertisements.values())

    def new_number(self) -> int:
        """A number for a subscription or an advertisement, never used again."""
        self._numbers += 1
        return self._numbers

    def add(self, party: Subscription | DurableSubscription) -> None:
        """Events that match its filter go to it from now on."""
        self._file(party)
        if self.telemetry is not None:
            self.telemetry.subscribed(party)
        if self.joining is not None:
            deposit, durable = self.deposits.get(party.number, b""), isinstance(party, DurableSubscription)
            within_us = party.within_us if isinstance(party, Subscription) else 0
            self.joining.want(party.number, party.filter, deposit, durable=durable, within_us=within_us)

    def _file(self, party: Subscription | DurableSubscription) -> None:
        if party.filter.system:
            self.system_revision += 1
            self.system.add(party.number, party.filter)
            self._parties[party.number] = party
            return
        self._index.add(party.number, party.filter)
        if party.routing and self._deposits_bytes + len(party.routing) <= DEPOSITS_BYTES_MAX:
            self.deposits[party.number] = party.routing
            self._deposits_bytes += len(party.routing)
        self._parties[party.number] = party
        for number in self._advertised.intersecting(party.filter):
            self._set_matching(self._advertisements[number], True)

    def change(self, party: Subscription | DurableSubscription, filter: Filter, routing: bytes) -> None:
        """Another filter or other routing keys for the same party, between two events."""
        self._unfile(party)
        party.filter, party.routing = filter, routing
        self.add(party)

    def remove(self, party: Subscription | DurableSubscription) -> None:
        """No more events for it."""
        self._unfile(party)
        if self.joining is not None:
            self.joining.unwant(party.number)

    def _unfile(self, party: Subscription | DurableSubscription) -> None:
        if party.filter.system:
            self.system_revision += 1
            self.system.remove(party.number)
            del self._parties[party.number]
            return
        self._index.remove(party.number)
        self._deposits_bytes -= len(self.deposits.pop(party.number, b""))
        del self._parties[party.number]
        for number in self._advertised.intersecting(party.filter):
            self._doubtful[number] = self._advertisements[number]

    def party(self, number: int) -> Subscription | DurableSubscription | None:
        """Who has this number; None when it has ended."""
        return self._parties.get(number)

    def forget_token(self, number: int, token: int) -> None:
        """Nobody waits any more for this acknowledgement of a subscription."""
        party = self._parties.get(number)
        if isinstance(party, Subscription):
            party.awaited.discard(token)

    def asking(self, frame: EventFrame) -> list[bytes]:
        """What those have deposited whose filters match a sealed event."""
        return [self.deposits[number] for number in self._index.match_frame(frame) if number in self.deposits]

    def fitting(self, parties: list[P], verdict: TagVerdict) -> list[P]:
        """Those whom a sealed event is for, by its tags."""
        deposits = self.deposits
        return [each for each in parties if each.number not in deposits or verdict(deposits[each.number])]

    def match(self, frame: EventFrame) -> tuple[list[Subscription], list[DurableSubscription]]:
        """Whom an event is for."""
        subscriptions: list[Subscription] = []
        durables: list[DurableSubscription] = []
        parties = self._parties
        if not parties:
            return subscriptions, durables
        for number in self._index.match_frame(frame):
            party = parties[number]
            if party.__class__ is Subscription:
                subscriptions.append(party)
            else:
                assert isinstance(party, DurableSubscription)
                durables.append(party)
        return subscriptions, durables

    def match_system(self, attributes: Attributes) -> list[Subscription]:
        """Whom an event of the system's is for; none of them is durable."""
        found = [self._parties[number] for number in self.system.match(attributes)]
        return [party for party in found if isinstance(party, Subscription)]

    def meeting(self, filter: Filter) -> list[Filter]:
        """The filters of all subscriptions that some event of a filter may be for."""
        return [self._parties[number].filter for number in sorted(self._index.intersecting(filter))]

    def advertise(self, advertisement: ClientAdvertisement) -> None:
        """Its publisher is told whether anyone is interested, now and whenever that changes."""
        self._advertised.add(advertisement.number, advertisement.filter)
        self._advertisements[advertisement.number] = advertisement
        self._set_matching(advertisement, self._someone_wants(advertisement.filter))
        if self.joining is not None:
            self.joining.advertise(advertisement.number, advertisement.filter, advertisement.rate)

    def unadvertise(self, advertisement: ClientAdvertisement) -> None:
        self._advertised.remove(advertisement.number)
        if self.joining is not None:
            self.joining.withdraw(advertisement.number)
        del self._advertisements[advertisement.number]
        self._doubtful.pop(advertisement.number, None)

    @property
    def doubtful(self) -> bool:
        """Whether some advertisement may have lost its last subscriber."""
        return bool(self._doubtful)

    def review(self) -> None:
        """Look at doubtful advertisements again: once in a while, however many subscriptions came and went."""
        doubtful, self._doubtful = self._doubtful, {}
        for advertisement in doubtful.values():
            self._set_matching(advertisement, self._someone_wants(advertisement.filter))

    def doubt_all(self) -> None:
        """What other brokers want has changed."""
        self._doubtful.update(self._advertisements)

    def _someone_wants(self, filter: Filter) -> bool:
        elsewhere = self.joining is not None and self.joining.overlay.meets(filter)
        return elsewhere or bool(self._index.intersecting(filter))

    def _set_matching(self, advertisement: ClientAdvertisement, matching: bool) -> None:
        if advertisement.matching is not matching:
            advertisement.matching = matching
            if advertisement.session.link is not None:
                advertisement.session.link.send(Matching(advertisement.id, matching))
