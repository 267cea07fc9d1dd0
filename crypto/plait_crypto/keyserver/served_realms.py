"""The realms that a key server serves: one, and after a rotation two for a while.

    rotated            begins                   ends
    |--- one overlap ---|------ one overlap -----|
    old realm: events are sealed in it ...       keys are issued until here, for what is still on its way
    new realm: keys are issued ...               events are sealed in it

So all members have keys of the new realm before the first event is sealed in it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from plait_core.values import Json

from ..authority import Authority
from .policy import Policy


@dataclass(frozen=True)
class Decisions:
    """The decisions of an operator, which may change at any time."""

    policy: Policy
    revoked: Mapping[str, int] = field(default_factory=dict)
    """Revoked holders, with the time of their revocation."""
    certificates: frozenset[str] = frozenset()
    """Serial numbers of revoked certificates, in hexadecimal without leading zeros."""
    epoch_ends: tuple[int, ...] = ()
    """Times at which it was decided to end the present epoch. It ends one overlap later, for members to learn of it."""


@dataclass(frozen=True, eq=False)
class ServedRealm:
    """A realm, and the time in which it is served."""

    authority: Authority
    decided_us: int = 0
    """When it was drawn. Earlier decisions to end an epoch do not concern it."""
    begins_us: int = 0
    """Events are sealed in it from here on."""
    ends_us: int | None = None
    """Its keys are issued until then. None: it has no successor."""

    @cached_property
    def digest(self) -> str:
        """Its digest, in hexadecimal."""
        return self.authority.realm.digest.hex()

    @cached_property
    def _public(self) -> Json:
        """The encoded realm, computed once, because encoding points is expensive."""
        realm = self.authority.realm
        return {"parameters": b64encode(realm.parameters.encode()).decode(), "schema": realm.schema.to_json()}

    def served_at(self, now_us: int) -> bool:
        """Return whether its keys are issued at a time."""
        return self.ends_us is None or now_us < self.ends_us

    def end_epochs(self, decided: Sequence[int]) -> None:
        """Apply decisions to end the epoch of their time early: it ends one overlap after the decision."""
        realm = self.authority.realm
        epochs = realm.schema.epochs
        since_us = max(self.decided_us, epochs.start_us)
        realm.end_epochs(at_us + epochs.overlap_us for at_us in decided if at_us > since_us)

    def describe(self, known: Sequence[str]) -> Json:
        """Return what a member needs. Parameters and schema are left out if it knows them."""
        times = {"decided_us": self.decided_us, "begins_us": self.begins_us, "ends_us": self.ends_us}
        ends = list(self.authority.realm.schema.epochs.early_ends_us)
        return {"digest": self.digest, **times, "early_ends_us": ends, **({} if self.digest in known else self._public)}
