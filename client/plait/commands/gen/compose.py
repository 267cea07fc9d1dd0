"""`plait gen compose`: Compose files for an overlay, its key server, monitoring, analytics and examples.

Compose v2 and docker-compose 1.29 read them. Brokers are divided among networks. A broker with a link into another
network joins that network too, so no network contains all brokers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import click

from ..brokers.topologies import SHAPES, graph
from .compose_mounts import mounted_files
from .compose_parts import BROKER, CLUSTER, HEADER, RELAY, RELAYED, REST
from .writing import write_files

BROKERS_MAX: Final = 64
NETWORKS_MAX: Final = 8
PORT: Final = 4680
PORT_STEP: Final = 10
"""Distance between the published ports of two brokers. Each has two, and room for TLS."""


class Overlay(NamedTuple):
    """A graph of brokers, divided among networks."""

    names: list[str]
    links: list[tuple[int, int]]
    networks: int = 1

    def neighbours(self, broker: int) -> list[int]:
        """Return the positions of the linked brokers, ascending."""
        return sorted({near + far - broker for near, far in self.links if broker in (near, far)})

    def own_network(self, broker: int) -> int:
        """Return a broker's network without regard to its links."""
        return broker * self.networks // len(self.names)

    def networks_of(self, broker: int) -> list[int]:
        """Return a broker's own network, and those of later brokers that it is linked to."""
        return sorted(
            {self.own_network(broker)}
            | {self.own_network(other) for other in self.neighbours(broker) if other > broker}
        )


@click.command(epilog="\b\nExample: plait gen compose --brokers 7 --topology ring --networks 3 --output deployment")
@click.option("--brokers", type=click.IntRange(1, BROKERS_MAX), default=5, show_default=True, help="Number of brokers.")
@click.option(
    "--topology", metavar=SHAPES, default="braid", show_default=True,
    help="Shape of the overlay, or a file with one link a line, as two broker names.",
)  # fmt: skip
@click.option(
    "--networks", type=click.IntRange(1, NETWORKS_MAX), default=2, show_default=True, help="Number of networks."
)
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("docker"), show_default=True,
    help="The directory to write to.",
)  # fmt: skip
@click.option("--replace", is_flag=True, help="Overwrite existing files.")
def compose(brokers: int, topology: str, networks: int, output: Path, replace: bool) -> None:
    """Generate Compose files of an overlay, its services, and relays in its links for faults."""
    overlay = _overlay(brokers, topology, networks)
    write_files(output, compose_files(overlay) | mounted_files(overlay.names), replace=replace)


def compose_files(overlay: Overlay) -> dict[str, str]:
    """Return the files by name."""
    blocks = [_broker(overlay, number) for number in range(len(overlay.names))]
    first, last = overlay.names[0], overlay.names[-1]
    middle = overlay.names[len(overlay.names) // 2]
    names = {
        "first": first, "last": last, "middle": middle, "networks": _listed(map(_network, range(overlay.networks))),
        "first_network": _network(overlay.own_network(0)),
        "last_network": _network(overlay.own_network(len(overlay.names) - 1)),
        "middle_network": _network(overlay.own_network(len(overlay.names) // 2)),
    }  # fmt: skip
    rest = REST.format(
        **names,
        all_networks="\n".join(f"  {_network(number)}: {{}}" for number in range(overlay.networks)),
        data_volumes="\n".join(f"  {name}-data: {{}}" for name in overlay.names),
    )
    return {
        "compose.yaml": HEADER.format(**names) + "\n".join(blocks) + rest,
        "compose.chaos.yaml": _relayed(overlay),
        "compose.cluster.yaml": CLUSTER,
    }


def _broker(overlay: Overlay, number: int) -> str:
    name = overlay.names[number]
    port = PORT + PORT_STEP * number
    return BROKER.format(
        name=name,
        links=_addresses(f"{overlay.names[other]}:{PORT}" for other in overlay.neighbours(number)),
        port=port,
        http=port + 1,
        networks=_listed(map(_network, overlay.networks_of(number))),
    )


def _relayed(overlay: Overlay) -> str:
    """Return an overlay file that routes each link through a relay. Its ends dial the relay at different ports."""
    dialled: dict[int, list[str]] = {number: [] for number in range(len(overlay.names))}
    relays = []
    for near, far in sorted(overlay.links):
        relay = f"link-{overlay.names[near]}-{overlay.names[far]}"
        dialled[near].append(f"{relay}:{PORT}")
        dialled[far].append(f"{relay}:{PORT - 1}")
        shared = [each for each in overlay.networks_of(near) if each in overlay.networks_of(far)]
        network = _network(shared[0])
        relays.append(RELAY.format(name=relay, near=overlay.names[near], far=overlay.names[far], network=network))
    brokers = [
        RELAYED.format(name=overlay.names[number], links=_addresses(relays_of)) for number, relays_of in dialled.items()
    ]
    near, far = min(overlay.links, default=(0, 0))
    return _CHAOS.format(near=overlay.names[near], far=overlay.names[far]) + "\n".join(brokers + relays)


def _overlay(brokers: int, topology: str, networks: int) -> Overlay:
    names, links = graph(topology, brokers, "broker", BROKERS_MAX)
    return Overlay(names, links, min(networks, len(names)))


def _network(number: int) -> str:
    return f"net-{number + 1}"


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _addresses(addresses: Iterable[str]) -> str:
    """Return a list of strings as TOML, in single quotes of YAML."""
    quoted = ", ".join(f'"{address}"' for address in addresses)
    return f"'[{quoted}]'"


_CHAOS: Final = """# Written by `plait gen compose`. Puts a relay into each link, to make it slow, lossy, cut or frozen:
#   export COMPOSE_FILE=compose.yaml:compose.chaos.yaml
#   docker compose up -d
#   docker compose exec link-{near}-{far} plait chaos set 127.0.0.1:4699 --delay 200ms
# :4699 is the relay that the first of the two dials, :4698 the other one's.
services:
"""
