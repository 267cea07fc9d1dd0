"""All chains that can be measured.

Events flow from the first server to the last. Each server dials the next, or as its system requires.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

from ...competitors.contender import HOST, Contender, find_program
from ...competitors.systems.mosquitto import TOPIC, Mosquitto
from ...competitors.systems.nats import Nats
from ...competitors.systems.plait_sdk import Plait, broker_options
from ...competitors.systems.zenoh import Zenoh
from .chain import Chain


class PlaitChain(Chain):
    """Brokers with one link between neighbours."""

    contender: ClassVar[Contender] = Plait()
    means: ClassVar[str] = "links; a content filter at the subscriber, matched at the publisher's broker"

    def commands(self, ports: Sequence[int], place: Path) -> list[list[str]]:
        program = [sys.executable, "-m", "plait_broker"]
        return [
            [
                *program,
                *broker_options(near),
                "--name",
                f"chain-{number}",
                *(["--link", f"{HOST}:{far}"] if far else []),
            ]
            for number, (near, far) in enumerate(pairwise([*ports, 0]))
        ]


class NatsChain(Chain):
    """A hub with leaf nodes around it: routes of a cluster would connect every pair of servers."""

    contender: ClassVar[Contender] = Nats()
    means: ClassVar[str] = "leaf nodes of a hub between them; a subject"

    def commands(self, ports: Sequence[int], place: Path) -> list[list[str]]:
        program = find_program("nats-server")
        assert program is not None, "nothing is missing"
        assert len(ports) == 3, "one hub"
        leaf_port = ports[1] + 1
        commands = []
        for number, port in enumerate(ports):
            joined = f"port: {leaf_port}" if number == 1 else f'remotes: [{{url: "nats://{HOST}:{leaf_port}"}}]'
            settings = place / f"nats-{number}.conf"
            lines = [f"server_name: chain-{number}", f"listen: {HOST}:{port}", f"leafnodes {{ {joined} }}"]
            settings.write_text("\n".join(lines) + "\n", encoding="ascii")
            commands.append([program, "--config", str(settings)])
        return commands


class MosquittoChain(Chain):
    """Outward bridges."""

    contender: ClassVar[Contender] = Mosquitto()
    means: ClassVar[str] = "bridges outward, QoS 0; a topic"

    def commands(self, ports: Sequence[int], place: Path) -> list[list[str]]:
        commands = []
        for number, port in enumerate(ports):
            folder = place / f"mosquitto-{number}"
            folder.mkdir()
            command = self.contender.command(port, folder)
            if number + 1 < len(ports):
                bridge = [
                    f"connection chain-{number}",
                    f"address {HOST}:{ports[number + 1]}",
                    f"topic {TOPIC} out 0",
                    "notifications false",
                    "try_private true",
                ]
                with Path(command[-1]).open("a", encoding="ascii") as settings:
                    settings.write("\n".join(bridge) + "\n")
            commands.append(command)
        return commands


class ZenohChain(Chain):
    """Routers, each connected to the next, with discovery disabled."""

    contender: ClassVar[Contender] = Zenoh()
    means: ClassVar[str] = "routers; a key"

    def commands(self, ports: Sequence[int], place: Path) -> list[list[str]]:
        program = [sys.executable, "-m", "plait_lab.benchmarks.chains.zenoh_router"]
        return [[*program, str(near), str(far)] for near, far in pairwise([*ports, 0])]


OURS: Final = PlaitChain()
RIVALS: Final[tuple[Chain, ...]] = (NatsChain(), MosquittoChain(), ZenohChain())
