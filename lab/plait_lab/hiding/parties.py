"""What each party has of a realm in one draw of all exponents, by the production set-up, keys and capsules.

Each row of a capsule has two credentials, the whole attribute and a value. The first row's value is hidden: "a" or "b".
The keys of members fit neither, so nothing that they may open tells the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, TypeAlias

from plait_crypto import Credential, SubscriberKeys
from plait_crypto.hazmat import (
    Issuer,
    Scheme,
    set_up,
)
from plait_crypto.hazmat.hashing import TO_G2
from plait_crypto.hazmat.issuing import FILLER_SEED_BYTES
from plait_crypto.keys import SubscriberBox

from .distinguishers import Knowledge
from .exponent_groups import ExponentGroups

PARTIES: Final = ("stranger", "broker", "member", "publisher")
TOGETHER: Final = "all together"
WHOLE, OTHER = "whole", "c"
"""The first credential of a row, and one that no event has."""

PUBLIC_F2: Final = "F2 is public"
"""The defect of format version 1: its parameters had the vector of F2."""

FRESH_FILLERS: Final = "fillers are drawn anew for each issue"
"""A defect of the first keys of version 2: their fillers came from S4."""

ONE_EXPONENT: Final = "tags have CT2's exponent"
"""The other defect of version 1, which shows where one attribute guards events."""

VALUES: Final = (WHOLE, "a", "b", OTHER)

Filter: TypeAlias = Sequence[Sequence[str]]
"""For each row, the values of its credentials."""


@dataclass(frozen=True)
class Setting:
    """A schema's number of attributes, and a planted defect."""

    attributes: int
    defect: str = ""


