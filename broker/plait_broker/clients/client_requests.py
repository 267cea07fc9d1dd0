"""What clients ask for beside publishing: subscriptions, advertisements, acknowledgements; answered Done or Failed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from plait_core.errors import FilterError
from plait_core.filters import Filter, parse
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.wire import Confirm, ControlFrame, Publish
from plait_core.wire.frame_types.session_frames import (
    Acknowledge,
    Advertise,
    Code,
    Done,
    Failed,
    Full,
    Notice,
    NoticeKind,
    Start,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from plait_core.wire.frame_types.trace_frames import Trace

from ..counters import Counters
from ..drop_reasons import DropReason
from ..pipeline.pipeline import EventPipeline, PublishRefused
from ..pipeline.subscription_index import SubscriptionIndex
from ..settings import BrokerSettings
from ..tracing.tracing import Tracing
from .access import Principal, Rules
from .confirmations import Confirmations
from .delivery import Deliveries
from .delivery_queue import DeliveryQueue
from .durable_subscriptions import DurableSubscription, DurableSubscriptions, WaitingRequest
from .sessions import ClientAdvertisement, Session
from .subscriptions import Subscription

_F = TypeVar("_F", bound=ControlFrame)


class RequestFailed(Exception):
    """A request that is not carried out."""

    def __init__(self, code: Code, message: str, hint: str = "", *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message[:CLOSE_TEXT_MAX]
        self.hint = hint[:CLOSE_TEXT_MAX]
        self.retryable = retryable


class ClientRequests:
    """Carries out requests of sessions."""

    def __init__(
        self,
        settings: BrokerSettings,
        counters: Counters,
        interest: SubscriptionIndex,
        deliveries: Deliveries,
        durables: DurableSubscriptions,
        confirmations: Confirmations,
        publishing: EventPipeline,
        tracing: Tracing,
    ) -> None:
        self.settings = settings
        self._counters = counters
        self._interest = interest
        self._deliveries = deliveries
        self._durables = durables
        self._confirmations = confirmations
        self._publishing = publishing
        self._tracing = tracing

    def handle(self, session: Session, frame: ControlFrame, now: float) -> bool:
        """Carries out a request; False when the frame is none."""
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
            case Trace(request=request):
                self._answered(session, request, self._trace, frame, now)
            case _:
                return False
        return True

    def _answered(
        self, session: Session, request: int, carry_out: Callable[[Session, _F, float], bool], frame: _F, now: float
    ) -> None:
        """Done at once when `carry_out` says so, later when it does not; Failed when it raises."""
        assert session.link is not None, "a request comes over a connection"
        try:
            if carry_out(session, frame, now) and request:
                session.link.send(Done(request), behind=isinstance(frame, Unsubscribe))
        except RequestFailed as failed:
            self._counters.rejected[failed.code] += 1
            session.link.send(Failed(request, failed.code, failed.message, failed.hint, failed.retryable))

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _subscribe(self, session: Session, terms: Subscribe, now: float) -> bool:
        filter = _subscribable(terms, session.principal)
        known = session.subscriptions.get(terms.subscription)
        if known is not None:
            return self._change(session, known, terms, filter, now)
        if len(session.subscriptions) >= self.settings.session_subscriptions_max:
            raise RequestFailed(Code.LIMIT, f"{len(session.subscriptions)} subscriptions are open in this session")
        if len(self._interest) >= self.settings.subscriptions_max:
            raise RequestFailed(Code.LIMIT, "the broker has as many subscriptions as it may", retryable=True)
        if terms.durable:
            return self._subscribe_durable(session, terms, filter, now)
        subscription = Subscription(self._interest.new_number(), session, terms, filter, self._outbox(terms))
        subscription.since = now
        session.subscriptions[subscription.id] = subscription
        self._interest.add(subscription)
        return self._installed(subscription.number, session, terms)

    def _installed(self, number: int, session: Session, terms: Subscribe, *, stored: bool = True) -> bool:
        """Whether every publisher's broker knows of a subscription; else it is answered when they do."""
        joining, asked = self._interest.joining, (session.id, terms.request)
        return joining is None or joining.answer_when_installed(number, asked, stored=stored)

    def _change(self, session: Session, known: Subscription, terms: Subscribe, filter: Filter, now: float) -> bool:
        """Another filter or other terms: in one step, so that no event falls between the old and the new."""
        durable = known.durable
        if known.ending is not None:
            raise RequestFailed(Code.TAKEN, f"subscription {known.id} is still being drained", retryable=True)
        if terms.durable != known.terms.durable:
            raise RequestFailed(Code.TAKEN, "a subscription cannot become durable, or another one", "open a new one")
        before, filter_before = known.terms, known.filter
        self._set_terms(known, terms, filter, now)
        if durable is None:
            return self._installed(known.number, session, terms)

        def undo(now: float) -> None:
            if _is_open(known) and known.terms is terms:
                self._set_terms(known, before, filter_before, now)

        self._installed(durable.number, session, terms, stored=False)
        self._durables.touch(durable, now, WaitingRequest(session.id, terms.request, undo))
        return False

    def _set_terms(self, known: Subscription, terms: Subscribe, filter: Filter, now: float) -> None:
        bound_changes = known.durable is None and terms.within_us != known.within_us  # publishers' brokers know it
        known.terms = terms
        known.within_us = terms.within_us
        known.outbox.items_max, known.outbox.bytes_max, known.outbox.full = self._bounds(terms)
        party = known.durable if known.durable is not None else known
        if filter != known.filter or terms.routing != party.routing or bound_changes:
            party.since = party.since if filter == known.filter and terms.routing == party.routing else now
            self._interest.change(party, filter, terms.routing)
            known.filter = filter

    def _subscribe_durable(self, session: Session, terms: Subscribe, filter: Filter, now: float) -> bool:
        owner = session.principal.name
        durable = self._durables.find(owner, terms.durable)
        if durable is None:
            durable = self._new_durable(owner, terms, filter)
            durable.since = now
        elif durable.subscription is not None:
            raise RequestFailed(Code.TAKEN, f"durable subscription {terms.durable!r} is in use", retryable=True)
        filter_before = durable.filter
        if durable.filter != filter or durable.routing != terms.routing:
            durable.since = now if durable.filter != filter else durable.since
            self._interest.change(durable, filter, terms.routing)
        subscription = Subscription(durable.number, session, terms, filter, self._outbox(terms))
        subscription.durable = durable
        session.subscriptions[subscription.id] = subscription
        session.durables.append(durable)
        self._durables.attach(durable, subscription)
        self._installed(durable.number, session, terms, stored=False)
        undo = partial(self._undo_durable, subscription, durable, filter_before)
        self._durables.touch(durable, now, WaitingRequest(session.id, terms.request, undo))
        self._publishing.pump(durable, now)
        return False

    def _undo_durable(
        self, subscription: Subscription, durable: DurableSubscription, filter_before: Filter, now: float
    ) -> None:
        """It could not be stored: what the request opened ends, and if it is nowhere in the log it never was."""
        if _is_open(subscription):
            self._end_durable(subscription, durable, now)
        known = self._durables.find(durable.owner, durable.name) is durable
        if not known or durable.subscription is not None:
            return  # forgotten, or taken up by another since, whose own request decides
        if not durable.kept:
            self._interest.remove(durable)
            self._durables.withdraw(durable, now)
        elif durable.filter != filter_before:
            self._interest.change(durable, filter_before, durable.routing)

    def _new_durable(self, owner: str, terms: Subscribe, filter: Filter) -> DurableSubscription:
        if len(self._durables) >= self.settings.durables_max:
            raise RequestFailed(Code.LIMIT, "the broker has as many durable subscriptions as it may")
        acknowledged = {
            Start.NEW: self._durables.next_position - 1,
            Start.POSITION: max(0, min(terms.start_at, self._durables.next_position) - 1),
        }.get(terms.start, 0)
        durable = DurableSubscription(self._interest.new_number(), owner, terms.durable, filter, acknowledged)
        durable.since_us = terms.start_at if terms.start is Start.TIME else 0
        durable.routing = terms.routing
        self._durables.add(durable)
        self._interest.add(durable)
        return durable

    def _unsubscribe(self, session: Session, frame: Unsubscribe, now: float) -> bool:
        subscription = session.subscriptions.get(frame.subscription)
        if subscription is None or subscription.ending is not None:
            raise RequestFailed(Code.UNKNOWN, f"there is no subscription {frame.subscription}")
        durable = subscription.durable
        if durable is not None:
            self._end_durable(subscription, durable, now)
            waiting = WaitingRequest(session.id, frame.request)
            if frame.forget:
                self._interest.remove(durable)
                self._durables.forget(durable, waiting)
            else:
                self._durables.touch(durable, now, waiting)
            return False
        self._interest.remove(subscription)
        if frame.drain and subscription.outbox:
            subscription.ending = frame.request
            return False
        self.end(subscription, DropReason.GONE, now, indexed=False)
        return True

    def end(self, subscription: Subscription, reason: DropReason, now: float, *, indexed: bool = True) -> None:
        """A subscription is over; what was queued for it is dropped for that reason."""
        durable = subscription.durable
        if durable is not None:
            self._end_durable(subscription, durable, now)
            return
        if indexed and subscription.ending is None:
            self._interest.remove(subscription)
        self._deliveries.drop_queued(subscription, reason, now)
        for token in sorted(subscription.awaited):
            self._confirmations.fail((subscription.number, token), reason)
        del subscription.session.subscriptions[subscription.id]

    def close_full(self, subscription: Subscription, reason: DropReason, now: float) -> None:
        """A subscription whose policy ends it when its queue is full."""
        subscription.session.tell(Notice(subscription.id, NoticeKind.CLOSED, reason), behind=True)
        self.end(subscription, reason, now)

    def drained(self, subscription: Subscription, now: float) -> None:
        """A subscription that was ended has delivered its last."""
        request, link = subscription.ending, subscription.session.link
        self.end(subscription, DropReason.GONE, now)
        if link is not None and request:
            link.send(Done(request), behind=True)

    def _end_durable(self, subscription: Subscription, durable: DurableSubscription, now: float) -> None:
        self._deliveries.drop_queued(subscription, DropReason.GONE, now)
        self._durables.detach(durable, now)
        subscription.session.durables.remove(durable)
        del subscription.session.subscriptions[subscription.id]

    def _outbox(self, terms: Subscribe) -> DeliveryQueue:
        return DeliveryQueue(*self._bounds(terms), self._interest.waiting)

    def _bounds(self, terms: Subscribe) -> tuple[int, int, Full]:
        items_max = min(terms.items_max, self.settings.outbox_items_max)
        return items_max, min(terms.bytes_max, self.settings.outbox_bytes_max), terms.full

    # --- marked events ------------------------------------------------------------------------------------------------

    def _trace(self, session: Session, frame: Trace, now: float) -> bool:
        """Publish an event like any other, with its steps told."""
        event, tracing = Publish(Confirm.NONE, frame.block), self._tracing
        if not tracing.mark(session.id, event.id, now):
            raise RequestFailed(Code.LIMIT, "too many events are traced here", "try again in a second", retryable=True)
        try:
            self._publishing.publish(session, event, now)
        except PublishRefused as refused:
            tracing.unmark(event.id)
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
        self._publishing.pump(durable, now)
        return False

    # --- advertisements -----------------------------------------------------------------------------------------------

    def _advertise(self, session: Session, frame: Advertise, now: float) -> bool:
        filter = _usable(frame.filter)
        if filter.system:
            raise RequestFailed(Code.NOT_ALLOWED, "what begins with $ is said by brokers alone", "choose other names")
        _permitted(filter, session.principal.publish)
        known = session.advertisements.get(frame.advertisement)
        if known is None and len(session.advertisements) >= self.settings.session_advertisements_max:
            raise RequestFailed(Code.LIMIT, f"{len(session.advertisements)} advertisements are open in this session")
        number = self._interest.new_number()
        advertisement = ClientAdvertisement(number, frame.advertisement, session, filter, frame.rate)
        advertisement.matching = known.matching if known is not None else False
        session.advertisements[advertisement.id] = advertisement
        self._interest.advertise(advertisement)
        if known is not None:  # after what takes its place: no event falls between them
            self._interest.unadvertise(known)
        joining = self._interest.joining
        return joining is None or joining.answer_when_offered(number, (session.id, frame.request))

    def _unadvertise(self, session: Session, frame: Unadvertise, now: float) -> bool:
        advertisement = session.advertisements.pop(frame.advertisement, None)
        if advertisement is None:
            raise RequestFailed(Code.UNKNOWN, f"there is no advertisement {frame.advertisement}")
        self._interest.unadvertise(advertisement)
        return True


def _is_open(subscription: Subscription) -> bool:
    return subscription.session.subscriptions.get(subscription.id) is subscription


def _subscribable(terms: Subscribe, principal: Principal) -> Filter:
    """The filter of a subscription; one to what brokers record needs a rule that allows that."""
    filter = _usable(terms.filter)
    if not filter.system:
        _permitted(filter, principal.subscribe)
        return filter
    hint = 'it names $ attributes, which are what brokers record: a rule has to allow that, like "has($kind)"'
    _permitted(filter, principal.system, hint)
    if terms.durable:
        raise RequestFailed(Code.NOT_ALLOWED, "what brokers record is in no log: it cannot be durable")
    return filter


def _permitted(filter: Filter, rules: Rules, hint: str = "") -> None:
    """RequestFailed when the rules leave nothing of a filter."""
    if not rules.may_permit(filter):
        raise RequestFailed(Code.NOT_ALLOWED, "none of that is permitted to this client", hint)


def _usable(text: str) -> Filter:
    """The filter, when it can be used."""
    try:
        filter = parse(text)
        filter.normal  # noqa: B018 - raises what indexing would
    except FilterError as error:
        raise RequestFailed(Code.FILTER, str(error), error.hint) from None
    return filter
