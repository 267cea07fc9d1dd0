"""An unknown command is answered with the nearest one."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from plait.commands.root import plait


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["subb"], "did you mean `plait sub`?"),
        (["keysever"], "did you mean `plait keyserver`?"),
        (["help"], "see `plait --help`"),
        (["gen", "compse"], "did you mean `plait gen compose`?"),
    ],
)
def test_the_nearest_command_is_named(typed: list[str], said: str) -> None:
    ran = CliRunner().invoke(plait, typed, prog_name="plait")
    assert (ran.exit_code, f"No such command {typed[-1]!r}." in ran.stderr, said in ran.stderr) == (2, True, True)


def test_an_unknown_option_is_no_command() -> None:
    ran = CliRunner().invoke(plait, ["--verson"], prog_name="plait")
    assert (ran.exit_code, "command" in ran.stderr) == (2, False)
    assert "--version" in ran.stderr
