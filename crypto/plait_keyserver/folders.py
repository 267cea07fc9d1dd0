"""A member's folder: the addresses of its key servers, their authority, and its identity.

`plait keys join` creates it. `plait sub --unseal` and `plait pub --seal` use it, and find it by the entry point
`folder` in `plait.membership`.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plait_crypto import SealError

from .client import Identity, KeyClient
from .membership import Membership

_SERVERS: Final = "servers.json"
_AUTHORITY: Final = "authority.pem"
IDENTITY: Final = "identity.pem"


def make_folder(path: Path, servers: Sequence[tuple[str, int]], authority: str, identity: Identity) -> None:
    """Store a membership; its key is readable by its owner alone."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_secret(path / IDENTITY, identity.to_pem().encode())
    (path / _AUTHORITY).write_text(authority)
    (path / _SERVERS).write_text(json.dumps([list(server) for server in servers]))


def folder_client(path: Path) -> KeyClient:
    """Return the client that requests this member's keys; raise SealError if the folder is invalid."""
    try:
        servers = [(str(host), int(port)) for host, port in json.loads((path / _SERVERS).read_text())]
        authority, identity = (path / _AUTHORITY).read_text(), (path / IDENTITY).read_text()
    except (OSError, ValueError, TypeError):
        raise SealError(f"{path} is not a member's folder", hint="`plait keys join` creates one") from None
    return KeyClient(servers, authority, Identity.from_pem(identity))


@asynccontextmanager
async def folder_member(path: Path) -> AsyncIterator[Membership]:
    """Yield the member, whose keys renew themselves."""
    async with await Membership.join(folder_client(path), folder=path) as member:
        yield member


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    path.unlink(missing_ok=True)  # an existing file would keep its mode
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
