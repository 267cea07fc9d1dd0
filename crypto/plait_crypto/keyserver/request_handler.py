"""The desk: one request in, one answer and one record for the audit log out. No I/O.

Whoever it cannot tell from a stranger gets one answer, `denied`, whatever the reason; the audit log has the reason.
A revoked holder gets nothing more, and the authority by itself issues it no keys of a later epoch.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from plait_core import Randomness

from ..authority import Authority
from ..errors import KeyRefused, SealError, SealInvalid
from .limits import ISSUES_BURST, ISSUES_PER_S, STRANGER_REQUESTS_BURST, STRANGER_REQUESTS_PER_S
from .messages import Enrol, IssueKeys, Refusal, RequestInvalid, ShowRealm, read_request, reply_line
from .policy import Holder, Policy
from .rate_limit import TokenBuckets


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known of who asks."""

    address: str
    holder: str = ""
    """The name in its certificate, which this server's authority has signed; empty without one."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the audit log: never a key, a token or anything that they could be guessed from."""

    at_us: int
    address: str
    holder: str
    asked: str
    outcome: str
    details: Mapping[str, Any]

    def line(self) -> dict[str, Any]:
        """What is written."""
        return {
            "at_us": self.at_us,
            "address": self.address,
            "holder": self.holder,
            "asked": self.asked,
            "outcome": self.outcome,
            **self.details,
        }


class Registry(Protocol):
    """What outlives a process: who is enrolled."""

    def redeem(self, token: str, now_us: int) -> str | None:
        """The holder that a token was made for; it is used up, for good, before this returns."""
        ...

    def certify(self, holder: str, request: str, now_us: int) -> str:
        """A certificate for a holder's request, PEM; SealInvalid if it is none."""
        ...


class RequestHandler:
    """Answers requests. Not for several threads at once."""

    def __init__(self, authority: Authority, registry: Registry, policy: Policy, revoked: Mapping[str, int]) -> None:
        self._authority = authority
        self._registry = registry
        self._policy = policy
        self._revoked: set[str] = set()
        self._holders = TokenBuckets(ISSUES_PER_S, ISSUES_BURST)
        self._strangers = TokenBuckets(STRANGER_REQUESTS_PER_S, STRANGER_REQUESTS_BURST)
        self.use(policy, revoked)

    def use(self, policy: Policy, revoked: Mapping[str, int]) -> None:
        """From now on decide by these: holders revoked, and when. Nobody's revocation is ever forgotten."""
        self._policy = policy
        for holder, at_us in revoked.items():
            if holder not in self._revoked:
                self._authority.revoke(holder, at_us)
                self._revoked.add(holder)

    def answer(self, caller: Caller, line: bytes, now_us: int, randomness: Randomness) -> tuple[bytes, Record]:
        """The line that answers, and the record that is to be written before it goes out."""
        asked, holder, details = "nothing", caller.holder, dict[str, Any]()
        try:
            ask = read_request(line)
            asked = type(ask).__name__
            self._keep_pace(caller, now_us)
            match ask:
                case ShowRealm():
                    reply = self._realm(now_us)
                case Enrol():
                    holder, reply = self._enrol(ask, now_us)
                case IssueKeys():
                    details = _described(ask)
                    reply = self._issue(ask, self._known(caller), now_us, randomness)
                    details["keys"] = sha256(reply["keys"]).hexdigest()[:16]
                    reply = {**reply, "keys": b64encode(reply["keys"]).decode()}
        except (Refusal, RequestInvalid) as error:
            outcome = error.code if isinstance(error, Refusal) else "invalid"
            details["why"] = error.message[:200]
            shown = Refusal("denied", "denied") if outcome == "denied" else error
            return reply_line(shown), Record(now_us, caller.address, holder, asked, outcome, details)
        return reply_line(reply), Record(now_us, caller.address, holder, asked, "granted", details)

    def _keep_pace(self, caller: Caller, now_us: int) -> None:
        paces, name = (self._holders, caller.holder) if caller.holder else (self._strangers, caller.address)
        if not paces.take(name, now_us):
            raise Refusal("too_often", "asked too often", hint="ask again in some seconds")

    @cached_property
    def _public(self) -> dict[str, Any]:
        """Encoded once: points cost."""
        realm = self._authority.realm
        return {"parameters": b64encode(realm.parameters.encode()).decode(), "schema": realm.schema.to_json()}

    def _realm(self, now_us: int) -> dict[str, Any]:
        epochs = self._authority.realm.schema.epochs.issued_at(now_us)
        return {**self._public, "now_us": now_us, "epochs": list(epochs)}

    def _enrol(self, ask: Enrol, now_us: int) -> tuple[str, dict[str, Any]]:
        holder = self._registry.redeem(ask.token, now_us)
        if holder is None:
            raise Refusal("denied", "no such token, or it was used, or it is too old")
        self._check_known(holder)
        try:
            return holder, {"holder": holder, "certificate": self._registry.certify(holder, ask.request, now_us)}
        except SealInvalid as error:
            raise Refusal("invalid", error.message, hint=error.hint) from None

    def _known(self, caller: Caller) -> Holder:
        if not caller.holder:
            raise Refusal("denied", "no certificate")
        return self._check_known(caller.holder)

    def _check_known(self, name: str) -> Holder:
        holder = self._policy.holders.get(name)
        if holder is None:
            raise Refusal("denied", "not in the policy")
        if name in self._revoked:
            raise Refusal("denied", "revoked")
        return holder

    def _issue(self, ask: IssueKeys, holder: Holder, now_us: int, randomness: Randomness) -> dict[str, Any]:
        if not holder.may(ask.role, ask.filter):
            raise Refusal("denied", "no filter of the policy covers what is asked")
        epochs = self._authority.realm.schema.epochs.issued_at(now_us)
        if ask.epoch not in epochs:
            hint = f"issued now: {', '.join(map(str, epochs))}"
            raise Refusal("epoch", f"no keys for epoch {ask.epoch} now", hint=hint)
        try:
            if ask.role == "subscriber":
                return {"keys": self._subscriber(ask, holder, now_us, randomness), "epoch": ask.epoch}
            publisher = holder.publisher_id(ask.instance)
            encoded = self._publisher(ask, holder, now_us, randomness)
            return {"keys": encoded, "epoch": ask.epoch, "publisher": publisher}
        except KeyRefused as error:
            raise Refusal("denied", error.message) from None
        except SealError as error:
            raise Refusal("invalid", error.message, hint=error.hint) from None

    def _subscriber(self, ask: IssueKeys, holder: Holder, now_us: int, randomness: Randomness) -> bytes:
        keys = self._authority.subscriber_keys(
            holder.name, ask.filter, epoch=ask.epoch, now_us=now_us, randomness=randomness, slots=ask.slots
        )
        return keys.encode(self._authority.realm.parameters.groups)

    def _publisher(self, ask: IssueKeys, holder: Holder, now_us: int, randomness: Randomness) -> bytes:
        keys = self._authority.publisher_keys(
            holder.name,
            holder.publisher_id(ask.instance),
            ask.filter,
            epoch=ask.epoch,
            now_us=now_us,
            randomness=randomness,
            slots=ask.slots,
        )
        return keys.encode(self._authority.realm.parameters.groups)


def _described(ask: IssueKeys) -> dict[str, Any]:
    return {"role": ask.role, "filter": ask.filter.text, "epoch": ask.epoch, "instance": ask.instance}
