"""The realms, keys and honest events that the attacks start from."""

from __future__ import annotations

from random import Random
from typing import Any

from plait_core import parse
from plait_core.space import FloatRange, IntRange
from plait_crypto import Authority, Epochs, Numbers, OneOf, PublisherKeys, Realm, Schema, SubscriberKeys, Texts
from plait_crypto.envelope import Envelope
from plait_crypto.hazmat import ArkworksGroups, set_up

from .forger import NOON_US, Forger, Session
from .writer import Inputs

SEED = 20_110_405
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
BASE = {"level": 1, "side": "buy"}
"""The attributes of most events."""

DAYS = Epochs(0, DAY_US, HOUR_US)
SCHEMAS = {
    "two rows": Schema({"level": Numbers(IntRange(0, 3)), "side": OneOf.of("buy", "sell")}, DAYS),
    "slots": Schema({"side": OneOf.of("buy", "sell")}, Epochs(0, DAY_US, HOUR_US, 1)),
    "quotes": Schema({"price": Numbers(FloatRange(0, 256, 8)), "symbol": Texts(3, 2)}, DAYS, frozenset({"venue"})),
}
PARTS = {
    "version": (0, 1),
    "kind": (1, 1),
    "realm": (2, 16),
    "epoch": (18, 4),
    "slot": (22, 4),
    "publisher": (26, 8),
    "sequence": (34, 8),
    "number of rows": (42, 1),
    "places of the first row": (43, 1),
    "places of the second row": (44, 1),
    "CT2": (45, 48),
    "masked seed": (93, 32),
    "first CT_i": (125, 48),
    "first row's whole part": (173, 48),
    "first row's second part": (221, 48),
    "first row's third part": (269, 48),
    "first row's lowest tag": (317, 16),
    "first row's highest tag": (349, 16),
    "second CT_i": (365, 48),
    "second row's whole part": (413, 48),
    "second row's second part": (461, 48),
    "second row's lowest tag": (509, 16),
    "second row's highest tag": (525, 16),
    "encrypted signature": (541, 438),
    "signature's tag": (979, 16),
    "encrypted body": (995, 1),
}
"""Where the parts of an envelope of two rows are, and their sizes."""


class Scene:
    """An authority for each realm, and publishers."""

    def __init__(self) -> None:
        self.inputs, self.rng, groups = Inputs(), Random(SEED), ArkworksGroups()
        self.groups = groups
        self.authorities: dict[str, Authority] = {}
        both = {"parameters": set_up(groups, self.rng), "other parameters": set_up(groups, self.rng)}
        for name, (parameters, _) in both.items():
            self.inputs.put(name, parameters.encode())
        self.inputs.put("master secret", both["parameters"][1].encode())
        for name, schema, using in [
            *((name, schema, "parameters") for name, schema in SCHEMAS.items()),
            ("other parameters", SCHEMAS["two rows"], "other parameters"),
        ]:
            parameters, master = both[using]
            realm = Realm(parameters, schema)
            self.authorities[name] = Authority(realm, master)
            told = {"parameters": using, "digest": realm.digest.hex(), "schema": schema.to_json()}
            self.inputs.realms[name] = told
        self.all = self.reader("all", "true")
        self.one = self.reader("level 1", "level == 1")
        self.buys = self.reader("buy", "side == 'buy'")
        self.sells = self.reader("sell", "side == 'sell'")
        self.forger = self.publisher("true")
        self.base = self.inputs.put("event", self.forger.seal(BASE))
        self.other = self.inputs.put("second event", self.forger.seal(BASE, b"another payload", sequence=2))
        self.session = Session(self.forger, BASE)
        self.inputs.put("opening", self.session.opening)
        self.members = self.session.members([BASE] * 3)
        for number, member in enumerate(self.members):
            self.inputs.put(f"member {number}", member)
        self.second = Session(self.forger, BASE)
        self.inputs.put("second opening", self.second.opening)
        assert Envelope.decode(self.base).encode() == self.base

    def realm(self, name: str = "two rows") -> Realm:
        """Return a realm."""
        return self.authorities[name].realm

    def issue(self, filter: str, realm: str = "two rows", epoch: int = 0, **more: Any) -> SubscriberKeys:
        """Issue keys to a reader."""
        now_us = epoch * DAY_US + NOON_US
        return self.authorities[realm].subscriber_keys(
            "r", parse(filter), epoch=epoch, now_us=now_us, randomness=self.rng, **more
        )

    def reader(self, name: str, filter: str, realm: str = "two rows", epoch: int = 0, **more: Any) -> bytes:
        """Issue keys to a reader, and name them among the inputs."""
        return self.inputs.put(f"keys: {name}", self.issue(filter, realm, epoch, **more).encode(self.groups))

    def publisher_keys(self, filter: str, publisher: int = 7, realm: str = "two rows", epoch: int = 0) -> PublisherKeys:
        """Issue keys to a publisher."""
        now_us = epoch * DAY_US + NOON_US
        return self.authorities[realm].publisher_keys(
            "p", publisher, parse(filter), epoch=epoch, now_us=now_us, randomness=self.rng
        )

    def publisher(self, filter: str, publisher: int = 7, realm: str = "two rows", epoch: int = 0) -> Forger:
        """Return a forger with keys for a filter."""
        return Forger(self.realm(realm), self.publisher_keys(filter, publisher, realm, epoch), self.rng)


def replaced(whole: bytes, name: str, part: bytes) -> bytes:
    """Return an envelope of two rows with another part."""
    at, size = PARTS[name]
    return whole[:at] + part + whole[at + size :]


def part(whole: bytes, name: str) -> bytes:
    """Return a part of an envelope of two rows."""
    at, size = PARTS[name]
    return whole[at : at + size]
