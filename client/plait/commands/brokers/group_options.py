"""Options of commands that join a group of peers: `plait peer` and `plait bridge`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..terminal.failures import WrongUse

if TYPE_CHECKING:
    from plait_core.space import Schema

C = TypeVar("C", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path)


def group_options(listen: str) -> Callable[[C], C]:
    """Add the options that name a group and the way into it. `listen` is the default of --listen."""
    options = (
        click.option("--join", "joined", multiple=True, metavar="H:P", help="A peer of the group. Repeatable."),
        click.option("--discover", is_flag=True, help="Find peers on this network segment by multicast."),
        click.option(
            "--listen", default=listen, show_default=True, metavar="H:P", help="Address at which peers connect to it."
        ),
        click.option("--group", default="plait", show_default=True, metavar="G", help="The group of peers."),
        click.option("--secret-file", type=_FILE, metavar="FILE", help="The group's secret."),
        click.option("--space", type=_FILE, metavar="FILE", help="The group's event space as JSON."),
    )

    def add(command: C) -> C:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def read_secret(path: Path | None) -> str:
    """Return the secret in a file, or an empty text without one."""
    return _read(path).strip()


def read_space(path: Path | None) -> Schema | None:
    """Return the event space in a file, or None without one."""
    from plait_core.errors import SpaceInvalid
    from plait_core.space import Schema

    try:
        return Schema.from_json(_read(path)) if path is not None else None
    except SpaceInvalid as error:
        raise WrongUse(f"{path}: {error.message}") from None


def _read(path: Path | None) -> str:
    try:
        return path.read_text() if path is not None else ""
    except OSError as error:
        raise WrongUse(f"{path} cannot be read: {error.strerror}") from None
