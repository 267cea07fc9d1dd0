"""A small world of sealed events for tests: an authority with a schema, publishers, readers. Same seed, same world."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from random import Random

from plait_core import parse
from plait_core.space import FloatRange, IntRange
from plait_crypto import (
    Authority,
    Draft,
    Epochs,
    Keyring,
    Numbers,
    OneOf,
    Opened,
    Realm,
    Schema,
    Sealed,
    Sealer,
    SubscriberKeys,
    Texts,
)
from plait_crypto.hazmat import ArkworksGroups, Groups, MasterSecret, Parameters, set_up

HOUR_US = 3_600_000_000
NOON_US = 12 * HOUR_US
EPOCHS = Epochs(start_us=0, length_us=24 * HOUR_US, overlap_us=HOUR_US)
PLACES = ("Stuttgart", "London", "Paris")


@functools.cache
def foundations(seed: int = 1) -> tuple[Parameters, MasterSecret]:
    """Return parameters and their secret, made once for each seed."""
    return set_up(ArkworksGroups(), Random(seed))


def areas() -> Schema:
    """Return the schema of the example of thesis 5.4.3: an area and a location."""
    return Schema({"area": Numbers(IntRange(0, 127)), "location": OneOf.of(*PLACES)}, EPOCHS)


def sides() -> Schema:
    """Return the schema with the smallest envelopes."""
    return Schema({"side": OneOf.of("buy", "sell")}, EPOCHS)


def quotes(slot_bits: int = 0) -> Schema:
    """Return a schema with a tree of every kind."""
    epochs = Epochs(0, 24 * HOUR_US, HOUR_US, slot_bits)
    trees = {
        "price": Numbers(FloatRange(0, 256, 8)),
        "symbol": Texts(prefix_chars=3, suffix_chars=2),
        "side": OneOf.of("buy", "sell"),
    }
    return Schema(trees, epochs)


@dataclass
class World:
    """An authority, with shortcuts for its members."""

    authority: Authority
    rng: Random
    now_us: int = NOON_US

    @classmethod
    def of(cls, schema: Schema, seed: int = 1) -> World:
        parameters, master = foundations(seed)
        return cls(Authority(Realm(parameters, schema), master), Random(seed))

    @property
    def realm(self) -> Realm:
        return self.authority.realm

    @property
    def groups(self) -> Groups:
        return self.realm.parameters.groups

    @property
    def epoch(self) -> int:
        return self.realm.schema.epochs.epoch_at(self.now_us)

    def publisher(self, filter: str = "true", publisher: int = 7, holder: str = "publisher") -> Sealer:
        """Return a sealer with keys for a filter in the current epoch."""
        sealer = Sealer(self.realm, publisher)
        sealer.add(
            self.authority.publisher_keys(
                holder, publisher, parse(filter), epoch=self.epoch, now_us=self.now_us, randomness=self.rng
            )
        )
        return sealer

    def keys(self, filter: str, holder: str = "reader", slots: tuple[int, int] | None = None) -> SubscriberKeys:
        """Return a subscriber's keys for the current epoch."""
        return self.authority.subscriber_keys(
            holder, parse(filter), epoch=self.epoch, now_us=self.now_us, randomness=self.rng, slots=slots
        )

    def reader(self, *filters: str) -> Keyring:
        """Return a keyring with keys for each filter, issued one by one."""
        ring = Keyring(self.realm)
        for filter in filters:
            ring.add(self.keys(filter))
        return ring

    def seal(self, sealer: Sealer, attributes: dict[str, object], sequence: int = 1, **more: object) -> Sealed:
        draft = Draft(attributes, sequence=sequence, **more)  # type: ignore[arg-type]
        return sealer.seal(draft, now_us=self.now_us, randomness=self.rng)

    def open(self, ring: Keyring, sealed: Sealed, bound: bytes = b"") -> Opened:
        return ring.open(sealed.clear, sealed.envelope, now_us=self.now_us, randomness=self.rng, bound=bound)
