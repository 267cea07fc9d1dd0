"""`plait gen`: generates files for deployments. Each generator is a module here, imported when it runs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Final

import click

from ..terminal.command_groups import LazyGroup

GENERATORS: Final = ("compose", "prometheus", "grafana", "secrets", "certs")


class Generators(LazyGroup):
    """The group of all generators."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in GENERATORS if find_spec(f"{__name__}.{name}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Generators, epilog="\b\nExample: plait gen prometheus --target 10.0.0.1:4681 --output monitoring")
def gen() -> None:
    """Generate files to deploy and monitor brokers."""


__all__ = ["gen"]
