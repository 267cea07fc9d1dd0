"""`plait keyserver`: one replica as a process.

It prints `ready` to standard output when it serves, and logs to stderr.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Final

import click

from plait_core import PlaitError

from ..server.directory import KeyDirectory, Secrets
from ..server.service import KeyService
from .passphrases import passphrase

DEFAULT_LISTEN: Final = "127.0.0.1:4679"
"""One port below the brokers' 4680: `plait up` counts upwards from there, two ports for each broker."""


@click.command(epilog="\b\nExample: plait keyserver ./realm --listen 0.0.0.0:4679 --host keys.example.org")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--listen", default=DEFAULT_LISTEN, show_default=True, metavar="H:P", help="Where to serve.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A name of this host, besides localhost.")
@click.option("--passphrase-file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def keyserver(directory: Path, listen: str, hosts: tuple[str, ...], passphrase_file: Path | None) -> None:
    """Run a key server.

    It issues keys of sealed events, by the policy in DIRECTORY, until SIGTERM or Ctrl+C.

    Replicas are started in the same way on copies of the directory's vault, policy and revocation list.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise click.UsageError(f"--listen {listen[:80]!r} is not HOST:PORT")
    kept = KeyDirectory(directory)
    try:
        secrets = kept.open(passphrase(passphrase_file))
        asyncio.run(_serve(kept, secrets, host.strip("[]"), int(port), hosts))
    except (PlaitError, OSError) as error:
        raise click.ClickException(str(error)) from None


async def _serve(directory: KeyDirectory, secrets: Secrets, host: str, port: int, hosts: tuple[str, ...]) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    service = KeyService(directory, secrets, hosts=("localhost", "127.0.0.1", *hosts))
    await service.start(host, port)
    print(f"ready listen={host}:{service.port} realm={secrets.realm.digest.hex()[:16]}", flush=True)
    await stop.wait()
    await service.stop()
