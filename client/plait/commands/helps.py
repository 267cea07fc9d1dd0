"""What every command says of itself, for the reference in the documentation."""

from __future__ import annotations

from collections.abc import Iterator

import click

from .root import plait


def all_helps(width: int) -> Iterator[tuple[str, str]]:
    """Each command's name and help, those of other distributions included, in the order of the alphabet."""
    yield from _helps(plait, ("plait",), width)


def _helps(group: click.Group, path: tuple[str, ...], width: int) -> Iterator[tuple[str, str]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, "it is listed"
        full = " ".join((*path, name))
        within = click.Context(command, info_name=full, terminal_width=width, max_content_width=width)
        yield full, "\n".join(line.rstrip() for line in command.get_help(within).splitlines())
        if isinstance(command, click.Group):
            yield from _helps(command, (*path, name), width)
