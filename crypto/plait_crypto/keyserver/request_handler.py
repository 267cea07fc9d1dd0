"""Answer one request in short steps, with one record for the audit log. No I/O.

A refusal names the rule that refused, by what the caller may know: a holder learns its own filters of the policy,
nothing of other holders, and not whether it is revoked or missing in the policy. Of a token nobody learns whether it is
unknown, used or too old. The audit log has the exact reason. A revoked holder gets nothing more. Independently, the
authority issues it no keys of a later epoch.

Checks are ordered by their cost: certificate, then policy and revocation, then the filter, then the budget of
credentials, then the issue itself, which takes a step for each credential.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple, Protocol

from plait_core import Randomness
from plait_core.rate_limit import TokenBuckets
from plait_core.values import Json

from ..attributes.schema import Box
from ..authority import Steps
from ..errors import KeyRefused, SealError, SealInvalid
from ..keys import PublisherKeys, SubscriberKeys
from .limits import CALLERS_KEPT, CREDENTIALS_BURST, CREDENTIALS_PER_S, GRANT_CHARS_SHOWN, GRANTS_SHOWN
from .messages import (
    Enrol,
    IssueKeys,
    Refusal,
    RequestInvalid,
    ShowRealm,
    read_line,
    read_request,
    reply_line,
    retry_after_s,
)
from .policy import Holder
from .records import Caller, Record
from .served_realms import Decisions, ServedRealm


class Certified(NamedTuple):
    """A certificate, PEM, with its serial number in hexadecimal."""

    certificate: str
    serial: str


class Answer(NamedTuple):
    """A reply, and the record that is written before the reply is sent."""

    reply: bytes
    record: Record


class Registry(Protocol):
    """The persistent state of enrolments."""

    def redeem(self, token: str, now_us: int) -> str | None:
        """Return the holder of a token. The token is durably used up before this returns."""
        ...

    def certify(self, holder: str, request: str, now_us: int) -> Certified:
        """Return a certificate for a holder's request; raise SealInvalid if the request is invalid."""
        ...


@dataclass
class _Progress:
    """A request that is being answered: the fields of its record."""

    caller: Caller
    now_us: int
    randomness: Randomness
    asked: str = "nothing"
    details: Json = field(default_factory=dict)
    counted: bool = False

    def record(self, outcome: str) -> Record:
        """Return the record. It is only counted if nothing was parsed or changed, or a stranger was refused."""
        counted = self.counted or (not self.caller.holder and outcome != "granted")
        return Record(self.now_us, self.caller, self.asked, outcome, self.details, counted)


