"""Requests of clients other than Publish: subscriptions, advertisements, acknowledgements; answered Done or Failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from plait_core.errors import FilterError
from plait_core.filters import Filter, parse
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.wire import Confirm, ControlFrame, Publish
from plait_core.wire.frame_types.session_frames import (
    Acknowledge,
    Advertise,
    ClientReport,
    Code,
    Done,
    Failed,
    ManageDurable,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from plait_core.wire.frame_types.trace_frames import Trace

from ..adapter.install_waits import InstallWaits
from ..context import BrokerContext
from ..drop_reasons import DropReason
from ..outputs import LogRecord
from ..pipeline.admission import PublishRefused
from ..pipeline.pipeline import EventPipeline
from ..pipeline.subscription_index import SubscriptionIndex
from .access import ALL, Principal, Rules
from .delivery_queue import DeliveryQueue, QueueBounds
from .durable.durable_delivery import DurableDelivery
from .durable.durable_requests import DurableRequests
from .durable.durable_subscriptions import DurableSubscriptions, WaitingRequest
from .request_failed import RequestFailed
from .sessions import ClientAdvertisement, Session, Sessions, Subscription
from .subscriptions import Subscriptions

_F = TypeVar("_F", bound=ControlFrame)


class ClientRequests:
    """Carries out requests of sessions."""

    def __init__(
        self,
        context: BrokerContext,
        sessions: Sessions,
        index: SubscriptionIndex,
        subscriptions: Subscriptions,
        durables: DurableSubscriptions,
        durable_delivery: DurableDelivery,
        install_waits: InstallWaits,
        pipeline: EventPipeline,
    ) -> None:
        self._settings = context.settings
        self._counters = context.counters
        self._confirmations = context.confirmations
        self._observer = context.observer
        self._sessions = sessions
        self._index = index
        self._subscriptions = subscriptions
        self._durables = durables
        self._durable_delivery = durable_delivery
        self._durable_requests = DurableRequests(
            context, index, subscriptions, durables, durable_delivery, install_waits
        )
        self._install_waits = install_waits
        self._pipeline = pipeline

    def handle(self, session: Session, frame: ControlFrame, now: float) -> bool:
        """Carry out a request. Return False if the frame is none."""
        match frame:
            case Subscribe(request=request):
                self._answered(session, request, self._subscribe, frame, now)
            case Unsubscribe(request=request):
                self._answered(session, request, self._unsubscribe, frame, now)
            case Advertise(request=request):
                self._answered(session, request, self._advertise, frame, now)
            case Unadvertise(request=request):
                self._answered(session, request, self._unadvertise, frame, now)
            case Acknowledge(request=request):
                self._answered(session, request, self._acknowledge, frame, now)
            case ManageDurable(request=request):
                self._answered(session, request, self._manage_durable, frame, now)
            case Trace(request=request):
                self._answered(session, request, self._trace, frame, now)
            case ClientReport():
                self._subscriptions.reports.receive(session, frame, now)
            case _:
                return False
        return True

    def _answered(
        self, session: Session, request: int, carry_out: Callable[[Session, _F, float], bool], frame: _F, now: float
    ) -> None:
        """Carry out a request. Answer Done at once if `carry_out` returns True, else later; Failed if it raises."""
        assert session.connection is not None, "a request comes over a connection"
        try:
            if carry_out(session, frame, now) and request:
                session.connection.send(Done(request), behind=isinstance(frame, Unsubscribe))
        except RequestFailed as failed:
            self._counters.rejected[failed.code] += 1
            session.connection.send(Failed(request, failed.code, failed.message, failed.hint, failed.retryable))

    # --- answers that have waited -------------------------------------------------------------------------------------

    def stored(self, waiting: Sequence[WaitingRequest], error: str | None, now: float) -> None:
        """Answer the requests of a Persist, or undo and refuse them after an error."""
        for session_id, request, undo in waiting:
            if error is not None and undo is not None:
                undo(now)
            session = self._sessions.get(session_id)
            if session is None or session.connection is None or not request:
                continue
            if error is not None:
                failed = Failed(request, Code.DURABILITY, error[:CLOSE_TEXT_MAX], retryable=True)
                session.connection.send(failed)
            elif self._install_waits.note_stored((session_id, request)):
                session.connection.send(Done(request))

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _subscribe(self, session: Session, terms: Subscribe, now: float) -> bool:
        filter = _subscribable(terms, session.principal)
        known = session.subscriptions.get(terms.subscription)
        if known is not None:
            return self._change(session, known, terms, filter, now)
        if len(session.subscriptions) >= self._settings.current.session_subscriptions_max:
            raise RequestFailed(Code.LIMIT, f"{len(session.subscriptions)} subscriptions are open in this session")
        if len(self._index) >= self._settings.current.subscriptions_max:
            raise RequestFailed(Code.LIMIT, "the broker has as many subscriptions as it may", retryable=True)
        if terms.durable:
            self._durable_requests.open(Subscription(0, session, terms, filter, self._outbox(terms)), now)
            return False
        subscription = Subscription(self._index.new_number(), session, terms, filter, self._outbox(terms))
        subscription.since = now
        session.subscriptions[subscription.id] = subscription
        self._index.add(subscription)
        return self._install_waits.answer_when_installed(subscription.number, (session.id, terms.request))

    def _change(self, session: Session, known: Subscription, terms: Subscribe, filter: Filter, now: float) -> bool:
        """Replace the filter or the terms in one step, so that no event is lost between the old and the new."""
        if known.ending is not None:
            raise RequestFailed(Code.TAKEN, f"subscription {known.id} is still being drained", retryable=True)
        if terms.durable != known.terms.durable:
            raise RequestFailed(Code.TAKEN, "a subscription cannot become durable, or another one", "open a new one")
        bounds = self._bounds(terms)
        if known.durable is not None:
            self._durable_requests.change(known, known.durable, terms, filter, bounds, now)
            return False
        refiltered = filter != known.filter or terms.routing != known.routing
        if refiltered or terms.within_us != known.within_us:  # publishers' brokers know its delay bound, too
            known.within_us = terms.within_us
            known.since = now if refiltered else known.since
            self._index.change(known, filter, terms.routing)
        known.set_terms(terms, filter, bounds)
        return self._install_waits.answer_when_installed(known.number, (session.id, terms.request))

    def _manage_durable(self, session: Session, frame: ManageDurable, now: float) -> bool:
        self._durable_requests.manage(session, frame, now)
        return False

    def fetched(self, ticket: int, records: Sequence[LogRecord], error: str | None, now: float) -> bool:
        """Take the answer to a Fetch; return whether a request has waited for it."""
        if not self._durable_requests.awaits(ticket):
            return False
        refused = self._durable_requests.fetched(ticket, records, error, now)
        if refused is not None:
            self.stored([refused], error or "it was removed meanwhile", now)
        return True

    def _unsubscribe(self, session: Session, frame: Unsubscribe, now: float) -> bool:
        subscription = session.subscriptions.get(frame.subscription)
        if subscription is None or subscription.ending is not None:
            raise RequestFailed(Code.UNKNOWN, f"there is no subscription {frame.subscription}")
        durable = subscription.durable
        if durable is not None:
            self._durable_requests.close(subscription, durable, frame, now)
            return False
        self._index.remove(subscription)
        if frame.drain:
            subscription.ending = frame.request
            if subscription.outbox:
                return False
        self._subscriptions.end(subscription, DropReason.GONE, now, indexed=False)
        return True

    def _outbox(self, terms: Subscribe) -> DeliveryQueue:
        return DeliveryQueue(*self._bounds(terms), self._index.waiting)

    def _bounds(self, terms: Subscribe) -> QueueBounds:
        items_max = min(terms.items_max, self._settings.current.outbox_items_max)
        return QueueBounds(items_max, min(terms.bytes_max, self._settings.current.outbox_bytes_max), terms.full)

    # --- marked events ------------------------------------------------------------------------------------------------

    def _trace(self, session: Session, frame: Trace, now: float) -> bool:
        """Publish an event like any other, and report its steps to the client."""
        event = Publish(Confirm.NONE, frame.block)
        if not self._observer.mark(session, event, now):
            raise RequestFailed(Code.LIMIT, "too many events are traced here", "try again in a second", retryable=True)
        try:
            self._pipeline.publish(session, event, now)
        except PublishRefused as refused:
            self._observer.unmark(event)
            self._counters.refused += 1
            self._counters.dropped[refused.reason] += 1
            code = Code(refused.code)
            raise RequestFailed(code, refused.message, refused.hint, retryable=refused.retryable) from refused
        return True

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def _acknowledge(self, session: Session, frame: Acknowledge, now: float) -> bool:
        subscription = session.subscriptions.get(frame.subscription)
        if subscription is None:
            if frame.request:
                raise RequestFailed(Code.UNKNOWN, f"there is no subscription {frame.subscription}")
            return False  # it ended while the acknowledgement was on its way
        durable = subscription.durable
        if durable is None:
            tokens = {p for p in frame.positions if p in subscription.awaited}
            tokens |= {token for token in subscription.awaited if token <= frame.up_to}
            subscription.awaited -= tokens
            for token in sorted(tokens):
                self._confirmations.acknowledge((subscription.number, token))
            return True
        for position in durable.settle(frame.positions, frame.up_to, self._durables.sent_up_to(durable)):
            self._confirmations.acknowledge((durable.number, position))
        self._durables.touch(durable, now, WaitingRequest(session.id, frame.request) if frame.request else None)
        self._durable_delivery.pump(durable, now)
        return False

    # --- advertisements -----------------------------------------------------------------------------------------------

    def _advertise(self, session: Session, frame: Advertise, now: float) -> bool:
        filter = _usable(frame.filter)
        if filter.system:
            message = "names that begin with $ are reserved for events of brokers"
            raise RequestFailed(Code.NOT_ALLOWED, message, "choose other names")
        _permitted(filter, session.principal.publish)
        known = session.advertisements.get(frame.advertisement)
        if known is None and len(session.advertisements) >= self._settings.current.session_advertisements_max:
            raise RequestFailed(Code.LIMIT, f"{len(session.advertisements)} advertisements are open in this session")
        number = self._index.new_number()
        advertisement = ClientAdvertisement(number, frame.advertisement, session, filter, frame.rate)
        advertisement.matching = known.matching if known is not None else False
        session.advertisements[advertisement.id] = advertisement
        self._index.advertise(advertisement)
        if known is not None:  # after its replacement: no event is lost between them
            self._index.unadvertise(known)
        return self._install_waits.answer_when_advertised(number, (session.id, frame.request))

    def _unadvertise(self, session: Session, frame: Unadvertise, now: float) -> bool:
        advertisement = session.advertisements.pop(frame.advertisement, None)
        if advertisement is None:
            raise RequestFailed(Code.UNKNOWN, f"there is no advertisement {frame.advertisement}")
        self._index.unadvertise(advertisement)
        return True


def _subscribable(terms: Subscribe, principal: Principal) -> Filter:
    """Return the filter of a subscription. One that matches events of brokers needs a rule that allows it."""
    filter = _usable(terms.filter)
    if not filter.system:
        _permitted(filter, principal.subscribe)
        return filter
    hint = 'it names $ attributes, which only events of brokers have: a rule has to allow that, like "has($kind)"'
    _permitted(filter, principal.system, hint)
    if terms.durable:
        raise RequestFailed(Code.NOT_ALLOWED, "events of brokers are in no log: it cannot be durable")
    return filter


def _permitted(filter: Filter, rules: Rules, hint: str = "") -> None:
    """Raise RequestFailed if the rules permit no event that a filter matches."""
    if rules is not ALL and not rules.may_permit(filter):
        raise RequestFailed(Code.NOT_ALLOWED, "no rule permits this client any event of that filter", hint)


def _usable(text: str) -> Filter:
    """Parse a filter. Raise RequestFailed if it cannot be indexed, or no event can match it."""
    try:
        filter = parse(text)
        filter.check_satisfiable()
    except FilterError as error:
        raise RequestFailed(Code.FILTER, error.placed, error.hint) from None
    return filter
