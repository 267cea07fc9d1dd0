"""The list of commands, help everywhere, commands of other distributions, and how failures end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner

from plait.commands import plugins
from plait.commands.root import SECTIONS, plait


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command of this distribution with its path."""
    context = click.Context(group)
    names = [name for section in SECTIONS.values() for name in section] if not path else group.list_commands(context)
    for name in names:
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


COMMANDS = dict(commands(plait))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_an_example(path: tuple[str, ...]) -> None:
    for option in ("-h", "--help"):
        ran = CliRunner().invoke(plait, [*path, option])
        assert ran.exit_code == 0
        assert f"Example: plait {' '.join(path)}" in ran.stdout


def test_the_command_list_repeats_the_help_of_each_command() -> None:
    """Check that the list repeats each command's own help line. The list has a copy so that it imports no command."""
    for section in SECTIONS.values():
        for name, help_line in section.items():
            assert help_line in (said := COMMANDS[(name,)].get_short_help_str(200), f"{said}.")
    for name in plugins.KNOWN.keys() & plugins.entry_points().keys():
        command = plugins.load(name)
        assert command is not None
        assert command.get_short_help_str(200) == plugins.KNOWN[name].summary


def test_the_list_has_sections() -> None:
    ran = CliRunner().invoke(plait, ["--help"])
    assert ran.exit_code == 0
    for section in SECTIONS:
        assert f"\n{section}:\n" in ran.stdout


@pytest.mark.parametrize(("command", "distribution"), [("analyze", "plait-analytics"), ("keys", "plait-crypto")])
def test_a_missing_distribution_is_named(monkeypatch: pytest.MonkeyPatch, command: str, distribution: str) -> None:
    monkeypatch.setattr(plugins, "entry_points", dict)
    ran = CliRunner().invoke(plait, [command, "--anything"])
    assert ran.exit_code == 1
    assert f"pip install {distribution}" in ran.stderr
    assert f"\n  {command} " not in CliRunner().invoke(plait, ["--help"]).stdout


def test_an_unknown_command_is_wrong_use() -> None:
    ran = CliRunner().invoke(plait, ["pubb"])
    assert ran.exit_code == 2
    assert "pubb" in ran.stderr


@click.command()
def extra() -> None:
    """Something from elsewhere."""
    click.echo("extra ran")


NO_COMMAND = 1


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    point = EntryPoint("extra", request.param, plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda: {"extra": point})


@pytest.mark.parametrize("plugin", [f"{__name__}:extra"], indirect=True)
def test_commands_of_other_distributions_are_found(plugin: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[extra.callback.__module__])
    assert CliRunner().invoke(plait, ["extra"]).stdout == "extra ran\n"
    assert "Something from elsewhere." in CliRunner().invoke(plait, ["-h"]).stdout


@pytest.mark.parametrize("plugin", ["no_such_module:command", "sys:path"], indirect=True)
def test_a_plugin_that_does_not_work_harms_nobody(plugin: None) -> None:
    ran = CliRunner().invoke(plait, ["extra"])
    assert ran.exit_code == 1
    assert ran.stderr.startswith("Error: `plait extra` ")
    assert CliRunner().invoke(plait, ["--help"]).exit_code == 0


HEAVY = {
    "asyncio",
    "networkx",
    "numpy",
    "rich",
    "ssl",
    "starlette",
    "uvicorn",
    "prometheus_client",
    "msgpack",
    "sqlite3",
    "email",
}
HEAVY |= {
    "plait_broker",
    "plait_lab",
    "plait_core.matching",
    "plait_core.wire",
    "plait.client",
    "plait.protocol.session",
}


def imported(*arguments: str) -> set[str]:
    """Run a command in a new process, and return the modules that it imported."""
    code = (
        "import sys\n"
        "from plait.commands.root import plait\n"
        f"try: plait.main({list(arguments)!r})\n"
        "except SystemExit as exit: assert not exit.code, exit.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    return set(ran.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["filter", "check", "x == 1"], set()),
        (["filter", "explain", "x == 1", '{"x": 1}'], set()),
        (["sub", "--help"], set()),
        (["pub", "--help"], set()),
        (["gen", "compose", "--help"], set()),
        (["up", "--help"], set()),
        (["--help"], {"email"}),  # importlib.metadata reads distributions' metadata by it
        (["version"], {"email"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_what_it_needs_and_no_more(arguments: list[str], needed: set[str]) -> None:
    assert imported(*arguments) & HEAVY <= needed


def test_every_heavy_module_can_be_imported() -> None:
    """The test above would always pass if a name in it were wrong."""
    code = f"import importlib; [importlib.import_module(name) for name in {sorted(HEAVY)!r}]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
