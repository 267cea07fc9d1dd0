"""What the client wants of its broker: subscriptions and advertisements, and the requests that open and end them.

A wish outlives connections. When a broker has no session of ours it is asked for all of them anew; a request whose
answer was lost is asked again, and its answer, whenever it comes, is reported once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plait_core import EventInvalid, PlaitError
from plait_core.limits import ACKNOWLEDGED_MAX
from plait_core.wire import ControlFrame, encode_frame
from plait_core.wire.frame_types.session_frames import (
    Acknowledge,
    Advertise,
    Code,
    Done,
    Failed,
    Unadvertise,
    Unsubscribe,
)

from ..errors import Closed, ConnectionLost, DurabilityFailed, Timeout, refusal
from ..options.limits import RETRY_REFUSED_S
from ..options.settings import SessionSettings
from .broker_connection import BrokerConnection, State
from .deadlines import Deadlines
from .notices import Gap
from .outputs import AdvertisementEnded, RequestCompleted, SessionUpdate
from .pending_requests import Kind, PendingRequests, Request
from .subscription_state import Phase, Signals, SubscriptionState, Terms


@dataclass(slots=True)
class AdvertisedFilter:
    """One advertisement."""

    id: int
    filter: str
    rate: float
    matching: bool = False
    """Whether anyone is interested in it."""

    def frame(self, request: int) -> Advertise:
        """The frame that tells the broker of it."""
        return Advertise(request, self.id, self.filter, self.rate)


class DesiredState:
    """All of one client's. Requests are numbered; each gets one RequestCompleted among the updates."""

    def __init__(
        self, connection: BrokerConnection, settings: SessionSettings, signals: Signals, updates: list[SessionUpdate]
    ) -> None:
        self.subscriptions: dict[int, SubscriptionState] = {}
        self.advertisements: dict[int, AdvertisedFilter] = {}
        self._connection = connection
        self._settings = settings
        self._signals = signals
        self._updates = updates
        self._requests = PendingRequests()
        self._retries: Deadlines[int] = Deadlines()  # by subscription: when to ask again for what could not be served
        self._last_subscription = self._last_advertisement = 0

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(self, terms: Terms, now: float) -> tuple[SubscriptionState, int]:
        """Open a subscription; it, and the request that is answered once it is installed."""
        number = self._number()
        _check(terms.frame(number, 1))
        self._last_subscription += 1
        subscription = SubscriptionState(self._last_subscription, terms, self._signals)
        self.subscriptions[subscription.id] = subscription
        frame = terms.frame(number, subscription.id)
        self._request(Request(number, Kind.SUBSCRIBE, subscription.id, frame), now)
        return subscription, number

    def change(self, subscription: SubscriptionState, terms: Terms, now: float) -> int:
        """Change a subscription's filter or terms; the request."""
        number = self._number()
        _check(terms.frame(number, subscription.id))
        self._request(
            Request(number, Kind.CHANGE, subscription.id, terms.frame(number, subscription.id), terms=terms), now
        )
        return number

    def update_routing(self, subscription: SubscriptionState, routing: bytes) -> None:
        """Other routing keys for a subscription from now on, also on later connections. Nobody waits for the answer."""
        changing = [r.terms for r in self._requests.all() if r.kind is Kind.CHANGE and r.about == subscription.id]
        subscription.terms = replace(subscription.terms, routing=routing)
        terms = replace((changing[-1] if changing else None) or subscription.terms, routing=routing)
        number = self._number()
        frame = terms.frame(number, subscription.id)
        self._request(Request(number, Kind.CHANGE, subscription.id, frame, internal=True, terms=terms), None)

    def unsubscribe(
        self, subscription: SubscriptionState, now: float, *, drain: bool = False, forget: bool = False
    ) -> int:
        """End a subscription; the request. With `drain`, what the broker has queued still comes before the answer."""
        number = self._number()
        if self._connection.state is State.OPEN:
            self.send_acknowledgements()
        if drain:
            subscription.phase = Phase.DRAINING
        else:
            self.end(subscription, None)
        request = Request(
            number, Kind.UNSUBSCRIBE, subscription.id, Unsubscribe(number, subscription.id, drain, forget)
        )
        self._request(request, None if drain else now)
        return number

    def stop_deliveries(self, subscription: SubscriptionState) -> None:
        """Take no more deliveries, and go on acknowledging: how a durable subscription is drained."""
        subscription.phase = Phase.DRAINING
        self.subscriptions.pop(subscription.id, None)

    def end(self, subscription: SubscriptionState, error: PlaitError | None) -> None:
        """Forget a subscription; its reader sees why."""
        subscription.end(error)
        self.subscriptions.pop(subscription.id, None)
        self._retries.discard(subscription.id)

    def terminate(self, subscription: SubscriptionState, error: PlaitError) -> None:
        """End a subscription here and at the broker."""
        self._send(Unsubscribe(0, subscription.id))
        self.end(subscription, error)

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledge(self, subscription: SubscriptionState, now: float) -> int:
        """Send what was dealt with; the request that is answered once that is stored."""
        number = self._number()
        if self._connection.state is State.OPEN:
            self.send_acknowledgements()
        positions, subscription.acknowledged = tuple(subscription.acknowledged[:ACKNOWLEDGED_MAX]), []
        self._request(
            Request(number, Kind.ACKNOWLEDGE, subscription.id, Acknowledge(subscription.id, positions, 0, number)), now
        )
        return number

    def send_acknowledgements(self) -> None:
        """Tell the broker, over an open line, what was dealt with since the last time."""
        acknowledging, self._signals.acknowledging = self._signals.acknowledging, []
        for subscription in acknowledging:
            positions, subscription.acknowledged = subscription.acknowledged, []
            for start in range(0, len(positions), ACKNOWLEDGED_MAX):
                self._connection.send(Acknowledge(subscription.id, tuple(positions[start : start + ACKNOWLEDGED_MAX])))

    # --- advertisements -----------------------------------------------------------------------------------------------

    def advertise(self, filter: str, rate: float, now: float) -> tuple[AdvertisedFilter, int]:
        """Say what will be published; the advertisement and its request."""
        number = self._number()
        advertisement = AdvertisedFilter(self._last_advertisement + 1, filter, rate)
        _check(advertisement.frame(number))
        self._last_advertisement += 1
        self.advertisements[advertisement.id] = advertisement
        self._request(Request(number, Kind.ADVERTISE, advertisement.id, advertisement.frame(number)), now)
        return advertisement, number

    def unadvertise(self, advertisement: AdvertisedFilter, now: float) -> int:
        """Take an advertisement back; the request."""
        number = self._number()
        self.advertisements.pop(advertisement.id, None)
        self._request(Request(number, Kind.UNADVERTISE, advertisement.id, Unadvertise(number, advertisement.id)), now)
        return number

    # --- requests -----------------------------------------------------------------------------------------------------

    def cancel(self, request: int) -> None:
        """Nobody waits for a request any more: what it was opening is taken back."""
        known = self._requests.close(request)
        if known is not None:
            self._undo(known)

    def done(self, frame: Done, now: float) -> None:
        """The broker did it."""
        request = self._requests.close(frame.request)
        if request is not None:
            self._request_succeeded(request)

    def failed(self, frame: Failed, now: float) -> None:
        """The broker did not do it."""
        request = self._requests.close(frame.request)
        if request is None:
            return
        if frame.code == Code.UNKNOWN and request.kind in (Kind.UNSUBSCRIBE, Kind.UNADVERTISE):
            self._request_succeeded(request)  # it is gone, which is what was wanted
            return
        error = refusal(frame.code, frame.message, hint=frame.hint, retryable=frame.retryable)
        self._request_failed(request, error, now)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for request in self._requests.due(now):
            self._undo(request)
            where = (
                ""
                if self._connection.state is State.OPEN
                else f"there is no connection to {self._connection.address}; "
            )
            error = Timeout(f"{where}no answer came within {self._settings.timeout_s:g} s")
            self._complete(request, error)
        for id in self._retries.due(now):
            subscription = self.subscriptions.get(id)
            if subscription is None:
                continue
            if self._connection.state is State.OPEN:
                self._subscribe_again(subscription)
            else:
                self._retries.set(id, now + RETRY_REFUSED_S)

    def next_deadline(self) -> float | None:
        """When `tick` is to be called."""
        deadlines = (self._requests.next_deadline(), self._retries.next())
        return min((at for at in deadlines if at is not None), default=None)

    # --- connections come and go --------------------------------------------------------------------------------------

    def resend_requests(self) -> None:
        """The broker still has the session: only requests and answers that were on their way may be missing."""
        for request in self._requests.all():
            self._connection.send(request.frame)

    def resubscribe_all(self, *, log_changed: bool = False) -> None:
        """A broker without a session of ours: ask it for everything. `log_changed`: nor with the log that we knew."""
        for request in self._requests.all():
            if request.internal:
                self._requests.close(request.number)  # it was for the session before; this one is asked below
        asking = {request.about for request in self._requests.all() if request.kind is Kind.SUBSCRIBE}
        offering = {request.about for request in self._requests.all() if request.kind is Kind.ADVERTISE}
        for request in self._requests.all():
            if request.kind in (Kind.SUBSCRIBE, Kind.ADVERTISE):
                self._connection.send(request.frame)
        for subscription in list(self.subscriptions.values()):
            subscription.new_session(log_changed=log_changed)
            self._retries.discard(subscription.id)
            if subscription.id in asking or subscription.phase is not Phase.OPEN:
                continue
            self._subscribe_again(subscription)
        for advertisement in self.advertisements.values():
            if advertisement.id not in offering:
                number = self._number()
                self._request(
                    Request(number, Kind.ADVERTISE, advertisement.id, advertisement.frame(number), internal=True), None
                )
        self._settle_requests_of_lost_session(log_changed=log_changed)

    def end_all(self, error: PlaitError | None) -> None:
        """There will be no other connection."""
        for request in self._requests.all():
            self._requests.close(request.number)
            self._complete(request, error or Closed("the client is closed"))
        for subscription in list(self.subscriptions.values()):
            self.end(subscription, error)
        self.advertisements.clear()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _number(self) -> int:
        if self._connection.state is State.ENDED:
            raise self._connection.error or Closed("the client is closed")
        return self._requests.number()

    def _request(self, request: Request, now: float | None) -> None:
        """With the usual deadline from `now`, or with none."""
        self._requests.open(request, None if now is None else now + self._settings.timeout_s)
        self._send(request.frame)

    def _send(self, frame: ControlFrame) -> None:
        """Now, or not at all: what has to outlive a connection is asked again when there is a new one."""
        if self._connection.state is State.OPEN:
            self._connection.send(frame)

    def _subscribe_again(self, subscription: SubscriptionState) -> None:
        number = self._number()
        frame = subscription.terms.frame(number, subscription.id)
        self._request(Request(number, Kind.SUBSCRIBE, subscription.id, frame, internal=True), None)

    def _settle_requests_of_lost_session(self, *, log_changed: bool) -> None:
        """Open requests that a new session does not answer by being empty."""
        for request in self._requests.all():
            match request.kind:
                case Kind.ACKNOWLEDGE if log_changed:
                    self._requests.close(request.number)
                    said = "the broker keeps another log now: what was acknowledged is not stored there"
                    self._complete(request, DurabilityFailed(said, code=Code.DURABILITY))
                case Kind.CHANGE | Kind.ACKNOWLEDGE:
                    self._connection.send(request.frame)
                case Kind.UNADVERTISE:
                    self._requests.close(request.number)
                    self._request_succeeded(request)
                case Kind.UNSUBSCRIBE:
                    self._requests.close(request.number)
                    self._complete_lost_unsubscribe(request)

    def _complete_lost_unsubscribe(self, request: Request) -> None:
        if isinstance(request.frame, Unsubscribe) and request.frame.forget:
            error = ConnectionLost("the connection broke while the subscription's place was being given up")
            self._complete(request, error)
        else:
            self._request_succeeded(request)

    def _request_succeeded(self, request: Request) -> None:
        subscription = self.subscriptions.get(request.about)
        match request.kind:
            case Kind.SUBSCRIBE if subscription is not None and subscription.phase is Phase.OPENING:
                subscription.phase = Phase.OPEN
            case Kind.SUBSCRIBE if subscription is not None and request.internal and not subscription.terms.durable:
                subscription.record_gap(
                    Gap("reconnected")
                )  # told when it ends: whoever now looks elsewhere misses nothing more
            case Kind.SUBSCRIBE if subscription is not None and subscription.log_lost:
                subscription.log_lost = False
                subscription.record_gap(Gap("log_lost"))
            case Kind.CHANGE if subscription is not None and request.terms is not None:
                subscription.terms = replace(request.terms, routing=subscription.terms.routing)
            case Kind.UNSUBSCRIBE if subscription is not None:
                self.end(subscription, None)
        self._complete(request, None)

    def _request_failed(self, request: Request, error: PlaitError, now: float) -> None:
        subscription = self.subscriptions.get(request.about)
        match request.kind:
            case Kind.SUBSCRIBE if subscription is not None and request.internal and error.retryable:
                self._retries.set(subscription.id, now + RETRY_REFUSED_S)
            case Kind.SUBSCRIBE if subscription is not None:
                self.end(subscription, error)
            case Kind.ADVERTISE:
                self.advertisements.pop(request.about, None)
                if request.internal:
                    self._updates.append(AdvertisementEnded(request.about, error))
        self._complete(request, error)

    def _undo(self, request: Request) -> None:
        """Undo what a request was about to do."""
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


def _check(frame: ControlFrame) -> None:
    """Nothing that cannot be sent is wished for: it would only be found out when a connection is there."""
    try:
        encode_frame(frame)
    except ValueError as error:
        raise EventInvalid(str(error)) from None
