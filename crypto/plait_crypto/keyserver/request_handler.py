"""Answer one request, with one record for the audit log. No I/O.

A refusal names the rule that refused, by what the caller may know: a holder learns its own filters of the policy,
nothing of other holders, and not whether it is revoked or missing in the policy. Of a token nobody learns whether it is
unknown, used or too old. The audit log has the exact reason. A revoked holder gets nothing more. Independently, the
authority issues it no keys of a later epoch.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from plait_core import Randomness
from plait_core.rate_limit import TokenBuckets
from plait_core.values import Json

from ..authority import Authority
from ..errors import KeyRefused, SealError, SealInvalid
from .limits import (
    CALLERS_KEPT,
    GRANT_CHARS_SHOWN,
    GRANTS_SHOWN,
    ISSUES_BURST,
    ISSUES_PER_S,
    STRANGER_REQUESTS_BURST,
    STRANGER_REQUESTS_PER_S,
)
from .messages import Enrol, IssueKeys, Refusal, RequestInvalid, ShowRealm, read_request, reply_line
from .policy import Holder, Policy


@dataclass(frozen=True, slots=True)
class Caller:
    """The known facts about the sender of a request."""

    address: str
    holder: str = ""
    """The name in its certificate, which this server's authority signed; empty without one."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the audit log. It never contains a key, a token, or data from which they could be guessed."""

    at_us: int
    address: str
    holder: str
    asked: str
    outcome: str
    details: Mapping[str, Any]

    def line(self) -> Json:
        """Return the JSON fields of the line."""
        return {
            "at_us": self.at_us,
            "address": self.address,
            "holder": self.holder,
            "asked": self.asked,
            "outcome": self.outcome,
            **self.details,
        }


class Registry(Protocol):
    """The persistent state of enrolments."""

    def redeem(self, token: str, now_us: int) -> str | None:
        """Return the holder of a token. The token is durably used up before this returns."""
        ...

    def certify(self, holder: str, request: str, now_us: int) -> str:
        """Return a certificate for a holder's request, PEM; raise SealInvalid if the request is invalid."""
        ...


