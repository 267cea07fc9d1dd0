"""Publishers whose events wait for a full stream to another broker are asked to wait, if the broker is set so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plait_core.wire.frame_types.session_frames import HoldPublishes
from plait_lab.simulation.overlay.frame_client import FrameClient
from plait_lab.simulation.overlay.world import SETTINGS, World, WorldTerms

BYTES_PER_S = 125_000.0
PAYLOAD = bytes(1000)
BYTES_MAX = 1 << 20


class Narrow:
    """Two brokers with a narrow link between them, and small bounds of their streams."""

    def __init__(self, when_full: str) -> None:
        linking = replace(SETTINGS.linking, when_full=when_full)
        settings = replace(SETTINGS, linking=linking, overlay_stream_bytes_max=BYTES_MAX)
        self.world = World("narrow", brokers=2, terms=WorldTerms(settings=settings))
        self.world.link(0, 1, 0.005, bytes_per_s=BYTES_PER_S)
        self.world.start()
        self.publisher, self.other = self.world.client(0), self.world.client(0)
        self.subscription = self.world.client(1).subscribe("x >= 0")
        self.publisher.keeps_frames = self.other.keeps_frames = True
        for client in (self.publisher, self.other):
            client.advertise("x >= 0 or y >= 0")
        self.world.run(8.0)
        assert self.subscription.installed

    def publish(self, count: int) -> None:
        """Publish events, at 2 Mbit/s."""
        for _ in range(count):
            self.publisher.publish({"x": 1}, payload=PAYLOAD)
            self.world.run(0.004)

    def holds(self, client: FrameClient) -> list[bool]:
        """Return what a client was asked."""
        return [frame.held for frame in client.frames if isinstance(frame, HoldPublishes)]

    @property
    def dropped(self) -> int:
        return self.world.nodes[0].overlay.counts["overlay_full"]


def test_publishers_are_held_while_the_stream_is_full_and_then_go_on() -> None:
    narrow = Narrow("block")
    narrow.publish(100)
    assert narrow.holds(narrow.publisher) == [], "half of the bound is room for a burst"
    narrow.publish(1000)
    assert narrow.holds(narrow.publisher) == [True], "once"
    narrow.other.publish({"y": 1})
    narrow.world.run(0.1)
    assert narrow.holds(narrow.other) == [], "its events are for nobody behind the full stream"
    assert narrow.dropped == 0
    narrow.world.run(20.0)
    assert narrow.holds(narrow.publisher) == [True, False]
    assert len(narrow.subscription.received) == 1100


def test_a_broker_that_stops_sends_what_waits_before_it_closes_its_links() -> None:
    narrow = Narrow("drop")
    narrow.publish(600)
    node = narrow.world.nodes[0]
    assert node.overlay.unsent
    assert node.broker is not None
    node.broker.drain(narrow.world.now)
    node.act()
    narrow.world.run(20.0)
    assert len(narrow.subscription.received) == 600
    assert not node.connections


def test_publishers_are_held_for_their_own_destinations_alone() -> None:
    narrow = Narrow("block")
    narrow.publish(1100)
    hold = narrow.world.broker(0)._pipeline.hold
    assert narrow.holds(narrow.publisher) == [True]
    narrow.world.cut(0, 1)
    narrow.world.run(1.0)
    assert narrow.holds(narrow.publisher) == [True, False], "nobody waits for a broker that cannot be reached"
    assert len(hold) == 0


@pytest.mark.parametrize("when_full", ["drop", "block"])
def test_the_oldest_are_dropped_if_a_publisher_does_not_wait(when_full: str) -> None:
    narrow = Narrow(when_full)
    narrow.publish(3000)
    assert narrow.holds(narrow.publisher)[:1] == ([True] if when_full == "block" else [])
    assert narrow.dropped > 0
    narrow.world.run(20.0)
    received = [id.sequence for id in narrow.subscription.received]
    assert received == sorted(received), "in order, without the ones that were dropped"
    assert len(received) + narrow.dropped == 3000
    assert received[-1] == max(received)
    assert narrow.world.nodes[0].overlay.counts["again"] == 0, "and nothing was sent twice"
