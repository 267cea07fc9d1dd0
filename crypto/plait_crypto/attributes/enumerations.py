"""Enumerations: few values, known in advance, each a credential of its own below the whole attribute.

A value matches two credentials, and a filter needs one for each allowed value. That is less to send than a tree of
halves, as long as filters allow few values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from plait_core import Literal, SpaceInvalid
from plait_core.filters import Constraint
from plait_core.space import Enumeration
from plait_core.values import is_text

from ..errors import SealInvalid
from .credentials import ABSENT, WHOLE, Credential, absent_path


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of the values of an enumeration of the event space."""

    domain: Enumeration
    type_name: ClassVar[str] = "one of"

    def __post_init__(self) -> None:
        if not all(is_text(value) for value in self.domain.values if isinstance(value, str)):
            raise SealInvalid("a value with a lone surrogate", hint="texts that UTF-8 can write")

    @classmethod
    def of(cls, *values: Literal) -> OneOf:
        """Return an enumeration of these values."""
        return cls(Enumeration(values))

    @property
    def places(self) -> int:
        return 2

    def leaf(self, value: object) -> object:
        return None if value is None else self._cell(value)

    def path(self, value: object) -> tuple[bytes, ...]:
        return absent_path(2) if value is None else (WHOLE.label, self._credential(value).label)

    def cover(self, constraint: Constraint, widen: bool) -> tuple[Credential, ...]:
        found = [self._credential(value) for value in self.domain.values if constraint.accepts(value)]
        if constraint.absent and len(found) == len(self.domain.values):
            return (WHOLE,)
        return (ABSENT, *found) if constraint.absent else tuple(found)

    def wider(self, credential: Credential, levels: int) -> Credential:
        return WHOLE

    def fields(self) -> Mapping[str, object]:
        return self.domain.fields()

    def _credential(self, value: object) -> Credential:
        return Credential(1, b"value " + str(self._cell(value)).encode())

    def _cell(self, value: object) -> int:
        try:
            return self.domain.cell(value)
        except SpaceInvalid as error:
            raise SealInvalid(error.message, hint=error.hint) from None
