"""The policy: who may hold keys for which filters, as publisher and as subscriber. What it does not say is denied.

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
from .limits import POLICY_FILTERS_MAX, POLICY_HOLDERS_MAX, POLICY_TEXT_MAX

Role: TypeAlias = Literal["publisher", "subscriber"]

INSTANCE_BITS: Final = 32
"""Low bits of a publisher id, which its holder draws for each process; the high ones name the holder."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}\Z")
_MARK_BYTES: Final = 4


class PolicyInvalid(SealError):
    """Yours: a policy that cannot be read as one."""


@dataclass(frozen=True)
class Holder:
    """One who may hold keys."""

    name: str
    publish: tuple[Filter, ...] = ()
    subscribe: tuple[Filter, ...] = ()

    def may(self, role: Role, asked: Filter) -> bool:
        """Whether one of its filters covers all that is asked. What cannot be decided is no."""
        granted = self.publish if role == "publisher" else self.subscribe
        return any(each.covers(asked) for each in granted)

    @cached_property
    def mark(self) -> int:
        """The high half of all its publisher ids."""
        return int.from_bytes(digest(b"holder", self.name.encode())[:_MARK_BYTES], "big")

    def publisher_id(self, instance: int) -> int:
        """Its publisher id for one of its processes."""
        assert 0 < instance < 1 << INSTANCE_BITS
        return self.mark << INSTANCE_BITS | instance


@dataclass(frozen=True)
class Policy:
    """All holders by name."""

    holders: Mapping[str, Holder]

    @classmethod
    def from_toml(cls, text: str) -> Policy:
        """The policy, or PolicyInvalid: a word that is not known could have been meant to deny."""
        if len(text) > POLICY_TEXT_MAX:
            raise PolicyInvalid("a policy that is too long", hint="POLICY_TEXT_MAX says how long it may be")
        try:
            given = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise PolicyInvalid(f"the policy is no TOML: {error}") from None
        tables = _table(given, "the policy", {"holders"}).get("holders", {})
        if len(_table(tables, "holders", None)) > POLICY_HOLDERS_MAX:
            raise PolicyInvalid("too many holders", hint="POLICY_HOLDERS_MAX says how many")
        holders = {name: _holder(name, table) for name, table in tables.items()}
        marks: dict[int, str] = {}
        for holder in holders.values():
            # Two holders of one mark could sign in each other's name; by chance it never happens.
            if (other := marks.setdefault(holder.mark, holder.name)) != holder.name:
                raise PolicyInvalid(f"{holder.name} and {other} would share publisher ids", hint="rename one of them")
        return cls(holders)


def _holder(name: str, table: Any) -> Holder:
    if not _NAME.match(name):
        raise PolicyInvalid(f"{name[:80]!r} is no name of a holder", hint="up to 64 letters, digits and _ . @ -")
    given = _table(table, name, {"publish", "subscribe"})
    return Holder(name, _filters(name, given.get("publish", [])), _filters(name, given.get("subscribe", [])))


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
        raise PolicyInvalid(f"{what}: {unknown[0][:80]} means nothing", hint="known are " + ", ".join(sorted(known)))
    return given
