"""Exit codes of commands: 0 done, 1 failed, 2 wrong use, 130 interrupted. Errors are converted here alone.

A wrong filter, argument, address or event is wrong use: the same command can never succeed. Every other PlaitError is a
failure: the same command may succeed at another time. Messages go to stderr, with a hint.
"""

from __future__ import annotations

from typing import IO, Any, Final

import click

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
INTERRUPTED: Final = 130
"""128 + SIGINT, as shells count."""


class Failure(click.ClickException):
    """Ends a command with exit code 1. `detail` has lines to print below the message, `hint` a remedy."""

    exit_code = FAILED

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message, the detail and the hint on stderr."""
        lines = [click.style("Error: ", fg="red", bold=True) + self.message]
        lines += [f"  {line}" for line in self.detail.splitlines()]
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        click.echo("\n".join(lines), file=file, err=True)


class WrongUse(Failure):
    """Ends a command that can never succeed with exit code 2."""

    exit_code = WRONG_USE


def as_failure(error: Exception) -> Failure:
    """Convert an error of Plait to the Failure that the command line prints."""
    from plait_core import EventInvalid, FilterError, PlaitError

    from ...errors import ArgumentInvalid

    assert isinstance(error, PlaitError)
    if isinstance(error, FilterError):
        return WrongUse(error.placed, detail=error.caret() if error.text else "", hint=error.hint)
    if isinstance(error, EventInvalid | ArgumentInvalid):
        return WrongUse(error.message, hint=error.hint)
    return Failure(error.message, hint=error.hint)
