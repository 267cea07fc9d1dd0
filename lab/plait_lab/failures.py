"""Ways in which a trial fails. The processes that are measured import this module, so it imports next to nothing."""

from __future__ import annotations

from typing import ClassVar


class TrialFailed(Exception):
    """A contender could not be measured. The text gives the reason."""


class Unmeasured(TrialFailed):
    """A trial that gave no measurement. It is repeated, because this proves nothing about the contender."""

    tries: ClassVar[int] = 2
    """Attempts for one trial, the first included."""


class NothingMeasured(Unmeasured):
    """No event arrived in the measured phase, or no time passed in it."""


class Disturbed(Unmeasured):
    """The trial was disturbed from outside."""

    tries: ClassVar[int] = 3
    """More than for other causes, since a busy machine sometimes disturbs two trials in a row."""
