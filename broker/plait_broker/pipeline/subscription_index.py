"""The step *match*: the filters of all subscriptions in one index, and the advertisements that they may match."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from plait_core.filters import Filter
from plait_core.matching import Index
from plait_core.values import Attributes
from plait_core.wire import EventFrame
from plait_core.wire.frame_types.session_frames import Matching

from ..adapter.install_waits import InstallWaits
from ..clients.delivery_queue import Waiting
from ..clients.sessions import ClientAdvertisement, DurableSubscription, Subscription
from ..deposits import Deposit, Deposits
from ..overlay import Overlay
from .observer import EventObserver
from .sealed_matching import TagVerdict

P = TypeVar("P", Subscription, DurableSubscription)


class SubscriptionIndex:
    """Subscriptions, durable subscriptions (attached or not) and advertisements, by number."""

    def __init__(
        self, new_index: Callable[[], Index], overlay: Overlay, install_waits: InstallWaits, observer: EventObserver
    ) -> None:
        """`install_waits` announces subscriptions and advertisements to other brokers."""
        self._overlay = overlay
        self._install_waits = install_waits
        self._observer = observer
        self._index = new_index()
        self.system = new_index()
        """The subscriptions to events of brokers."""
        self.system_revision = 0
        """Number of changes of `system`."""
        self._parties: dict[int, Subscription | DurableSubscription] = {}
        self.deposits = Deposits()
        self._advertised = new_index()
        self._advertisements: dict[int, ClientAdvertisement] = {}
        self._doubtful: dict[int, ClientAdvertisement] = {}
        self._numbers = 0
        self.waiting = Waiting()
        """Totals of all delivery queues."""

    def __len__(self) -> int:
        return len(self._parties)

    @property
    def subscriptions(self) -> list[Subscription]:
        """All open subscriptions; durable ones only while a client is attached."""
        found = [party if isinstance(party, Subscription) else party.subscription for party in self._parties.values()]
        return [subscription for subscription in found if subscription is not None]

    @property
    def parties(self) -> list[Subscription | DurableSubscription]:
        """All subscriptions and durable subscriptions, attached or not."""
        return list(self._parties.values())

    @property
    def advertisements(self) -> list[ClientAdvertisement]:
        """The advertisements of all clients."""
        return list(self._advertisements.values())

    def new_number(self) -> int:
        """Return a number for a subscription or an advertisement, never used again."""
        self._numbers += 1
        return self._numbers

    def add(self, party: Subscription | DurableSubscription) -> None:
        """Match events against its filter from now on, here and at other publishers' brokers."""
        self._insert(party)
        if self._observer.subscribed is not None:
            self._observer.subscribed(party)
        deposit, durable = self.deposits.tokens(party.number), isinstance(party, DurableSubscription)
        within_us = party.within_us if isinstance(party, Subscription) else 0
        self._install_waits.subscribe(party.number, party.filter, deposit, durable=durable, within_us=within_us)

    def _insert(self, party: Subscription | DurableSubscription) -> None:
        if party.filter.system:
            self.system_revision += 1
            self.system.add(party.number, party.filter)
            self._parties[party.number] = party
            return
        self._index.add(party.number, party.filter)
        self.deposits.add(party.number, party.routing, party.depositor)
        self._parties[party.number] = party
        for number in self._advertised.intersecting(party.filter) if self._advertisements else ():
            self._set_matching(self._advertisements[number], True)

    def change(self, party: Subscription | DurableSubscription, filter: Filter, routing: bytes) -> None:
        """Replace the filter and the routing tokens of a subscription, between two events."""
        self._delete(party)
        party.filter, party.routing = filter, routing
        self.add(party)

    def remove(self, party: Subscription | DurableSubscription) -> None:
        """Match no more events against its filter."""
        self._delete(party)
        self._install_waits.unsubscribe(party.number)

    def _delete(self, party: Subscription | DurableSubscription) -> None:
        if party.filter.system:
            self.system_revision += 1
            self.system.remove(party.number)
            del self._parties[party.number]
            return
        self._index.remove(party.number)
        self.deposits.remove(party.number)
        del self._parties[party.number]
        for number in self._advertised.intersecting(party.filter):
            self._doubtful[number] = self._advertisements[number]

    def party(self, number: int) -> Subscription | DurableSubscription | None:
        """Return the subscription with this number. None: it has ended."""
        return self._parties.get(number)

    def forget_token(self, number: int, token: int) -> None:
        """Forget a token whose acknowledgement came too late."""
        party = self._parties.get(number)
        if isinstance(party, Subscription):
            party.awaited.discard(token)

    def asking(self, frame: EventFrame) -> list[Deposit]:
        """Return the deposits of the subscriptions whose filters match a sealed event."""
        return self.deposits.among(self._index.match_frame(frame))

    def fitting(self, parties: list[P], verdict: TagVerdict) -> list[P]:
        """Return the subscriptions whose routing tokens fit a sealed event's tags, and those without keys."""
        deposits = self.deposits.by_number
        return [each for each in parties if each.number not in deposits or verdict(deposits[each.number])]

    def match(self, frame: EventFrame) -> tuple[list[Subscription], list[DurableSubscription]]:
        """Return the subscriptions whose filters match an event."""
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
        """Return the subscriptions that match an event of a broker; none of them is durable."""
        found = [self._parties[number] for number in self.system.match(attributes)]
        return [party for party in found if isinstance(party, Subscription)]

    def intersecting(self, filter: Filter) -> list[Filter]:
        """Return the filters of all subscriptions that intersect a filter."""
        return [self._parties[number].filter for number in sorted(self._index.intersecting(filter))]

    def advertise(self, advertisement: ClientAdvertisement) -> None:
        """Add an advertisement. Its publisher is notified when some subscription begins or ceases to match."""
        self._advertised.add(advertisement.number, advertisement.filter)
        self._advertisements[advertisement.number] = advertisement
        self._set_matching(advertisement, self._is_needed(advertisement.filter))
        self._install_waits.advertise(advertisement.number, advertisement.filter, advertisement.rate)

    def unadvertise(self, advertisement: ClientAdvertisement) -> None:
        """Remove an advertisement."""
        self._advertised.remove(advertisement.number)
        self._install_waits.unadvertise(advertisement.number)
        del self._advertisements[advertisement.number]
        self._doubtful.pop(advertisement.number, None)

    @property
    def doubtful(self) -> bool:
        """Whether some advertisement may have lost its last subscription."""
        return bool(self._doubtful)

    def review(self) -> None:
        """Check doubtful advertisements, all at once after any number of changes."""
        doubtful, self._doubtful = self._doubtful, {}
        for advertisement in doubtful.values():
            self._set_matching(advertisement, self._is_needed(advertisement.filter))

    def doubt_all(self) -> None:
        """Check all advertisements again, since the interest of other brokers has changed."""
        self._doubtful.update(self._advertisements)

    def _is_needed(self, filter: Filter) -> bool:
        return self._overlay.meets(filter) or bool(self._index.intersecting(filter))

    def _set_matching(self, advertisement: ClientAdvertisement, matching: bool) -> None:
        if advertisement.matching is not matching:
            advertisement.matching = matching
            if advertisement.session.connection is not None:
                advertisement.session.connection.send(Matching(advertisement.id, matching))