class Draw:
    """One realm with all keys."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._setting = setting
        self._rng = Random(seed)
        self._groups = ExponentGroups(salt=b"%d" % seed)
        self._parameters, self._master = set_up(self._groups, self._rng)
        if setting.defect == ONE_EXPONENT:
            self._master = replace(self._master, psi=self._master.phi)
        self._issuer = Issuer(self._parameters, self._master)
        self._scheme = Scheme(self._parameters, tag_key=self._master.tag_key)
        self._public = self._public_elements()
        self._private = {party: getattr(self, f"_{party}")() for party in PARTIES}

    def knowledge(self, party: str, hidden: Sequence[str]) -> Knowledge:
        """Return what a party knows that sees an event for each of these hidden values."""
        g1, g2 = self._held(party)
        hashed: dict[str, int] = {}
        for number, value in enumerate(hidden):
            seen, under = self._event(value)
            g1 |= {f"{name}.{number}": log for name, log in seen.items()}
            hashed |= {f"{name}.{number}": log for name, log in under.items()}
        return Knowledge(g1, g2, hashed)

    def of_deposit(self, party: str, hidden: str) -> Knowledge:
        """Return what a broker and a party know together, when a deposit has a token for a hidden value."""
        g1, g2 = self._held(party)
        token: Any = self._issuer.token(_identity(0, hidden))
        return Knowledge(g1, {**g2, "token": token}, {})

    def of_deposits(self, party: str, filters: Sequence[Filter], at: int) -> Knowledge:
        """Return what a broker and a party know together that see a deposit of a new issue for each of these filters.

        All have a token for "a" in their first row. Its place in the first deposit is the hidden value. A later deposit
        has the points first that were seen before, which everybody can arrange.
        """
        g1, g2 = self._held(party)
        token: Any = self._issuer.token(_identity(0, "a"))
        rows: list[list[Any]] = [list(self._issue(filter).routing(self._groups).boxes[0][0]) for filter in filters]
        rows[0].remove(token)
        rows[0].insert(at, token)
        seen: dict[Any, int] = {}
        for number, row in enumerate(rows):
            for point in row:
                seen.setdefault(point, len(seen))
            arranged = enumerate(sorted(row, key=seen.__getitem__))
            g2 |= {f"point {place} of deposit {number}": point for place, point in arranged}
        return Knowledge(g1, g2, {})

    def _issue(self, filter: Filter) -> SubscriberKeys:
        """Issue keys for a filter of one conjunction."""
        binding, s4 = self._issuer.binding(self._rng)
        rows: list[Any] = []
        seeds = []
        for row, values in enumerate(filter):
            identities = [_identity(row, value) for value in values]
            parts = [self._issuer.subscriber_part(binding, each, self._rng) for each in identities]
            rows.append(tuple((Credential(0, each), part) for each, part in zip(identities, parts, strict=True)))
            seeds.append(self._issuer.filler_seed(identities))
        if self._setting.defect == FRESH_FILLERS:
            seeds = [self._rng.randbytes(FILLER_SEED_BYTES) for _ in seeds]
        return SubscriberKeys(bytes(32), 0, (SubscriberBox(s4, tuple(rows), tuple(seeds)),))

    def _held(self, party: str) -> tuple[dict[str, int], dict[str, int]]:
        """Return the elements of both groups that a party has beside events."""
        g1, g2 = dict(self._public[0]), dict(self._public[1])
        for one in PARTIES if party == TOGETHER else (party,):
            g2 |= self._private[one]
        tag_key: Any = self._master.tag_key
        return (g1 | {"k": tag_key} if party in ("publisher", TOGETHER) else g1), g2

    def _public_elements(self) -> tuple[dict[str, int], dict[str, int]]:
        parameters: Any = self._parameters
        g1 = {"g": 1, "g1": parameters.g1, "h": parameters.h}
        g2 = {"G": 1, "g2": parameters.g2, "M2": parameters.m2[0], "M2(m)": parameters.message(b"m")}
        for row in range(self._setting.attributes):
            for value in VALUES:
                identity = _identity(row, value)
                g1[f"F({row}{value})"] = parameters.in_g1(identity)
                g2[f"H3({row}{value})"] = self._groups.hash_to_g2(identity, TO_G2)
                if self._setting.defect == PUBLIC_F2:
                    g2[f"F2({row}{value})"] = self._master.logarithm(identity)
        return g1, g2

    def _stranger(self) -> dict[str, int]:
        return {}

    def _broker(self) -> dict[str, int]:
        """Return the tokens of two subscriptions: one that fits all events, and one that fits none."""
        found: dict[str, Any] = {}
        for value in (WHOLE, OTHER):
            keys = self._keys([value] * self._setting.attributes)
            found |= {f"S3({row}{value})": part.s3 for row, part in enumerate(keys.parts)}
        return found

    def _member(self) -> dict[str, int]:
        """Return a set of keys for each row. It fits all other rows."""
        found: dict[str, int] = {}
        rows = range(self._setting.attributes)
        for number in rows:
            values = [OTHER if row == number else WHOLE for row in rows]
            keys: Any = self._keys(values)
            found[f"S4[{number}]"] = keys.s4
            for row, part in enumerate(keys.parts):
                found |= {f"S{k}[{number}]({row})": getattr(part, f"s{k}") for k in (1, 2, 3)}
        return found

    def _publisher(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in range(self._setting.attributes):
            pair: Any = self._issuer.publisher_pair(b"publisher %d" % row, self._rng)
            found |= {f"P1({row})": pair.p1, f"P2({row})": pair.p2}
        return found

    def _keys(self, values: Sequence[str]) -> Any:
        identities = [_identity(row, value) for row, value in enumerate(values)]
        return self._issuer.subscriber_set(identities, self._rng)

    def _event(self, hidden: str) -> tuple[dict[str, int], dict[str, int]]:
        """Return the elements of one capsule, and the values that it has hashes of."""
        values = [hidden, *["a"] * (self._setting.attributes - 1)]
        rows = [[_identity(row, WHOLE), _identity(row, value)] for row, value in enumerate(values)]
        before = len(self._groups.hashed)
        capsule, _ = self._scheme.encapsulate(rows, b"header", self._rng)
        under = {f"hashed {number}": log for number, log in enumerate(self._groups.hashed[before:])}
        decode: Any = self._groups.g1.decode
        seen = {"CT2": decode(capsule.ct2)}
        for row in range(len(rows)):
            seen[f"CT{row}"] = decode(capsule.ct(row))
            seen |= {f"CT{row}{place}": decode(capsule.part(row, place)) for place in range(2)}
        return seen, under


def _identity(row: int, value: str) -> bytes:
    return b"%d/%s" % (row, value.encode())
