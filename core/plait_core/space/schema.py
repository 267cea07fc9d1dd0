"""The schema: the attributes that span an event space, in the order in which they are halved (thesis 2.2, 2.3.1).

Publishers and subscribers must agree on it, so it is sent as a plain dict or as JSON and checked on arrival. Equal
schemas have equal texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ..errors import SpaceInvalid
from ..limits import ATTRIBUTES_MAX, DZ_BITS_MAX
from ..values import is_name
from .domains import Domain, Enumeration, FloatRange, IntRange, Plain, TextPrefix
from .dz import Dz
from .dz_text import bits_text, interleave

_TYPES: dict[str, type[Enumeration | FloatRange | IntRange | TextPrefix]] = {
    domain.type_name: domain for domain in (Enumeration, FloatRange, IntRange, TextPrefix)
}


@dataclass(frozen=True)
class Schema:
    """Named domains, in order. Make one with `Schema.of`.

    Bit k of a dz-expression halves dimension k mod d, as in the thesis, while all d dimensions can still be halved.
    After that it halves the next dimension in turn that can be.
    """

    names: tuple[str, ...]
    domains: tuple[Domain, ...]

    @classmethod
    def of(cls, domains: Mapping[str, Domain]) -> Schema:
        """Return the schema with these attributes in this order."""
        return cls(tuple(domains), tuple(domains.values()))

    def __post_init__(self) -> None:
        if len(self.names) != len(self.domains) or len(set(self.names)) < len(self.names):
            raise SpaceInvalid("a schema needs one domain for each name, and no name twice")
        if not 1 <= len(self.names) <= ATTRIBUTES_MAX:
            raise SpaceInvalid(f"a schema of {len(self.names)} attributes", hint=f"1 to {ATTRIBUTES_MAX}")
        for name in self.names:
            if type(name) is not str or not is_name(name):
                raise SpaceInvalid(f"{str(name)[:80]!r} is no attribute name")
        if self.depth > DZ_BITS_MAX:
            raise SpaceInvalid(
                f"a schema of {self.depth} bits, and {DZ_BITS_MAX} (DZ_BITS_MAX) are allowed",
                hint="give some dimensions fewer bits",
            )

    @cached_property
    def depth(self) -> int:
        """Bits of the finest sub-spaces: the logarithm of their number (thesis 5.4.1)."""
        return sum(domain.bits for domain in self.domains)

    def only(self, name: str) -> Schema:
        """Return the schema of one attribute: its own tree, the source of its credentials (thesis 5.4.1, third
        possibility).
        """
        if name not in self.names:
            raise SpaceInvalid(f"no attribute {name[:80]!r}", hint="one of " + ", ".join(self.names)[:400])
        return Schema((name,), (self.domains[self.names.index(name)],))

    def locate(self, attributes: Mapping[str, object], depth: int | None = None) -> Dz:
        """Return the sub-space of `depth` bits, by default the finest, that contains an event with all attributes."""
        depth = self.check_depth(depth)
        texts = []
        for name, domain in zip(self.names, self.domains, strict=True):
            if name not in attributes:
                raise SpaceInvalid(f"an event without {name}", hint="an event of a space has all of its attributes")
            try:
                texts.append(bits_text(domain.cell(attributes[name]), domain.bits))
            except SpaceInvalid as error:
                raise SpaceInvalid(f"{name}: {error.message}", hint=error.hint) from None
        return Dz(interleave(texts)[:depth])

    def check_depth(self, depth: int | None) -> int:
        """Return `depth`, or the depth of the finest sub-spaces for None; raise SpaceInvalid if the tree is not so
        deep.
        """
        if depth is None:
            return self.depth
        if not 0 <= depth <= self.depth:
            raise SpaceInvalid(f"depth {depth} in a space of {self.depth} bits", hint=f"0 to {self.depth}")
        return depth

    def to_dict(self) -> dict[str, list[dict[str, Plain]]]:
        """Return a plain form for JSON or msgpack."""
        pairs = zip(self.names, self.domains, strict=True)
        return {"attributes": [{"name": name, "type": domain.type_name, **domain.fields()} for name, domain in pairs]}

    @classmethod
    def from_dict(cls, given: object) -> Schema:
        """Parse the output of `to_dict`. Invalid input from outside always raises SpaceInvalid."""
        rows = given.get("attributes") if isinstance(given, dict) and len(given) == 1 else None
        if not isinstance(rows, list) or len(rows) > ATTRIBUTES_MAX:
            raise SpaceInvalid("no schema", hint='{"attributes": [{"name": ..., "type": ..., ...}, ...]}')
        pairs = [_pair(row) for row in rows]
        return cls(tuple(name for name, _ in pairs), tuple(domain for _, domain in pairs))

    def to_json(self) -> str:
        """Return the JSON text. Equal schemas have equal texts."""
        return json.dumps(self.to_dict(), separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Parse the output of `to_json`; raise SpaceInvalid if it is invalid."""
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            raise SpaceInvalid("a schema that is no JSON") from None
        return cls.from_dict(given)


def _pair(row: object) -> tuple[str, Domain]:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise SpaceInvalid("an attribute of a schema without a name")
    fields = {key: value for key, value in row.items() if key not in ("name", "type")}
    try:
        return row["name"], _TYPES[row["type"]](**fields)
    except (KeyError, TypeError):
        known = ", ".join(sorted(_TYPES))
        raise SpaceInvalid(f"{row['name'][:80]!r} has no known type, or fields of another", hint=known) from None
