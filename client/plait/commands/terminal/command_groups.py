"""A group of commands that are imported when they run. An unknown name is answered with the nearest one."""

from __future__ import annotations

from difflib import get_close_matches

import click

from .failures import WrongUse


class LazyGroup(click.Group):
    """A group whose `list_commands` and `get_command` do not use the table of commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names. WrongUse if there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args[0].startswith("-"):  # an unknown option
                raise
            close = get_close_matches(args[0], self.list_commands(ctx), 1)
            hint = f"did you mean `{ctx.command_path} {close[0]}`?" if close else f"see `{ctx.command_path} --help`"
            raise WrongUse(f"No such command {args[0][:80]!r}.", hint=hint) from error


__all__ = ["LazyGroup"]
