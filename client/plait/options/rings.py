"""Key rings, as the SDK uses them. `plait_keyserver.Membership` makes them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from plait_core import Attributes

from .settings import DepositKind

if TYPE_CHECKING:
    from plait_crypto import Draft, Opened, Realm


class SealingSession(Protocol):
    """A sealing session that an event can be sealed in: the interface of RingSession."""

    @property
    def realm(self) -> Realm: ...
    def seal(self, draft: Draft) -> tuple[Attributes, bytes] | None: ...
    def end(self) -> None: ...


class Sealing(Protocol):
    """A key ring that seals: the interface of PublisherRing."""

    @property
    def realm(self) -> Realm: ...
    async def session(self, draft: Draft) -> SealingSession: ...


class Unsealing(Protocol):
    """A key ring that opens: the interface of SubscriberRing."""

    @property
    def realms(self) -> tuple[Realm, ...]: ...
    @property
    def watchers(self) -> list[Callable[[], None]]: ...
    def deposit(self, kind: DepositKind = "exact") -> bytes: ...
    def keep_record(self, name: str) -> None: ...
    def settle(self, publisher: int, session: bytes, number: int, until_us: int) -> None: ...
    def forget_event(self, session: bytes, number: int) -> None: ...
    async def open(self, clear: Attributes, payload: bytes, bound: bytes = b"") -> Opened: ...


@dataclass(frozen=True, eq=False)
class Seal:
    """The key ring that seals an event, and the attributes to hide from brokers.

    `hidden=None` hides all but those that the schema declares clear. `session=False` gives each event a key of its own:
    nobody on its way then sees which events have equal values, and brokers see only which subscriptions they match. It
    costs milliseconds an event at publisher, brokers and reader, and nobody notices a withheld one.
    """

    ring: Sealing
    hidden: Collection[str] | None = None
    session: bool = True
