"""The stage of a story: one broker, a network, and clients, on one virtual time.

stage = Stage()
slow, quick = stage.raw("slow"), stage.raw("quick")
stage.run(1)
slow.set_reading(False)
"""

from __future__ import annotations

from random import Random

from plait_broker import Broker, BrokerSettings, Gate, OpenGate

from ..timeline import Clock, Timeline
from .disks import Disk, DiskTerms
from .invariants.bounds import check_bounds
from .network import Network, Path
from .nodes import BrokerNode, BrokerTerms
from .raw_clients import RawClient
from .recorder import Recorder


class Stage:
    """A running broker with its disk and network."""

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        *,
        seed: int = 0,
        gate: Gate | None = None,
        path: Path | None = None,
        disk: DiskTerms | None = None,
        clock: tuple[float, float] = (0.0, 0.0),
        tick_s: float = 0.0,
    ) -> None:
        """`clock`: drift and offset of the broker's clock."""
        self.rng = Random(seed)
        self.timeline = Timeline()
        self.recorder = Recorder(self.timeline)
        self.network = Network(self.timeline, self.rng)
        self.path = path or Path()
        self.disk = Disk(self.timeline, self.rng, disk or DiskTerms())
        drift, offset_s = clock
        self.node = BrokerNode(
            "broker",
            self.network,
            self.recorder,
            Clock(self.timeline, drift, offset_s),
            self.disk,
            self.rng,
            BrokerTerms(settings or BrokerSettings(), gate if gate is not None else OpenGate(), tick_s),
        )
        self.node.start()

    @property
    def broker(self) -> Broker:
        """The broker of the current incarnation."""
        assert self.node.broker is not None
        return self.node.broker

    def raw(self, name: str, *, connect: bool = True, path: Path | None = None) -> RawClient:
        """Return a raw client."""
        client = RawClient(name, self.network, self.recorder, self.node, self.rng, path or self.path)
        if connect:
            client.connect()
            self.run(0.05)
        return client

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.timeline.run(self.timeline.now + seconds)
        if self.node.broker is not None:
            check_bounds(self.node.broker)
        assert not self.recorder.broken, self.recorder.broken
