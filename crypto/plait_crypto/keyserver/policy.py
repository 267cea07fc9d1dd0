"""The policy: the filters for which holders may have keys, as publisher and as subscriber. All others are denied.

[holders.alice]
publish = ["symbol == 'IBM'"]          # keys for any filter that one of these covers
subscribe = ["price < 100", "side == 'buy'"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from plait_core import Filter, FilterError, parse

from ..errors import SealError
from ..hazmat.hashing import digest
from ..limits import PLACES_MAX
from .limits import POLICY_FILTERS_MAX, POLICY_HOLDERS_MAX, POLICY_TEXT_MAX

Role: TypeAlias = Literal["publisher", "subscriber"]

INSTANCE_BITS: Final = 32
"""Low bits of a publisher id, which its holder draws for each process. The high ones identify the holder."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}\Z")
_PREFIX_BYTES: Final = 4


class PolicyInvalid(SealError):
    """A policy that cannot be parsed."""


@dataclass(frozen=True)
class Holder:
    """The grants of one holder of keys."""

    name: str
    publish: tuple[Filter, ...] = ()
    subscribe: tuple[Filter, ...] = ()
    coarse: int = 0
    """Levels by which its tokens for brokers may be wider than its credentials. 0: it gets no such tokens.

    Whoever has a wider token can tell which events match it, more than the holder may open.
    """

    def may(self, role: Role, requested: Filter) -> bool:
        """Return whether one of its filters covers the requested one. Return False if that cannot be decided."""
        return any(each.covers(requested) for each in self.granted(role))

    def granted(self, role: Role) -> tuple[Filter, ...]:
        """Return its filters in one role."""
        return self.publish if role == "publisher" else self.subscribe

    @cached_property
    def id_prefix(self) -> int:
        """The high half of all its publisher ids."""
        return int.from_bytes(digest(b"holder", self.name.encode())[:_PREFIX_BYTES], "big")

    def publisher_id(self, instance: int) -> int:
        """Return its publisher id for one of its processes."""
        assert 0 < instance < 1 << INSTANCE_BITS
        return self.id_prefix << INSTANCE_BITS | instance


@dataclass(frozen=True)
class Policy:
    """All holders by name."""

    holders: Mapping[str, Holder]

    @classmethod
    def from_toml(cls, text: str) -> Policy:
        """Parse a policy; raise PolicyInvalid if it is invalid.

        An unknown key is an error: it could be meant to deny.
        """
        if len(text) > POLICY_TEXT_MAX:
            raise PolicyInvalid("a policy that is too long", hint=f"{POLICY_TEXT_MAX} characters (POLICY_TEXT_MAX)")
        try:
            given = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise PolicyInvalid(f"the policy is not TOML: {error}") from None
        tables = _table(given, "the policy", {"holders"}).get("holders", {})
        if len(_table(tables, "holders", None)) > POLICY_HOLDERS_MAX:
            raise PolicyInvalid("too many holders", hint=f"{POLICY_HOLDERS_MAX} (POLICY_HOLDERS_MAX) are allowed")
        holders = {name: _holder(name, table) for name, table in tables.items()}
        prefixes: dict[int, str] = {}
        for holder in holders.values():
            # Two holders with one prefix could sign in each other's name. By chance it never happens.
            if (other := prefixes.setdefault(holder.id_prefix, holder.name)) != holder.name:
                raise PolicyInvalid(f"{holder.name} and {other} would share publisher ids", hint="rename one of them")
        return cls(holders)


def _holder(name: str, table: Any) -> Holder:
    if not _NAME.match(name):
        raise PolicyInvalid(f"{name[:80]!r} is not a holder's name", hint="up to 64 letters, digits and _ . @ -")
    given = _table(table, name, {"publish", "subscribe", "coarse"})
    coarse = given.get("coarse", 0)
    if type(coarse) is not int or not 0 <= coarse <= PLACES_MAX:
        raise PolicyInvalid(f"{name}: coarse is a number of levels", hint=f"0 to {PLACES_MAX} (PLACES_MAX)")
    publish, subscribe = (_filters(name, given.get(role, [])) for role in ("publish", "subscribe"))
    return Holder(name, publish, subscribe, coarse)


def _filters(name: str, texts: Any) -> tuple[Filter, ...]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PolicyInvalid(f"{name}: filters are a list of texts")
    if len(texts) > POLICY_FILTERS_MAX:
        raise PolicyInvalid(f"{name}: {len(texts)} filters", hint=f"{POLICY_FILTERS_MAX} are allowed")
    try:
        found = tuple(parse(text) for text in texts)
        for each in found:
            _ = each.normal
    except FilterError as error:
        raise PolicyInvalid(f"{name}: {error}") from None
    return found


def _table(given: Any, what: str, known: set[str] | None) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise PolicyInvalid(f"{what}: a table is expected")
    if known is not None and (unknown := sorted(given.keys() - known)):
        raise PolicyInvalid(f"{what}: unknown key {unknown[0][:80]}", hint="known are " + ", ".join(sorted(known)))
    return given
