"""Commands of other distributions, found through the entry-point group `plait.commands`.

A command that Plait has, but whose distribution is not installed, is not listed; asked for, it says what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import click

from .terminal.failures import Failure

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "plait.commands"


class Known(NamedTuple):
    """A command of Plait's own outside this distribution: what brings it, and one line about it."""

    distribution: str
    summary: str


KNOWN: Final = {
    "broker": Known("plait-broker", "Run a broker."),
    "peer": Known("plait-peer", "Run a peer without brokers."),
    "keyserver": Known("plait-crypto", "Run a key server."),
    "keys": Known("plait-crypto", "Create, issue and show keys."),
    "analyze": Known("plait-analytics", "Analyse recorded telemetry."),
}
"""Listing the commands says this of them and imports none: a broker alone would take six times as long."""


def entry_points() -> dict[str, EntryPoint]:
    """The installed ones, by command name; of two with one name the first."""
    from importlib import metadata

    found: dict[str, EntryPoint] = {}
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        found.setdefault(point.name, point)
    return found


def load(name: str) -> click.Command | None:
    """The command that another distribution brings, or None; Failure when it cannot be used."""
    point = entry_points().get(name)
    if point is None:
        if name in KNOWN:
            distribution = KNOWN[name].distribution
            raise Failure(
                f"`plait {name}` comes with {distribution}, which is not installed", hint=_install(distribution)
            )
        return None
    try:
        command = point.load()
    except Exception as error:
        # A plugin is foreign code: whatever its import raises is its own failure, never a traceback of ours.
        raise Failure(f"`plait {name}` does not load: {error}", hint=f"it comes from {_origin(point)}") from error
    if not isinstance(command, click.Command):
        raise Failure(f"`plait {name}` is no click command", hint=f"it comes from {_origin(point)}")
    return command


def short_help(name: str) -> str:
    """One line for the list of commands."""
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
