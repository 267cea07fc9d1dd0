"""The desired state at the broker: subscriptions and advertisements, and the requests that create and remove them.

The desired state outlives connections. A broker without a session of this client gets all requests anew. A request
whose answer was lost is sent again. Each request of the application is completed once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plait_core import EventInvalid, Filter, PlaitError
from plait_core.limits import ACKNOWLEDGED_MAX
from plait_core.wire import ControlFrame, encode_control
from plait_core.wire.frame_types.session_frames import (
    Acknowledge,
    Advertise,
    Code,
    Done,
    DurableAction,
    Failed,
    ManageDurable,
    Start,
    Unadvertise,
    Unsubscribe,
)

from ..errors import Closed, ConnectionLost, DurabilityFailed, Timeout, refusal
from ..options.limits import RETRY_REFUSED_S
from ..options.settings import SessionSettings
from .broker_connection import BrokerConnection, State
from .client_reports import ClientReports
from .deadlines import Deadlines
from .notices import Gap
from .outputs import AdvertisementEnded, RequestCompleted, SessionUpdate
from .pending_requests import Kind, PendingRequests, Request
from .subscription_state import Phase, Signals, SubscriptionState, Terms


@dataclass(slots=True)
class AdvertisedFilter:
    """An advertised filter."""

    id: int
    filter: str
    rate: float
    matching: bool = False
    """Whether any subscription intersects the advertisement."""

    def frame(self, request: int) -> Advertise:
        """Return the frame that advertises the filter."""
        return Advertise(request, self.id, self.filter, self.rate)


class DesiredState:
    """The desired state of one client. Requests are numbered; each one of the application yields a RequestCompleted.

    A subscription or an advertisement has the number of the request that has opened it.
    """

    def __init__(
        self, connection: BrokerConnection, settings: SessionSettings, signals: Signals, updates: list[SessionUpdate]
    ) -> None:
        self.subscriptions: dict[int, SubscriptionState] = {}
        self.advertisements: dict[int, AdvertisedFilter] = {}
        self._connection = connection
        self._settings = settings
        self._signals = signals
        self._updates = updates
        self.requests = PendingRequests()
        self.retries: Deadlines[int] = Deadlines()
        """Times of re-subscriptions that the broker refused for now, by subscription."""
        self.reports = ClientReports(connection, self.subscriptions)
        """Reports to the broker about deliveries in this client."""

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(self, terms: Terms, now: float) -> tuple[SubscriptionState, int]:
        """Add a subscription. Return it with the number of the request, which completes when the subscription is
        installed."""
        number = self._number()
        subscription = SubscriptionState(number, terms, self._signals)
        self._request(number, Kind.SUBSCRIBE, number, terms.frame(number, number), now)
        self.subscriptions[number] = subscription
        return subscription, number

    def change(self, subscription: SubscriptionState, terms: Terms, now: float) -> int:
        """Change the filter or terms of a subscription. Return the number of the request."""
        number = self._number()
        self._request(number, Kind.CHANGE, subscription.id, terms.frame(number, subscription.id), now, terms=terms)
        return number

    def update_routing(self, subscription: SubscriptionState, routing: bytes, filter: Filter | None = None) -> None:
        """Replace the routing tokens of a subscription, also for later connections. No caller waits for the answer.

        `filter` replaces the filter that brokers route by: it names the realms of the tokens.
        """
        changing = [r.terms for r in self.requests.all() if r.kind is Kind.CHANGE and r.about == subscription.id]
        terms = replace((changing[-1] if changing else None) or subscription.terms, routing=routing)
        terms = terms if filter is None else terms.with_filter(filter)
        number = self._number()
        frame = terms.frame(number, subscription.id)
        self._request(number, Kind.CHANGE, subscription.id, frame, None, internal=True, terms=terms)
        kept = subscription.terms if changing or filter is None else subscription.terms.with_filter(filter)
        subscription.terms = replace(kept, routing=routing)  # last: it must fit into a frame

    def unsubscribe(
        self, subscription: SubscriptionState, now: float, *, drain: bool = False, forget: bool = False
    ) -> int:
        """Remove a subscription. Return the number of the request. With `drain`, the broker first sends its queued
        events."""
        number = self._number()
        if self._connection.state is State.OPEN:
            self.send_acknowledgements()
            self.reports.report_last(subscription)
        if drain:
            subscription.phase = Phase.DRAINING
        else:
            self.end(subscription, None)
        frame = Unsubscribe(number, subscription.id, drain, forget)
        self._request(number, Kind.UNSUBSCRIBE, subscription.id, frame, None if drain else now, forget=forget)
        return number

    def remove_durable(self, name: str, now: float, *, force: bool) -> int:
        """Remove a durable subscription that need not be open. Return the number of the request."""
        number = self._number()
        frame = ManageDurable(number, name, DurableAction.REMOVE, force)
        self._request(number, Kind.MANAGE, 0, frame, now)
        return number

    def seek_durable(self, name: str, start: Start, start_at: int, now: float, *, force: bool) -> int:
        """Move the cursor of a durable subscription that need not be open. Return the number of the request."""
        number = self._number()
        frame = ManageDurable(number, name, DurableAction.SEEK, force, start, start_at)
        self._request(number, Kind.MANAGE, 0, frame, now)
        return number

    def stop_deliveries(self, subscription: SubscriptionState) -> None:
        """Accept no more deliveries, but go on acknowledging: the first step of draining a durable subscription."""
        subscription.phase = Phase.DRAINING
        self.subscriptions.pop(subscription.id, None)

    def end(self, subscription: SubscriptionState, error: PlaitError | None) -> None:
        """End a subscription locally. Its reader gets the error."""
        subscription.end(error)
        self.subscriptions.pop(subscription.id, None)
        self.retries.discard(subscription.id)

    def terminate(self, subscription: SubscriptionState, error: PlaitError) -> None:
        """End a subscription locally and at the broker."""
        self.reports.report_last(subscription)
        self._send(Unsubscribe(0, subscription.id))
        self.end(subscription, error)

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledge(self, subscription: SubscriptionState, now: float) -> int:
        """Send the pending acks of a subscription. Return the number of the request, which completes when they are
        stored."""
        number = self._number()
        if self._connection.state is State.OPEN:
            self.send_acknowledgements()
        positions, subscription.acknowledged = tuple(subscription.acknowledged[:ACKNOWLEDGED_MAX]), []
        frame = Acknowledge(subscription.id, positions, 0, number)
        self._request(number, Kind.ACKNOWLEDGE, subscription.id, frame, now)
        return number

    def send_acknowledgements(self) -> None:
        """Send all pending acks over the open connection."""
        acknowledging, self._signals.acknowledging = self._signals.acknowledging, []
        for subscription in acknowledging:
            positions, subscription.acknowledged = subscription.acknowledged, []
            for start in range(0, len(positions), ACKNOWLEDGED_MAX):
                self._connection.send(Acknowledge(subscription.id, tuple(positions[start : start + ACKNOWLEDGED_MAX])))

    # --- advertisements -----------------------------------------------------------------------------------------------

    def advertise(self, filter: str, rate: float, now: float) -> tuple[AdvertisedFilter, int]:
        """Add an advertisement. Return it with the number of the request."""
        number = self._number()
        advertisement = AdvertisedFilter(number, filter, rate)
        self._request(number, Kind.ADVERTISE, number, advertisement.frame(number), now)
        self.advertisements[number] = advertisement
        return advertisement, number

    def unadvertise(self, advertisement: AdvertisedFilter, now: float) -> int:
        """Remove an advertisement. Return the number of the request."""
        number = self._number()
        self.advertisements.pop(advertisement.id, None)
        self._request(number, Kind.UNADVERTISE, advertisement.id, Unadvertise(number, advertisement.id), now)
        return number

    # --- requests -----------------------------------------------------------------------------------------------------

    def cancel(self, request: int) -> None:
        """Cancel a request that no caller waits for: undo what it was about to create."""
        known = self.requests.close(request)
        if known is not None:
            self._undo(known)

    def done(self, frame: Done, now: float) -> None:
        """Complete a request that the broker has carried out."""
        request = self.requests.close(frame.request)
        if request is not None:
            self._request_succeeded(request)

    def failed(self, frame: Failed, now: float) -> None:
        """Complete a request that the broker has refused."""
        request = self.requests.close(frame.request)
        if request is None:
            return
        if frame.code == Code.UNKNOWN and request.kind in (Kind.UNSUBSCRIBE, Kind.UNADVERTISE):
            self._request_succeeded(request)  # the broker has already removed it
            return
        error = refusal(frame.code, frame.message, hint=frame.hint, retryable=frame.retryable)
        self._request_failed(request, error, now)

    def tick(self, now: float) -> None:
        """Time out requests, and retry re-subscriptions."""
        for request in self.requests.due(now):
            self._undo(request)
            where = (
                ""
                if self._connection.state is State.OPEN
                else f"there is no connection to {self._connection.address}; "
            )
            error = Timeout(f"{where}no answer came within {self._settings.timeout_s:g} s")
            self._complete(request, error)
        for id in self.retries.due(now):
            subscription = self.subscriptions.get(id)
            if subscription is None:
                continue
            if self._connection.state is State.OPEN:
                self._subscribe_again(subscription)
            else:
                self.retries.set(id, now + RETRY_REFUSED_S)

    # --- connections --------------------------------------------------------------------------------------------------

    def resend_requests(self) -> None:
        """Send open requests again: the broker still has the session, but requests or answers may be lost."""
        for request in self.requests.all():
            self._connection.send_encoded(request.encoded)

    def resubscribe_all(self, *, log_changed: bool = False) -> None:
        """Request the whole desired state from a broker that has no session of this client.

        `log_changed`: the broker also has another log than the last one.
        """
        for request in self.requests.all():
            if request.internal:
                self.requests.close(request.number)  # it was for the lost session
            else:
                self._renew_routing(request)
        subscribing = {request.about for request in self.requests.all() if request.kind is Kind.SUBSCRIBE}
        advertising = {request.about for request in self.requests.all() if request.kind is Kind.ADVERTISE}
        for request in self.requests.all():
            if request.kind in (Kind.SUBSCRIBE, Kind.ADVERTISE):
                self._connection.send_encoded(request.encoded)
        for subscription in list(self.subscriptions.values()):
            subscription.new_session(log_changed=log_changed)
            self.retries.discard(subscription.id)
            if subscription.id in subscribing or subscription.phase is not Phase.OPEN:
                continue
            self._subscribe_again(subscription)
        for advertisement in self.advertisements.values():
            if advertisement.id not in advertising:
                number = self._number()
                frame = advertisement.frame(number)
                self._request(number, Kind.ADVERTISE, advertisement.id, frame, None, internal=True)
        self._settle_requests_of_lost_session(log_changed=log_changed)

    def begin_again(self, subscription: SubscriptionState) -> None:
        """Open a durable subscription again, because the broker has moved its cursor."""
        subscription.begin_again()
        if subscription.phase is Phase.OPEN:
            self._subscribe_again(subscription)

    def end_all(self, error: PlaitError | None) -> None:
        """Complete all requests and end all subscriptions: the session has ended."""
        for request in self.requests.all():
            self.requests.close(request.number)
            self._complete(request, error or Closed("the client is closed"))
        for subscription in list(self.subscriptions.values()):
            self.end(subscription, error)
        self.advertisements.clear()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _number(self) -> int:
        if self._connection.state is State.ENDED:
            raise self._connection.error or Closed("the client is closed")
        return self.requests.number()

    def _request(
        self,
        number: int,
        kind: Kind,
        about: int,
        frame: ControlFrame,
        now: float | None,
        *,
        terms: Terms | None = None,
        forget: bool = False,
        internal: bool = False,
    ) -> None:
        """Open and send a request, with a timeout counted from `now`, or without one.

        Raise EventInvalid, and remember nothing, if it cannot be encoded.
        """
        try:
            encoded = encode_control(frame)
        except ValueError as error:
            raise EventInvalid(str(error)) from None
        request = Request(number, kind, about, encoded, terms, forget, internal)
        self.requests.open(request, None if now is None else now + self._settings.timeout_s)
        if self._connection.state is State.OPEN:  # else the next connection begins with all open requests
            self._connection.send_encoded(encoded)

    def _send(self, frame: ControlFrame) -> None:
        """Send a frame if the connection is open. It is not needed on the next one."""
        if self._connection.state is State.OPEN:
            self._connection.send(frame)

    def _subscribe_again(self, subscription: SubscriptionState) -> None:
        number = self._number()
        frame = subscription.terms.frame(number, subscription.id)
        self._request(number, Kind.SUBSCRIBE, subscription.id, frame, None, internal=True)

    def _renew_routing(self, request: Request) -> None:
        """Encode an open request with the present routing tokens. The CHANGE that follows it with them is closed."""
        subscription = self.subscriptions.get(request.about)
        if subscription is not None and request.kind in (Kind.SUBSCRIBE, Kind.CHANGE):
            terms = replace(request.terms or subscription.terms, routing=subscription.terms.routing)
            encoded = encode_control(terms.frame(request.number, subscription.id))
            self.requests.replace(replace(request, encoded=encoded))

    def _settle_requests_of_lost_session(self, *, log_changed: bool) -> None:
        """Send or complete the open requests of a lost session. A new session is empty: removals are already done."""
        for request in self.requests.all():
            match request.kind:
                case Kind.ACKNOWLEDGE if log_changed:
                    self.requests.close(request.number)
                    message = "the broker has another log now: the acks are not stored there"
                    self._complete(request, DurabilityFailed(message, code=Code.DURABILITY))
                case Kind.CHANGE | Kind.ACKNOWLEDGE | Kind.MANAGE:
                    self._connection.send_encoded(request.encoded)
                case Kind.UNADVERTISE:
                    self.requests.close(request.number)
                    self._request_succeeded(request)
                case Kind.UNSUBSCRIBE:
                    self.requests.close(request.number)
                    if request.forget:
                        message = "the connection broke while the subscription's place was being given up"
                        self._complete(request, ConnectionLost(message))
                    else:
                        self._request_succeeded(request)

    def _request_succeeded(self, request: Request) -> None:
        subscription = self.subscriptions.get(request.about)
        match request.kind:
            case Kind.SUBSCRIBE if subscription is not None and subscription.phase is Phase.OPENING:
                subscription.phase = Phase.OPEN
            case Kind.SUBSCRIBE if subscription is not None and request.internal and not subscription.terms.durable:
                # Reported now, not at the loss: events published from now on arrive.
                subscription.record_gap(Gap("reconnected"))
            case Kind.SUBSCRIBE if subscription is not None and subscription.log_lost:
                subscription.log_lost = False
                subscription.record_gap(Gap("log_lost"))
            case Kind.CHANGE if subscription is not None and request.terms is not None:
                subscription.terms = replace(request.terms, routing=subscription.terms.routing)
            case Kind.UNSUBSCRIBE if subscription is not None:
                self.reports.report_last(subscription)  # it was drained: the last deliveries have arrived
                self.end(subscription, None)
        self._complete(request, None)

    def _request_failed(self, request: Request, error: PlaitError, now: float) -> None:
        subscription = self.subscriptions.get(request.about)
        match request.kind:
            case Kind.SUBSCRIBE if subscription is not None and request.internal and error.retryable:
                self.retries.set(subscription.id, now + RETRY_REFUSED_S)
            case Kind.SUBSCRIBE if subscription is not None:
                self.end(subscription, error)
            case Kind.ADVERTISE:
                self.advertisements.pop(request.about, None)
                if request.internal:
                    self._updates.append(AdvertisementEnded(request.about, error))
        self._complete(request, error)

    def _undo(self, request: Request) -> None:
        """Undo the change that a request was about to make."""
        subscription = self.subscriptions.get(request.about)
        match request.kind:
            case Kind.SUBSCRIBE if subscription is not None:
                self._send(Unsubscribe(0, subscription.id))
                self.end(subscription, None)
            case Kind.CHANGE if subscription is not None:
                self._send(subscription.terms.frame(0, subscription.id))
            case Kind.UNSUBSCRIBE if subscription is not None:
                self.end(subscription, None)
            case Kind.ADVERTISE if self.advertisements.pop(request.about, None) is not None:
                self._send(Unadvertise(0, request.about))

    def _complete(self, request: Request, error: PlaitError | None) -> None:
        if not request.internal:
            self._updates.append(RequestCompleted(request.number, error))
