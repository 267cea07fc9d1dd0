"""How a command ends: 0 done, 1 failed, 2 wrong use, 130 interrupted. Errors become these here and nowhere else.

A wrong filter, address or event is wrong use: the same command can never succeed. All else that Plait raises is a
failure: the same command may succeed at another time. Messages go to stderr, with what to do about it.
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
    """The command did not succeed. `detail`: lines to show under the message; `hint`: what to do about it."""

    exit_code = FAILED

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the message, the detail and the hint on stderr."""
        lines = [click.style("Error: ", fg="red", bold=True) + self.message]
        lines += [f"  {line}" for line in self.detail.splitlines()]
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        click.echo("\n".join(lines), file=file, err=True)


class WrongUse(Failure):
    """The command was asked for something that can never work."""

    exit_code = WRONG_USE


def as_failure(error: Exception) -> Failure:
    """What a Plait error is to the command line."""
    from plait_core import EventInvalid, FilterError, PlaitError

    assert isinstance(error, PlaitError)
    if isinstance(error, FilterError):
        message = f"filter: {error.message}" + (f" at column {error.column}" if error.column else "")
        return WrongUse(message, detail=error.caret() if error.text else "", hint=error.hint)
    if isinstance(error, EventInvalid) or type(error).__name__ == "AddressInvalid":
        return WrongUse(error.message, hint=error.hint)
    return Failure(error.message, hint=error.hint)
