"""Commands of other distributions, found through the entry-point group `plait.commands`.

A known command whose distribution is not installed is not listed. Running it prints which distribution to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import click

from .terminal.failures import Failure

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "plait.commands"


class KnownCommand(NamedTuple):
    """A command of Plait in another distribution."""

    distribution: str
    summary: str


KNOWN: Final = {
    "broker": KnownCommand("plait-broker", "Run a broker."),
    "exposure": KnownCommand("plait-crypto", "Show what a subscription to sealed events tells others."),
    "keyserver": KnownCommand("plait-crypto", "Run a key server."),
    "keys": KnownCommand("plait-crypto", "Create, issue and show keys."),
    "analyze": KnownCommand("plait-analytics", "Analyse recorded telemetry."),
}
"""The list of commands prints these summaries instead of importing the commands, which takes six times as long."""


def entry_points() -> dict[str, EntryPoint]:
    """Return the installed commands by name. Of several with one name, the first counts."""
    from importlib import metadata

    found: dict[str, EntryPoint] = {}
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        found.setdefault(point.name, point)
    return found


def load(name: str) -> click.Command | None:
    """Return a command of another distribution, or None if it is unknown. Failure if it is not usable."""
    point = entry_points().get(name)
    if point is None:
        if name in KNOWN:
            distribution = KNOWN[name].distribution
            raise Failure(
                f"`plait {name}` is part of {distribution}, which is not installed", hint=_install(distribution)
            )
        return None
    try:
        command = point.load()
    except Exception as error:
        # A plugin is foreign code, and its import may raise anything. Report it without a traceback.
        raise Failure(f"`plait {name}` does not load: {error}", hint=f"it is installed by {_origin(point)}") from error
    if not isinstance(command, click.Command):
        raise Failure(f"`plait {name}` is no click command", hint=f"it is installed by {_origin(point)}")
    return command


def short_help(name: str) -> str:
    """Return the line about a command in the list of commands."""
    if name in KNOWN:
        return KNOWN[name].summary
    try:
        command = load(name)
    except Failure as failure:
        return f"({failure.message})"
    assert command is not None, "only installed ones are listed"
    return command.get_short_help_str(limit=90)


def _install(distribution: str) -> str:
    return f"pip install {distribution}"


def _origin(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