class RequestHandler:
    """Answer requests. Not thread-safe."""

    def __init__(self, authority: Authority, registry: Registry, policy: Policy, revoked: Mapping[str, int]) -> None:
        self._authority = authority
        self._registry = registry
        self._policy = policy
        self._revoked: set[str] = set()
        self._holders = TokenBuckets[str](ISSUES_PER_S / 1_000_000, ISSUES_BURST, CALLERS_KEPT)
        self._strangers = TokenBuckets[str](STRANGER_REQUESTS_PER_S / 1_000_000, STRANGER_REQUESTS_BURST, CALLERS_KEPT)
        self.use(policy, revoked)

    def use(self, policy: Policy, revoked: Mapping[str, int]) -> None:
        """Apply a policy and a map of revoked holders to the time of revocation. A revocation is never undone."""
        self._policy = policy
        for holder, at_us in revoked.items():
            if holder not in self._revoked:
                self._authority.revoke(holder, at_us)
                self._revoked.add(holder)

    def answer(self, caller: Caller, line: bytes, now_us: int, randomness: Randomness) -> tuple[bytes, Record]:
        """Return the reply, and the record to be written before the reply is sent."""
        requested, holder = "nothing", caller.holder
        details: Json = {}
        try:
            request = read_request(line)
            requested = type(request).__name__
            self._check_rate(caller, now_us)
            match request:
                case ShowRealm():
                    reply = self._realm(now_us)
                case Enrol():
                    holder, reply = self._enrol(request, now_us)
                case IssueKeys():
                    details = _described(request)
                    reply = self._issue(request, self._known(caller), now_us, randomness)
                    details["keys"] = sha256(reply["keys"]).hexdigest()[:16]
                    reply = {**reply, "keys": b64encode(reply["keys"]).decode()}
        except (Refusal, RequestInvalid) as error:
            outcome = error.code if isinstance(error, Refusal) else "invalid"
            details["why"] = (error.why if isinstance(error, Refusal) and error.why else error.message)[:200]
            return reply_line(error), Record(now_us, caller.address, holder, requested, outcome, details)
        return reply_line(reply), Record(now_us, caller.address, holder, requested, "granted", details)

    def _check_rate(self, caller: Caller, now_us: int) -> None:
        buckets, key = (self._holders, caller.holder) if caller.holder else (self._strangers, caller.address)
        if not buckets.take(key, now_us):
            raise Refusal("too_often", "too many requests", hint="try again in some seconds")

    @cached_property
    def _public(self) -> Json:
        """The encoded realm, computed once, because encoding points is expensive."""
        realm = self._authority.realm
        return {"parameters": b64encode(realm.parameters.encode()).decode(), "schema": realm.schema.to_json()}

    def _realm(self, now_us: int) -> Json:
        epochs = self._authority.realm.schema.epochs.issued_at(now_us)
        return {**self._public, "now_us": now_us, "epochs": list(epochs)}

    def _enrol(self, request: Enrol, now_us: int) -> tuple[str, Json]:
        holder = self._registry.redeem(request.token, now_us)
        if holder is None:
            hint = "each token enrols once, within a week: `plait keys enrol` at the server prints another"
            raise Refusal("denied", "the token is unknown, used or too old", hint=hint)
        self._check_known(holder)
        try:
            return holder, {"holder": holder, "certificate": self._registry.certify(holder, request.request, now_us)}
        except SealInvalid as error:
            raise Refusal("invalid", error.message, hint=error.hint) from None

    def _known(self, caller: Caller) -> Holder:
        if not caller.holder:
            hint = "enrol with a token: `plait keys join`, or `plait keys issue --token-file`"
            raise Refusal("denied", "keys are only for holders with a certificate of this server", hint=hint)
        return self._check_known(caller.holder)

    def _check_known(self, name: str) -> Holder:
        holder = self._policy.holders.get(name)
        if holder is None or name in self._revoked:
            raise Refusal(
                "denied",
                f"{name[:80]} is revoked, or not in the policy",
                hint="ask who runs the key server; its audit log has the reason",
                why="revoked" if name in self._revoked else "not in the policy",
            )
        return holder

    def _issue(self, request: IssueKeys, holder: Holder, now_us: int, randomness: Randomness) -> Json:
        if not holder.may(request.role, request.filter):
            raise _outside(request, holder)
        epochs = self._authority.realm.schema.epochs.issued_at(now_us)
        if request.epoch not in epochs:
            hint = f"issued now: {', '.join(map(str, epochs))}"
            raise Refusal("epoch", f"no keys for epoch {request.epoch} now", hint=hint)
        try:
            if request.role == "subscriber":
                return {"keys": self._subscriber(request, holder, now_us, randomness), "epoch": request.epoch}
            publisher = holder.publisher_id(request.instance)
            encoded = self._publisher(request, holder, now_us, randomness)
            return {"keys": encoded, "epoch": request.epoch, "publisher": publisher}
        except KeyRefused as error:
            raise Refusal("denied", error.message) from None
        except SealError as error:
            raise Refusal("invalid", error.message, hint=error.hint) from None

    def _subscriber(self, request: IssueKeys, holder: Holder, now_us: int, randomness: Randomness) -> bytes:
        keys = self._authority.subscriber_keys(
            holder.name, request.filter, epoch=request.epoch, now_us=now_us, randomness=randomness, slots=request.slots
        )
        return keys.encode(self._authority.realm.parameters.groups)

    def _publisher(self, request: IssueKeys, holder: Holder, now_us: int, randomness: Randomness) -> bytes:
        keys = self._authority.publisher_keys(
            holder.name,
            holder.publisher_id(request.instance),
            request.filter,
            epoch=request.epoch,
            now_us=now_us,
            randomness=randomness,
            slots=request.slots,
        )
        return keys.encode(self._authority.realm.parameters.groups)


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
    return {
        "role": request.role,
        "filter": request.filter.text,
        "epoch": request.epoch,
        "instance": request.instance,
    }
