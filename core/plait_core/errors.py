"""The exception tree.

    PlaitError                   everything Plait raises on purpose; has .retryable and .hint
    ├── EventInvalid             yours: attributes, headers or payload that no event may have
    ├── FilterError              yours: a filter that cannot be used; has .text, .column and .caret()
    │   ├── FilterSyntax         it does not follow the grammar
    │   └── FilterTooComplex     it follows the grammar, but costs more than the limits allow
    ├── SpaceInvalid             yours: a schema, or a value or dz-expression outside its event space
    ├── IndexMisuse              yours: an id added twice, or an unknown id removed
    └── FrameError               theirs: bytes from the network that break the protocol; has .fault

Two families: what you did wrong is raised where you did it; what a peer did wrong is always exactly one FrameError,
and the only sane answer to it is to close that peer's connection and to count its fault.
"""

from __future__ import annotations

from enum import StrEnum


class PlaitError(Exception):
    """Root of the tree. `retryable`: the same call may succeed later. `hint`: what to do about it, one sentence."""

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
        return f"filter: {super().__str__()}" + (f" at column {self.column}" if self.column else "")

    def caret(self, width: int = 100) -> str:
        """The text with a caret under the offending column, cut to `width` characters around it."""
        pointed = max(self.column, 1) - 1
        start = max(0, min(pointed - width // 2, len(self.text) - width))
        shown = "".join(c if c.isprintable() else " " for c in self.text[start : start + width])
        return f"{shown}\n{' ' * (pointed - start)}^"


class FilterSyntax(FilterError):
    """The text does not follow the grammar."""


class FilterTooComplex(FilterError):
    """The filter exceeds a limit of `limits.py`; the message names the part to blame."""


class SpaceInvalid(PlaitError):
    """A schema that is none, or a value or dz-expression outside its event space."""


class IndexMisuse(PlaitError):
    """An id added to an index twice, or removed without being there."""


class FrameFault(StrEnum):
    """Why a frame was refused: what metrics and logs count by."""

    OVERSIZE = "oversize"  # its length, or a length inside it, exceeds a limit
    TRUNCATED = "truncated"  # it ends before what its lengths promise
    VERSION = "version"  # a protocol version that was not negotiated
    TYPE = "type"  # a frame type that does not exist in this version
    ORDER = "order"  # a frame that may not come now: before the hello, or a second hello
    BODY = "body"  # a body that is not the msgpack that this frame carries
    FIELD = "field"  # a field with a value that it may not have


class FrameError(PlaitError):
    """Bytes from the network that break the protocol."""

    def __init__(self, fault: FrameFault, message: str) -> None:
        super().__init__(f"{fault}: {message}")
        self.args = (fault, message)  # what pickling calls this with
        self.fault = fault
