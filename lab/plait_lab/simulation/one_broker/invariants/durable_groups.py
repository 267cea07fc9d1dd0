"""All subscriptions of one durable name, as the oracle sees them: one place in the log.

An event is judged by the filters that may have been in force between its publication and its confirmation. A later
filter revokes nothing: what was confirmed for the name is delivered to one of its clients.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from ..recorder import NEVER, ClientSubscription, Publication, Reception, RequestedFilter

IN_FLIGHT_S: Final = 1.0
"""Seconds after the end of a client in which a request of it may still reach the broker."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """A filter that a client requested, with the times between which the broker may have it in force."""

    filter: RequestedFilter
    ended_at: float
    """Time after which its client cannot repeat the request."""


class DurableGroup:
    """The subscriptions under one durable name of one owner."""

    def __init__(self, subscriptions: list[ClientSubscription]) -> None:
        self.subscriptions = subscriptions
        self.name = f"{subscriptions[0].owner}/{subscriptions[0].durable}"
        self.installed_at = min(subscription.installed_at for subscription in subscriptions)
        """Time at which the first client learned that it is installed."""
        self._wishes = [_wish(subscription, at) for subscription in subscriptions for at in _numbers(subscription)]
        by_done = sorted((wish.filter.done_at, wish.filter.requested_at) for wish in self._wishes)
        self._done_at = [done_at for done_at, _ in by_done]
        self._newest_done = list(accumulate((requested_at for _, requested_at in by_done), max))
        """For each number of filters known to be in force, the time at which the newest of them was requested.

        A filter whose client could not repeat it by then was replaced.
        """

    @property
    def served(self) -> bool:
        """Whether a client holds it at the end of the history."""
        return any(each.closing_at == NEVER and each.installed_at != NEVER for each in self.subscriptions)

    @property
    def receptions(self) -> list[Reception]:
        """The receptions of all its clients."""
        return [reception for each in self.subscriptions for reception in each.receptions]

    def must_receive(self, publication: Publication) -> bool:
        """Return whether every filter that may have been in force until its confirmation matches an event."""
        if publication.at < self.installed_at:
            return False
        possible = self._possible(publication.at, publication.settled_at)
        return all(wish.filter.interest.matches(publication.attributes) for wish in possible)

    def may_receive(self, publication: Publication, until: float) -> bool:
        """Return whether a filter that may have been in force before `until` matches an event."""
        possible = self._possible(publication.at, until)
        return any(wish.filter.interest.matches(publication.attributes) for wish in possible)

    def _possible(self, since: float, until: float) -> list[_Wish]:
        """Return the filters that may have been in force at some time between two times."""
        in_force = bisect_right(self._done_at, since)
        newest = self._newest_done[in_force - 1] if in_force else -NEVER
        return [
            wish
            for wish in self._wishes
            if wish.filter.requested_at <= until and wish.filter.refused_at > since and wish.ended_at >= newest
        ]


def _numbers(subscription: ClientSubscription) -> range:
    return range(len(subscription.requested))


def _wish(subscription: ClientSubscription, number: int) -> _Wish:
    """Return one requested filter. Its client repeats it until another of the client's is in force, or it has ended."""
    later = [request.requested_at for request in subscription.requested[number + 1 :] if request.done_at != NEVER]
    return _Wish(subscription.requested[number], min([*later[:1], subscription.closing_at + IN_FLIGHT_S]))
