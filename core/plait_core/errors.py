"""The exception tree.

    PlaitError                   base of all deliberate errors; has .retryable and .hint
    ├── EventInvalid             caller: attributes, headers or payload that no event may have
    ├── FilterError              caller: a filter that cannot be used; has .text, .column and .caret()
    │   ├── FilterSyntax         it does not follow the grammar
    │   ├── FilterTooComplex     it follows the grammar, but costs more than the limits allow
    │   └── FilterNeverTrue      it follows the grammar, but no event can match it
    ├── SpaceInvalid             caller: a schema, or a value or dz-expression outside its event space
    ├── IndexMisuse              caller: an id added twice, or an unknown id removed
    └── FrameError               remote: bytes from the network that break the protocol; has .fault

There are two families. A caller's mistake is raised at the call. A remote violation of the protocol is always exactly
one FrameError; the receiver closes that connection and counts the fault.
"""

from __future__ import annotations

from enum import StrEnum


class PlaitError(Exception):
    """Base of all deliberate errors.

    `retryable`: the same call may succeed later. `hint`: a remedy, in one sentence.
    """

    retryable: bool = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class EventInvalid(PlaitError):
    """Attributes, headers or a payload that no event may have."""


class FilterError(PlaitError):
    """A filter that cannot be used. `column` counts from 1 and points into `text`; 0 when there is no text."""

    def __init__(self, message: str, *, text: str = "", column: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.text = text
        self.column = column

    def __str__(self) -> str:
        return f"{self.placed} ({self.hint})" if self.hint else self.placed

    @property
    def placed(self) -> str:
        """The message with the column, without the hint."""
        return f"filter: {self.message}" + (f" at column {self.column}" if self.column else "")

    def caret(self, width: int = 100) -> str:
        """Return the text with a caret under the offending column, cut to `width` characters around it."""
        pointed = max(self.column, 1) - 1
        start = max(0, min(pointed - width // 2, len(self.text) - width))
        shown = "".join(c if c.isprintable() else " " for c in self.text[start : start + width])
        return f"{shown}\n{' ' * (pointed - start)}^"


class FilterSyntax(FilterError):
    """The text does not follow the grammar."""


class FilterTooComplex(FilterError):
    """The filter exceeds a limit of `limits.py`; the message names the offending part."""


class FilterNeverTrue(FilterError):
    """No event can match the filter. The message names the conditions that exclude each other."""


class SpaceInvalid(PlaitError):
    """An invalid schema, or a value or dz-expression outside its event space."""


class IndexMisuse(PlaitError):
    """An id added to an index twice, or removed without being in it."""


class FrameFault(StrEnum):
    """The reason for refusing a frame; metrics and logs count by it."""

    OVERSIZE = "oversize"  # its length, or a length inside it, exceeds a limit
    TRUNCATED = "truncated"  # it ends before the end that its lengths announce
    VERSION = "version"  # a protocol version that was not negotiated
    TYPE = "type"  # a frame type that does not exist in this version
    ORDER = "order"  # a frame out of order: before the hello, or a second hello
    BODY = "body"  # a body that is not msgpack of this frame's shape
    FIELD = "field"  # a field with a value that is not allowed


class FrameError(PlaitError):
    """Bytes from the network that break the protocol."""

    def __init__(self, fault: FrameFault, message: str) -> None:
        super().__init__(f"{fault}: {message}")
        self.args = (fault, message)  # the arguments that unpickling passes to the constructor
        self.fault = fault
