"""`plait`: the list of commands, and the way to each. A command is imported when it is run, not before.

What the list says of a command stands here as well as in the command, so that listing imports nothing; a test holds
the two together.
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
from .terminal.failures import DONE, INTERRUPTED, Failure, as_failure
from .terminal.interrupts import interruptible

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Publish and subscribe": {
        "pub": "Publish events.",
        "sub": "Subscribe: print the events that match a filter.",
        "adv": "Advertise: say what you will publish, see who listens.",
        "filter": "Check, try out, compare and explain filters.",
    },
    "Brokers": {
        "up": "Start a local broker, or an overlay of several, and say how to use it.",
        "ls": "List what a running broker has: links, clients, subscriptions, advertisements; or all brokers.",
        "top": "Watch brokers, links and subscriptions of an overlay, live.",
        "topo": "Show all brokers of an overlay, their links, and how long each link takes.",
        "route": "Show where events that match a filter go, and why.",
        "trace": "Publish a marked event and show every step that it takes.",
        "why": "Say why an event was, or was not, delivered to a subscription.",
        "bridge": "Carry events between brokers and a group without brokers.",
    },
    "Try and measure": {
        "demo": "Show Plait at work: filters, a slowed link, a killed broker.",
        "bench": "Measure throughput, latency and loss.",
        "chaos": "Shape links and harm brokers, to see what becomes of events.",
        "doctor": "Check this machine, and the overlay for single points of failure.",
    },
    "Deploy": {
        "gen": "Write files to deploy and watch brokers with.",
    },
    "Settings": {
        "context": "Save brokers' addresses under names.",
        "completion": "Print the completion script of a shell.",
        "version": "Print the versions of what is installed.",
    },
}
_FOLDERS: Final = {
    "pub": "events",
    "sub": "events",
    "adv": "events",
    "filter": "events",
    "up": "brokers",
    "bridge": "brokers",
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
"""The folder of a command's module; the others are folders themselves."""

_BUILT_IN: Final = {name for commands in SECTIONS.values() for name in commands}
_PLUGINS: Final = "Brokers"
"""Where commands of other distributions are listed."""


_UNWRITABLE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}
"""What writing to a full or broken disk says."""


class Root(click.Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_BUILT_IN | set(plugins.entry_points()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _BUILT_IN:
            interruptible()  # foreign code may end as it likes
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
        with _stream_trouble():  # help is printed here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        from plait_core import PlaitError

        try:
            with _stream_trouble():
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
        """As click's, except that an interrupted command ends with 130 and without a word."""
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
def _stream_trouble() -> Iterator[None]:
    """What becomes of output that nobody takes."""
    try:
        yield
    except BrokenPipeError:
        # Whoever read us has enough: `plait sub ... | head -1`.
        _say_no_more()
        raise click.exceptions.Exit(DONE) from None
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _say_no_more()
        raise Failure(f"standard output cannot be written: {error.strerror}") from error


def _say_no_more() -> None:
    """Python flushes once more when it ends, and would complain then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `plait demo`; then `plait up`, and `plait sub` and `plait pub` in two other terminals.",
)
@click.version_option(package_name="plait", message="plait %(version)s")
@click.pass_context
def plait(ctx: click.Context) -> None:
    """Content-based publish/subscribe: say what you want to hear, not from whom."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False
