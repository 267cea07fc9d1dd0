"""The group `plait`: lists the commands, and imports a command only when it is run.

Each line of the list is written here and in its command, so that listing imports nothing. A test compares the two.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import click

from . import plugins
from .terminal.command_groups import LazyGroup
from .terminal.failures import DONE, INTERRUPTED, Failure, as_failure
from .terminal.interrupts import interruptible

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Publish and subscribe": {
        "pub": "Publish events.",
        "sub": "Subscribe: print the events that match a filter.",
        "adv": "Advertise a filter, and show whether any subscription matches it.",
        "filter": "Check, evaluate, compare and explain filters.",
        "durable": "Show, remove and move durable subscriptions.",
    },
    "Brokers": {
        "up": "Start a local broker, or an overlay of several.",
        "ls": "List all brokers, or links, clients, subscriptions and advertisements of one.",
        "top": "Watch brokers, links and subscriptions of an overlay, live.",
        "topo": "Show the brokers and links of an overlay, with the delay of each link.",
        "route": "Show the paths of events that match a filter, and why.",
        "trace": "Publish a traced event and show every step on its path.",
        "why": "Explain why an event was, or was not, delivered.",
        "peer": "Run a peer without brokers.",
        "bridge": "Forward events between brokers and a group of peers.",
    },
    "Try and measure": {
        "demo": "Show Plait at work: filters, a slowed link, a killed broker.",
        "bench": "Measure throughput, latency and loss.",
        "chaos": "Delay, cut or freeze links, and kill or pause brokers.",
        "doctor": "Check this machine, and the overlay for single points of failure and full links.",
    },
    "Deploy": {
        "gen": "Generate files to deploy and monitor brokers.",
    },
    "Settings": {
        "context": "Save brokers' addresses under names.",
        "completion": "Print the completion script of a shell.",
        "version": "Print the versions of the installed distributions.",
    },
}
_FOLDERS: Final = {
    "pub": "events",
    "sub": "events",
    "adv": "events",
    "filter": "events",
    "up": "brokers",
    "peer": "brokers",
    "bridge": "brokers",
    "durable": "observe",
    "ls": "observe",
    "top": "observe",
    "topo": "observe",
    "route": "observe",
    "trace": "observe",
    "why": "observe",
    "chaos": "chaos",
    "doctor": "doctor",
    "context": "settings",
    "completion": "settings",
    "version": "settings",
}
"""Folder of each command's module. Other commands are folders themselves."""

_BUILT_IN: Final = {name for commands in SECTIONS.values() for name in commands}
_PLUGINS: Final = "Brokers"
"""Section that lists the commands of other distributions."""


_UNWRITABLE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}
"""Errors of writing to a full or broken disk."""


class Root(LazyGroup):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_BUILT_IN | set(plugins.entry_points()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _BUILT_IN:
            interruptible()  # foreign code may handle Ctrl-C
            return plugins.load(cmd_name)
        folder = f"{_FOLDERS[cmd_name]}." if cmd_name in _FOLDERS else ""
        command = getattr(import_module(f"{__package__}.{folder}{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        others = {name: plugins.short_help(name) for name in plugins.entry_points() if name not in _BUILT_IN}
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl(list((others | commands if section == _PLUGINS else commands).items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _output_errors():  # help is printed here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        from plait_core import PlaitError

        try:
            with _output_errors():
                return super().invoke(ctx)
        except PlaitError as error:
            raise as_failure(error) from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run as click does, except that an interrupted command exits with 130 and prints nothing."""
        try:
            result = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        if standalone_mode:
            sys.exit(result if isinstance(result, int) else 0)
        return result


@contextmanager
def _output_errors() -> Iterator[None]:
    """End quietly when the reader of our output is gone; Failure when the disk is full or broken."""
    try:
        yield
    except BrokenPipeError:
        # The reader has enough, as in `plait sub ... | head -1`.
        _discard_output()
        raise click.exceptions.Exit(DONE) from None
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _discard_output()
        raise Failure(f"standard output cannot be written: {error.strerror}") from error


def _discard_output() -> None:
    """Redirect stdout, because Python flushes it again at exit and would print an error then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `plait demo`; then `plait up`, and `plait sub` and `plait pub` in two other terminals.",
)
@click.version_option(package_name="plait", message="plait %(version)s")
@click.pass_context
def plait(ctx: click.Context) -> None:
    """Content-based publish/subscribe: subscribe by content, not by topic or sender."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False
