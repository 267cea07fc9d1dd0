"""docs/reference/cli.md: the help of every command."""

from __future__ import annotations

from typing import Final

from plait.commands.terminal.help_texts import help_texts

from .reading import HEAD

WIDTH: Final = 100


def cli_page() -> str:
    """Return the page."""
    head = (
        HEAD + "# Command line\n\n`plait COMMAND --help` says the same. `--json` prints one JSON object a line. "
        "Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted.\n\n"
        "The broker is `--url`, else the context that `--context` names, else `PLAIT_URL`, else the context that "
        "`PLAIT_CONTEXT` names, else the context in use (`plait context`), else `plait://127.0.0.1:4680`. "
        "`plait.connect()` goes to the same broker."
    )
    entries = (f"## {name}\n\n```text\n{help}\n```" for name, help in help_texts(WIDTH))
    return "\n\n".join([head, *entries]) + "\n"
