"""`plait gen compose`: Compose files of an overlay, its key server, those who watch and analyse it, and examples.

It is read by Compose v2 and by docker-compose 1.29. Brokers are parted into networks; a broker with a link into another
network is in that one as well, so no network is needed by all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import click

from ..brokers.topologies import SHAPES, graph
from .beside_compose import beside_compose
from .compose_parts import BROKER, CLUSTER, HEADER, RELAY, RELAYED, REST
from .writing import write_files

BROKERS_MAX: Final = 64
NETWORKS_MAX: Final = 8
PORT: Final = 4680
PORT_STEP: Final = 10
"""Between brokers, on the machine they are published on: each has two, and room for TLS."""


class Overlay(NamedTuple):
    """Brokers by name, and the links between them."""

    names: list[str]
    links: list[tuple[int, int]]
    networks: int = 1

    def neighbours(self, broker: int) -> list[int]:
        """Those it is linked to, in order."""
        return sorted({near + far - broker for near, far in self.links if broker in (near, far)})

    def home(self, broker: int) -> int:
        """The network that it would be in if it had no links."""
        return broker * self.networks // len(self.names)

    def networks_of(self, broker: int) -> list[int]:
        """Its own, and those of later brokers that it is linked to."""
        return sorted({self.home(broker)} | {self.home(other) for other in self.neighbours(broker) if other > broker})


@click.command(epilog="\b\nExample: plait gen compose --brokers 7 --topology ring --networks 3 --output deployment")
@click.option("--brokers", type=click.IntRange(1, BROKERS_MAX), default=5, show_default=True, help="How many.")
@click.option(
    "--topology", metavar=SHAPES, default="braid", show_default=True,
    help="Who is linked to whom. A file has a link a line, as two names; it says how many brokers there are.",
)  # fmt: skip
@click.option("--networks", type=click.IntRange(1, NETWORKS_MAX), default=2, show_default=True, help="How many.")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("docker"), show_default=True,
    help="The directory to write to.",
)  # fmt: skip
@click.option("--replace", is_flag=True, help="Write over files that are there.")
def compose(brokers: int, topology: str, networks: int, output: Path, replace: bool) -> None:
    """Write Compose files: an overlay with what belongs to it, and links to do harm to."""
    overlay = _overlay(brokers, topology, networks)
    write_files(output, compose_files(overlay) | beside_compose(overlay.names), replace=replace)


def compose_files(overlay: Overlay) -> dict[str, str]:
    """The files, by name."""
    blocks = [_broker(overlay, number) for number in range(len(overlay.names))]
    first, last = overlay.names[0], overlay.names[-1]
    middle = overlay.names[len(overlay.names) // 2]
    places = {
        "first": first, "last": last, "middle": middle, "networks": _listed(map(_network, range(overlay.networks))),
        "first_network": _network(overlay.home(0)), "last_network": _network(overlay.home(len(overlay.names) - 1)),
        "middle_network": _network(overlay.home(len(overlay.names) // 2)),
    }  # fmt: skip
    rest = REST.format(
        **places,
        all_networks="\n".join(f"  {_network(number)}: {{}}" for number in range(overlay.networks)),
        data_volumes="\n".join(f"  {name}-data: {{}}" for name in overlay.names),
    )
    return {
        "compose.yaml": HEADER.format(**places) + "\n".join(blocks) + rest,
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
    """The same overlay, each link through a relay, which both ends dial, each at a port of its own."""
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
    """A list of texts as TOML writes it, in single quotes of YAML."""
    quoted = ", ".join(f'"{address}"' for address in addresses)
    return f"'[{quoted}]'"


_CHAOS: Final = """# Written by `plait gen compose`. Puts a relay into each link, to make it slow, lossy, cut or frozen:
#   export COMPOSE_FILE=compose.yaml:compose.chaos.yaml
#   docker compose up -d
#   docker compose exec link-{near}-{far} plait chaos set 127.0.0.1:4699 --delay 200ms
# :4699 is the relay that the first of the two dials, :4698 the other one's.
services:
"""
