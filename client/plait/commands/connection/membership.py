"""Keys of `plait sub --unseal` and `plait pub --seal`: a member's folder, opened by plait-crypto."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import click

from ..terminal.failures import Failure

GROUP: Final = "plait.membership"

FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)


def member(folder: Path) -> AbstractAsyncContextManager[Any]:
    """Return a context manager of a `plait_keyserver.Membership`."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP, name="folder"):
        opened: AbstractAsyncContextManager[Any] = entry.load()(folder)
        return opened
    raise Failure("sealed events need plait-crypto, which is not installed", hint="pip install 'plait[sealed]'")
