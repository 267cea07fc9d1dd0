"""Texts (thesis 5.4.2): a trie of prefixes, one of reversed suffixes, and the whole text.

    place 0 the whole attribute; 1 present or absent; then a prefix of each length, a suffix of each length, the text

Infixes, patterns, and prefixes or suffixes longer than the trie have no credential.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from plait_core.filters import Constraint, ValueSet
from plait_core.filters.value_sets import prefix_set
from plait_core.limits import VALUE_BYTES_MAX

from ..errors import SealInvalid
from ..limits import PLACES_MAX
from .credentials import ABSENT, WHOLE, Credential, absent_path, filler, too_wide

_PRESENT: Final = Credential(1, b"present")
_FIXED: Final = 3
"""Places that every tree has: the whole attribute, presence, the text itself."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Any text; its first `prefix_chars` and last `suffix_chars` characters have credentials."""

    prefix_chars: int = 8
    suffix_chars: int = 0
    type_name: ClassVar[str] = "texts"

    def __post_init__(self) -> None:
        lengths = (self.prefix_chars, self.suffix_chars)
        if any(type(each) is not int or each < 0 for each in lengths) or self.places > PLACES_MAX:
            raise SealInvalid("no lengths of prefixes and suffixes", hint=f"together up to {PLACES_MAX - _FIXED}")

    @property
    def places(self) -> int:
        return _FIXED + self.prefix_chars + self.suffix_chars

    def leaf(self, value: object) -> object:
        return None if value is None else self._text(value)

    def path(self, value: object) -> tuple[bytes, ...]:
        if value is None:
            return absent_path(self.places)
        text = self._text(value)
        found = [WHOLE, _PRESENT, self._exactly(text)]
        found += [self._prefix(text[:count]) for count in range(1, min(len(text), self.prefix_chars) + 1)]
        found += [self._suffix(text[-count:]) for count in range(1, min(len(text), self.suffix_chars) + 1)]
        labels = {credential.place: credential.label for credential in found}
        return tuple(labels.get(place, filler(place)) for place in range(self.places))

    def cover(self, constraint: Constraint, widen: bool) -> tuple[Credential, ...]:
        absent = (ABSENT,) if constraint.absent else ()
        if constraint.texts is None:
            return absent
        found = self._cover(constraint.texts, widen)
        return (WHOLE,) if absent and found == (_PRESENT,) else (*absent, *found)

    def wider(self, credential: Credential, levels: int) -> Credential:
        """Return a shorter prefix or suffix. That of a text is its longest prefix, shortened."""
        kind, _, letters = credential.label.decode().partition(" ")
        if kind == "text":
            letters, kind = letters[: self.prefix_chars], "prefix"
        shorter = letters[: max(0, len(letters) - levels)]
        if kind == "suffix" and shorter:
            return self._suffix(shorter[::-1])
        return self._prefix(shorter) if kind == "prefix" and shorter else WHOLE

    def fields(self) -> Mapping[str, object]:
        return {"prefix_chars": self.prefix_chars, "suffix_chars": self.suffix_chars}

    def _cover(self, span: ValueSet, widen: bool) -> tuple[Credential, ...]:
        if span.points is not None:
            return tuple(self._exactly(str(point)) for point in sorted(span.points))
        if span == ValueSet():
            return (_PRESENT,)
        suffixes = [text for op, text, negated in span.shapes if op == "endswith" and not negated]
        prefix = span.low if isinstance(span.low, str) and prefix_set(span.low).includes(_bounds(span)) else ""
        if span == prefix_set(prefix) and 0 < len(prefix) <= self.prefix_chars:
            return (self._prefix(prefix),)
        alone = span == ValueSet(shapes=span.shapes) and len(span.shapes) == len(suffixes) == 1
        if alone and len(suffixes[0]) <= self.suffix_chars:
            return (self._suffix(suffixes[0]),)
        if not widen:
            reach = f"prefixes of up to {self.prefix_chars} characters, suffixes of up to {self.suffix_chars}, equality"
            raise too_wide("this constraint on a text", reach)
        if prefix and self.prefix_chars:
            return (self._prefix(prefix[: self.prefix_chars]),)
        if suffixes and self.suffix_chars:
            return (self._suffix(max(suffixes)[-self.suffix_chars :]),)
        return (_PRESENT,)

    def _prefix(self, text: str) -> Credential:
        return Credential(1 + len(text), b"prefix " + text.encode())

    def _suffix(self, text: str) -> Credential:
        return Credential(1 + self.prefix_chars + len(text), b"suffix " + text[::-1].encode())

    def _exactly(self, text: str) -> Credential:
        return Credential(self.places - 1, b"text " + text.encode())

    def _text(self, value: object) -> str:
        if type(value) is not str or len(value) > VALUE_BYTES_MAX:
            raise SealInvalid(f"{value!r:.80} is not a text", hint="the schema requires a text for this attribute")
        return value


def _bounds(span: ValueSet) -> ValueSet:
    return ValueSet(span.low, span.high, span.low_open, span.high_open)
