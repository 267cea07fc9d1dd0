"""A member's folder: the addresses of its key servers, their authority, and its identity.

`plait keys join` creates it. `plait sub --unseal` and `plait pub --seal` use it, and find it by the entry point
`folder` in `plait.membership`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plait_crypto import SealError

from .client import Identity, KeyClient
from .membership import Membership
from .private_files import check_folder, private_folder, write_private

_SERVERS: Final = "servers.json"
_AUTHORITY: Final = "authority.pem"
IDENTITY: Final = "identity.pem"


def make_folder(path: Path, servers: Sequence[tuple[str, int]], authority: str, identity: Identity) -> None:
    """Store a membership, readable by its owner alone; raise SealError if others may write the folder.

    The authority is not secret, but a member trusts it: nobody else may exchange it.
    """
    private_folder(path)
    write_private(path / _AUTHORITY, authority.encode())
    write_private(path / _SERVERS, json.dumps([list(server) for server in servers]).encode())
    identity.save(path / IDENTITY)


def folder_client(path: Path) -> KeyClient:
    """Return the client that requests this member's keys; raise SealError if the folder is invalid."""
    try:
        servers = [(str(host), int(port)) for host, port in json.loads((path / _SERVERS).read_text())]
        authority, identity = (path / _AUTHORITY).read_text(), (path / IDENTITY).read_text()
    except (OSError, ValueError, TypeError):
        raise SealError(f"{path} is not a member's folder", hint="`plait keys join` creates one") from None
    check_folder(path)
    return KeyClient(servers, authority, Identity.from_pem(identity))


@asynccontextmanager
async def folder_member(path: Path) -> AsyncIterator[Membership]:
    """Yield the member, whose keys renew themselves."""
    async with await Membership.join(folder_client(path), folder=path) as member:
        yield member
