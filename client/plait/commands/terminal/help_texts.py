"""Help texts of all commands, for the reference documentation."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ..root import plait


def help_texts(width: int) -> Iterator[tuple[str, str]]:
    """Yield each command's name and help in alphabetical order, including those of other distributions."""
    settings = {**plait.context_settings, "terminal_width": width, "max_content_width": width}
    yield from _help_texts(plait, click.Context(plait, info_name="plait", **settings))


def _help_texts(group: click.Group, context: click.Context) -> Iterator[tuple[str, str]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, "it is listed"
        within = click.Context(command, parent=context, info_name=name)
        yield within.command_path, "\n".join(line.rstrip() for line in command.get_help(within).splitlines())
        if isinstance(command, click.Group):
            yield from _help_texts(command, within)
