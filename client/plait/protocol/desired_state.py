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
from ..notices import Gap
from ..options.limits import RETRY_REFUSED_S
from ..options.settings import SessionSettings
from .broker_connection import BrokerConnection, State
from .deadlines import Deadlines
from .outputs import AdvertisementEnded, Answered, Happening
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
    """All of one client's. Requests are numbered; each gets one Answered among the happenings."""

    def __init__(
        self, line: BrokerConnection, settings: SessionSettings, signals: Signals, happenings: list[Happening]
    ) -> None:
        self.interests: dict[int, SubscriptionState] = {}
        self.offers: dict[int, AdvertisedFilter] = {}
        self._line = line
        self._settings = settings
        self._signals = signals
        self._happenings = happenings
        self._requests = PendingRequests()
        self._retries: Deadlines[int] = Deadlines()  # by interest: when to ask again for what could not be served
        self._last_interest = self._last_offer = 0

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(self, terms: Terms, now: float) -> tuple[SubscriptionState, int]:
        """Open a subscription; it, and the request that is answered once it is installed."""
        number = self._number()
        _check(terms.frame(number, 1))
        self._last_interest += 1
        interest = SubscriptionState(self._last_interest, terms, self._signals)
        self.interests[interest.id] = interest
        frame = terms.frame(number, interest.id)
        self._ask(Request(number, Kind.SUBSCRIBE, interest.id, frame), now)
        return interest, number

    def change(self, interest: SubscriptionState, terms: Terms, now: float) -> int:
        """Change a subscription's filter or terms; the request."""
        number = self._number()
        _check(terms.frame(number, interest.id))
        self._ask(Request(number, Kind.CHANGE, interest.id, terms.frame(number, interest.id), terms=terms), now)
        return number

    def redeposit(self, interest: SubscriptionState, routing: bytes) -> None:
        """Other routing keys for a subscription from now on, also on later connections. Nobody waits for the answer."""
        changing = [r.terms for r in self._requests.all() if r.kind is Kind.CHANGE and r.about == interest.id]
        interest.terms = replace(interest.terms, routing=routing)
        terms = replace((changing[-1] if changing else None) or interest.terms, routing=routing)
        number = self._number()
        frame = terms.frame(number, interest.id)
        self._ask(Request(number, Kind.CHANGE, interest.id, frame, again=True, terms=terms), None)

    def unsubscribe(self, interest: SubscriptionState, now: float, *, drain: bool = False, forget: bool = False) -> int:
        """End a subscription; the request. With `drain`, what the broker has queued still comes before the answer."""
        number = self._number()
        if self._line.state is State.OPEN:
            self.send_acknowledgements()
        if drain:
            interest.phase = Phase.DRAINING
        else:
            self.end(interest, None)
        request = Request(number, Kind.UNSUBSCRIBE, interest.id, Unsubscribe(number, interest.id, drain, forget))
        self._ask(request, None if drain else now)
        return number

    def refuse_more(self, interest: SubscriptionState) -> None:
        """Take no more deliveries, and go on acknowledging: how a durable subscription is drained."""
        interest.phase = Phase.DRAINING
        self.interests.pop(interest.id, None)

    def end(self, interest: SubscriptionState, error: PlaitError | None) -> None:
        """Forget a subscription; its reader sees why."""
        interest.end(error)
        self.interests.pop(interest.id, None)
        self._retries.discard(interest.id)

    def give_up(self, interest: SubscriptionState, error: PlaitError) -> None:
        """End a subscription here and at the broker."""
        self._send(Unsubscribe(0, interest.id))
        self.end(interest, error)

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledge(self, interest: SubscriptionState, now: float) -> int:
        """Send what was dealt with; the request that is answered once that is stored."""
        number = self._number()
        if self._line.state is State.OPEN:
            self.send_acknowledgements()
        positions, interest.acknowledged = tuple(interest.acknowledged[:ACKNOWLEDGED_MAX]), []
        self._ask(Request(number, Kind.ACKNOWLEDGE, interest.id, Acknowledge(interest.id, positions, 0, number)), now)
        return number

    def send_acknowledgements(self) -> None:
        """Tell the broker, over an open line, what was dealt with since the last time."""
        acknowledging, self._signals.acknowledging = self._signals.acknowledging, []
        for interest in acknowledging:
            positions, interest.acknowledged = interest.acknowledged, []
            for start in range(0, len(positions), ACKNOWLEDGED_MAX):
                self._line.send(Acknowledge(interest.id, tuple(positions[start : start + ACKNOWLEDGED_MAX])))

    # --- advertisements -----------------------------------------------------------------------------------------------

    def advertise(self, filter: str, rate: float, now: float) -> tuple[AdvertisedFilter, int]:
        """Say what will be published; the offer and its request."""
        number = self._number()
        offer = AdvertisedFilter(self._last_offer + 1, filter, rate)
        _check(offer.frame(number))
        self._last_offer += 1
        self.offers[offer.id] = offer
        self._ask(Request(number, Kind.ADVERTISE, offer.id, offer.frame(number)), now)
        return offer, number

    def unadvertise(self, offer: AdvertisedFilter, now: float) -> int:
        """Take an advertisement back; the request."""
        number = self._number()
        self.offers.pop(offer.id, None)
        self._ask(Request(number, Kind.UNADVERTISE, offer.id, Unadvertise(number, offer.id)), now)
        return number

    # --- requests -----------------------------------------------------------------------------------------------------

    def abandon(self, request: int) -> None:
        """Nobody waits for a request any more: what it was opening is taken back."""
        known = self._requests.close(request)
        if known is not None:
            self._take_back(known)

    def done(self, frame: Done, now: float) -> None:
        """The broker did it."""
        request = self._requests.close(frame.request)
        if request is not None:
            self._carried_out(request)

    def failed(self, frame: Failed, now: float) -> None:
        """The broker did not do it."""
        request = self._requests.close(frame.request)
        if request is None:
            return
        if frame.code == Code.UNKNOWN and request.kind in (Kind.UNSUBSCRIBE, Kind.UNADVERTISE):
            self._carried_out(request)  # it is gone, which is what was wanted
            return
        error = refusal(frame.code, frame.message, hint=frame.hint, retryable=frame.retryable)
        self._not_carried_out(request, error, now)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for request in self._requests.due(now):
            self._take_back(request)
            where = "" if self._line.state is State.OPEN else f"there is no connection to {self._line.address}; "
            error = Timeout(f"{where}no answer came within {self._settings.timeout_s:g} s")
            self._answer(request, error)
        for id in self._retries.due(now):
            interest = self.interests.get(id)
            if interest is None:
                continue
            if self._line.state is State.OPEN:
                self._subscribe_again(interest)
            else:
                self._retries.set(id, now + RETRY_REFUSED_S)

    def next_deadline(self) -> float | None:
        """When `tick` is to be called."""
        deadlines = (self._requests.next_deadline(), self._retries.next())
        return min((at for at in deadlines if at is not None), default=None)

    # --- connections come and go --------------------------------------------------------------------------------------

    def resumed(self) -> None:
        """The broker still has the session: only requests and answers that were on their way may be missing."""
        for request in self._requests.all():
            self._line.send(request.frame)

    def anew(self, *, other_log: bool = False) -> None:
        """A broker without a session of ours: ask it for everything. `other_log`: nor with the log that we knew."""
        for request in self._requests.all():
            if request.again:
                self._requests.close(request.number)  # it was for the session before; this one is asked below
        asking = {request.about for request in self._requests.all() if request.kind is Kind.SUBSCRIBE}
        offering = {request.about for request in self._requests.all() if request.kind is Kind.ADVERTISE}
        for request in self._requests.all():
            if request.kind in (Kind.SUBSCRIBE, Kind.ADVERTISE):
                self._line.send(request.frame)
        for interest in list(self.interests.values()):
            interest.new_session(other_log=other_log)
            self._retries.discard(interest.id)
            if interest.id in asking or interest.phase is not Phase.OPEN:
                continue
            self._subscribe_again(interest)
        for offer in self.offers.values():
            if offer.id not in offering:
                number = self._number()
                self._ask(Request(number, Kind.ADVERTISE, offer.id, offer.frame(number), again=True), None)
        self._ask_the_rest(other_log=other_log)

    def wind_up(self, error: PlaitError | None) -> None:
        """There will be no other connection."""
        for request in self._requests.all():
            self._requests.close(request.number)
            self._answer(request, error or Closed("the client is closed"))
        for interest in list(self.interests.values()):
            self.end(interest, error)
        self.offers.clear()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _number(self) -> int:
        if self._line.state is State.ENDED:
            raise self._line.error or Closed("the client is closed")
        return self._requests.number()

    def _ask(self, request: Request, now: float | None) -> None:
        """With the usual deadline from `now`, or with none."""
        self._requests.open(request, None if now is None else now + self._settings.timeout_s)
        self._send(request.frame)

    def _send(self, frame: ControlFrame) -> None:
        """Now, or not at all: what has to outlive a connection is asked again when there is a new one."""
        if self._line.state is State.OPEN:
            self._line.send(frame)

    def _subscribe_again(self, interest: SubscriptionState) -> None:
        number = self._number()
        frame = interest.terms.frame(number, interest.id)
        self._ask(Request(number, Kind.SUBSCRIBE, interest.id, frame, again=True), None)

    def _ask_the_rest(self, *, other_log: bool) -> None:
        """Open requests that a new session does not answer by being empty."""
        for request in self._requests.all():
            match request.kind:
                case Kind.ACKNOWLEDGE if other_log:
                    self._requests.close(request.number)
                    said = "the broker keeps another log now: what was acknowledged is not stored there"
                    self._answer(request, DurabilityFailed(said, code=Code.DURABILITY))
                case Kind.CHANGE | Kind.ACKNOWLEDGE:
                    self._line.send(request.frame)
                case Kind.UNADVERTISE:
                    self._requests.close(request.number)
                    self._carried_out(request)
                case Kind.UNSUBSCRIBE:
                    self._requests.close(request.number)
                    self._unsubscribed_by_loss(request)

    def _unsubscribed_by_loss(self, request: Request) -> None:
        if isinstance(request.frame, Unsubscribe) and request.frame.forget:
            error = ConnectionLost("the connection broke while the subscription's place was being given up")
            self._answer(request, error)
        else:
            self._carried_out(request)

    def _carried_out(self, request: Request) -> None:
        interest = self.interests.get(request.about)
        match request.kind:
            case Kind.SUBSCRIBE if interest is not None and interest.phase is Phase.OPENING:
                interest.phase = Phase.OPEN
            case Kind.SUBSCRIBE if interest is not None and request.again and not interest.terms.durable:
                interest.lost(Gap("reconnected"))  # told when it ends: whoever now looks elsewhere misses nothing more
            case Kind.SUBSCRIBE if interest is not None and interest.log_lost:
                interest.log_lost = False
                interest.lost(Gap("log_lost"))
            case Kind.CHANGE if interest is not None and request.terms is not None:
                interest.terms = replace(request.terms, routing=interest.terms.routing)
            case Kind.UNSUBSCRIBE if interest is not None:
                self.end(interest, None)
        self._answer(request, None)

    def _not_carried_out(self, request: Request, error: PlaitError, now: float) -> None:
        interest = self.interests.get(request.about)
        match request.kind:
            case Kind.SUBSCRIBE if interest is not None and request.again and error.retryable:
                self._retries.set(interest.id, now + RETRY_REFUSED_S)
            case Kind.SUBSCRIBE if interest is not None:
                self.end(interest, error)
            case Kind.ADVERTISE:
                self.offers.pop(request.about, None)
                if request.again:
                    self._happenings.append(AdvertisementEnded(request.about, error))
        self._answer(request, error)

    def _take_back(self, request: Request) -> None:
        """Undo what a request was about to do."""
        interest = self.interests.get(request.about)
        match request.kind:
            case Kind.SUBSCRIBE if interest is not None:
                self._send(Unsubscribe(0, interest.id))
                self.end(interest, None)
            case Kind.CHANGE if interest is not None:
                self._send(interest.terms.frame(0, interest.id))
            case Kind.UNSUBSCRIBE if interest is not None:
                self.end(interest, None)
            case Kind.ADVERTISE if self.offers.pop(request.about, None) is not None:
                self._send(Unadvertise(0, request.about))

    def _answer(self, request: Request, error: PlaitError | None) -> None:
        if not request.again:
            self._happenings.append(Answered(request.number, error))


def _check(frame: ControlFrame) -> None:
    """Nothing that cannot be sent is wished for: it would only be found out when a connection is there."""
    try:
        encode_frame(frame)
    except ValueError as error:
        raise EventInvalid(str(error)) from None