class RequestHandler:
    """Answer requests. Not thread-safe. Requests in progress may be interleaved."""

    def __init__(self, realms: Sequence[ServedRealm], registry: Registry, decisions: Decisions) -> None:
        assert realms, "at least one realm"
        self._realms = tuple(realms)
        self._registry = registry
        self._credentials = TokenBuckets[str](CREDENTIALS_PER_S / 1_000_000, CREDENTIALS_BURST, CALLERS_KEPT)
        self._revoked: set[str] = set()
        self._decisions = decisions
        self._apply(decisions)

    def use(self, decisions: Decisions) -> None:
        """Apply decisions. A revocation is never undone, nor is an early end of an epoch."""
        if decisions is not self._decisions:
            self._apply(decisions)

    def _apply(self, decisions: Decisions) -> None:
        self._decisions = decisions
        for realm in self._realms:
            realm.end_epochs(decisions.epoch_ends)
        for holder, at_us in decisions.revoked.items():
            if holder not in self._revoked:
                for realm in self._realms:
                    realm.authority.revoke(holder, at_us)
                self._revoked.add(holder)

    def answer(self, caller: Caller, line: bytes, now_us: int, randomness: Randomness) -> Steps[Answer]:
        """Answer a line. Between two steps another request may have its turn."""
        progress = _Progress(caller, now_us, randomness)
        try:
            reply = yield from self._reply(line, progress)
        except (Refusal, RequestInvalid) as error:
            outcome = error.code if isinstance(error, Refusal) else "invalid"
            why = (error.why if isinstance(error, Refusal) and error.why else error.message)[:200]
            progress.details["why"] = why
            progress.counted = isinstance(error, RequestInvalid)
            return Answer(reply_line(error), progress.record(outcome))
        return Answer(reply_line(reply), progress.record("granted"))

    def _reply(self, line: bytes, progress: _Progress) -> Steps[Json]:
        given, now_us = read_line(line), progress.now_us
        progress.asked = _RECORDED[given["ask"]]
        holder = None if given["ask"] == "enrol" else self._certified(progress.caller)
        match request := read_request(given):
            case ShowRealm():
                return self._show(request, progress)
            case Enrol():
                return self._enrol(request, progress)
        assert holder is not None
        progress.details |= _described(request)
        served = self._realm(request.realm, now_us)
        boxes = self._granted(request, holder, served, now_us)
        encoded = yield from self._issue(request, holder, served, boxes, progress.randomness)
        self._certified(progress.caller)  # the issue took a while
        progress.details |= {"keys": sha256(encoded).hexdigest()[:16], "credentials": _count(boxes)}
        publisher = {"publisher": holder.publisher_id(request.instance)} if request.role == "publisher" else {}
        return {"keys": b64encode(encoded).decode(), "epoch": request.epoch, **publisher}

    # --- callers ------------------------------------------------------------------------------------------------------

    def _certified(self, caller: Caller) -> Holder:
        if not caller.holder:
            hint = "enrol with a token: `plait keys join`, or `plait keys issue --token-file`"
            raise Refusal("denied", "only holders with a certificate of this server are answered", hint=hint)
        revoked = caller.certificate in self._decisions.certificates
        return self._known(caller.holder, "its certificate is revoked" if revoked else "")

    def _known(self, name: str, why: str = "") -> Holder:
        holder = self._decisions.policy.holders.get(name)
        if name in self._revoked:
            why = "revoked"
        elif holder is None:
            why = "not in the policy"
        if holder is None or why:
            hint = "ask who runs the key server; its audit log has the reason"
            raise Refusal("denied", f"{name[:80]} is revoked, or not in the policy", hint=hint, why=why)
        return holder

    def _enrol(self, request: Enrol, progress: _Progress) -> Json:
        holder = self._registry.redeem(request.token, progress.now_us)
        if holder is None:
            hint = "each token enrols once, within a week: `plait keys enrol` at the server prints another"
            raise Refusal("denied", "the token is unknown, used or too old", hint=hint)
        progress.caller = Caller(progress.caller.address, holder)
        self._known(holder)
        try:
            certified = self._registry.certify(holder, request.request, progress.now_us)
        except SealInvalid as error:
            raise Refusal("invalid", error.message, hint=error.hint) from None
        progress.caller = Caller(progress.caller.address, holder, certified.serial)
        return {"holder": holder, "certificate": certified.certificate}

    # --- realms -------------------------------------------------------------------------------------------------------

    def _served(self, now_us: int) -> list[ServedRealm]:
        return [each for each in self._realms if each.served_at(now_us)]

    def _show(self, request: ShowRealm, progress: _Progress) -> Json:
        served = self._served(progress.now_us)
        progress.counted = all(each.digest in request.known for each in served)
        epochs = self._present(progress.now_us).authority.realm.schema.epochs.issued_at(progress.now_us)
        described = [each.describe(request.known) for each in served]
        return {"realms": described, "epochs": list(epochs), "now_us": progress.now_us}

    def _present(self, now_us: int) -> ServedRealm:
        """Return the realm that events are sealed in now."""
        begun = [each for each in self._served(now_us) if each.begins_us <= now_us]
        return begun[-1] if begun else self._realms[0]

    def _realm(self, digest: str, now_us: int) -> ServedRealm:
        if not digest:
            return self._present(now_us)
        for each in self._served(now_us):
            if each.digest == digest:
                return each
        hint = "the master secret was rotated: ask for the realm again"
        raise Refusal("realm", f"no keys of realm {digest[:16]}", hint=hint)

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _granted(self, request: IssueKeys, holder: Holder, served: ServedRealm, now_us: int) -> tuple[Box, ...]:
        """Return the credentials to issue, within the policy, the epochs and the holder's budget."""
        if not holder.may(request.role, request.filter):
            raise _outside(request, holder)
        realm = served.authority.realm
        epochs = realm.schema.epochs.issued_at(now_us)
        if request.epoch not in epochs:
            hint = f"issued now: {', '.join(map(str, epochs))}"
            raise Refusal("epoch", f"no keys for epoch {request.epoch} now", hint=hint)
        try:
            served.authority.check(holder.name, request.epoch, now_us)
            boxes = realm.schema.boxes(request.filter, request.slots)
        except KeyRefused as error:
            raise Refusal("denied", error.message) from None
        except SealError as error:
            raise Refusal("invalid", error.message, hint=error.hint) from None
        wider = [realm.schema.wider(box, holder.coarse) for box in boxes] if holder.coarse else []
        self._charge(holder.name, _count([*boxes, *wider]), now_us)
        return boxes

    def _charge(self, holder: str, count: int, now_us: int) -> None:
        """Take credentials from the holder's budget."""
        if count > CREDENTIALS_BURST:
            hint = f"{CREDENTIALS_BURST} (CREDENTIALS_BURST) are allowed; ranges that end on coarser cells need fewer"
            raise Refusal("invalid", f"keys of {count} credentials", hint=hint)
        if not self._credentials.take(holder, now_us, count):
            retry_s = retry_after_s(self._credentials.wait(holder, now_us, count))
            hint = f"try again in {retry_s} s; each holder gets {CREDENTIALS_PER_S} a second"
            raise Refusal(
                "too_often", f"{count} credentials are more than you may have now", hint=hint, retry_s=retry_s
            )

    def _issue(
        self, request: IssueKeys, holder: Holder, served: ServedRealm, boxes: Sequence[Box], randomness: Randomness
    ) -> Steps[bytes]:
        authority = served.authority
        keys: PublisherKeys | SubscriberKeys
        if request.role == "subscriber":
            keys = yield from authority.subscriber_steps(boxes, request.epoch, randomness, holder.coarse)
        else:
            publisher = holder.publisher_id(request.instance)
            keys = yield from authority.publisher_steps(publisher, boxes, request.epoch, randomness)
        encoded = []
        for part in keys.parts(authority.realm.parameters.groups):
            encoded.append(part)
            yield
        return b"".join(encoded)


_RECORDED = {"realm": "ShowRealm", "keys": "IssueKeys", "enrol": "Enrol"}


def _count(boxes: Sequence[Box]) -> int:
    return sum(len(row) for box in boxes for row in box)


def _outside(request: IssueKeys, holder: Holder) -> Refusal:
    """Return the refusal of a filter that no filter of the holder covers. It lists only the holder's own filters."""
    rule = "subscribe" if request.role == "subscriber" else "publish"
    granted = [each.text for each in holder.granted(request.role)]
    listed = "; ".join(text[:GRANT_CHARS_SHOWN] for text in granted[:GRANTS_SHOWN])
    more = f"; and {len(granted) - GRANTS_SHOWN} more" if len(granted) > GRANTS_SHOWN else ""
    return Refusal(
        "denied",
        f"no filter under {rule!r} of {holder.name} in the policy covers the requested one",
        hint=f"{rule} of {holder.name}: {listed}{more}" if granted else f"{holder.name} has no filter under {rule!r}",
    )


def _described(request: IssueKeys) -> Json:
    realm = {"realm": request.realm[:16]} if request.realm else {}
    return {
        **realm,
        "role": request.role,
        "filter": request.filter.text,
        "epoch": request.epoch,
        "instance": request.instance,
    }
