"""A request that is not carried out: its answer is Failed, with a code, a message and a hint."""

from __future__ import annotations

from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.wire.frame_types.session_frames import Code


class RequestFailed(Exception):
    """A request that is not carried out."""

    def __init__(self, code: Code, message: str, hint: str = "", *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message[:CLOSE_TEXT_MAX]
        self.hint = hint[:CLOSE_TEXT_MAX]
        self.retryable = retryable
