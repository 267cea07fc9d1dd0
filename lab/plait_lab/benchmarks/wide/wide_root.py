"""One overlay that knows the signed link states of many brokers; they are links, keys and documents, and do not run.

Time is virtual, and the processor time of the one overlay is real. Hashes, signatures and MACs are those of production.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from time import thread_time
from typing import Final

from plait_broker.overlay import Incarnation, Overlay, OverlaySettings
from plait_broker.overlay.outputs import Output, SendFrame
from plait_broker.overlay.security.identity import Identity
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.topology.flooding import link_state_key
from plait_core.wire import VERSION_MAX, Confirm, FrameDecoder, Publish
from plait_core.wire.event_block import encode_plain_block
from plait_core.wire.frame_types.envelope_frames import EndToEnd, Message, Signed, read_document, read_message
from plait_core.wire.frame_types.overlay_frames import InterestAck, InterestUpdate, LinkState

NEIGHBOURS: Final = 6
"""Neighbours of the overlay that runs: the mean of a graph of 1,000 brokers and 3,000 links."""

DELAY_US: Final = (200, 20_000)
"""The least and the greatest delay of a link."""

SETTINGS: Final = OverlaySettings(name="b0")


class WideRoot:
    """An overlay at one broker of a random connected graph."""

    def __init__(self, seed: int, brokers: int, links: int, settings: OverlaySettings = SETTINGS) -> None:
        self.rng = Random(f"wide/{seed}")
        self.now = 1.0
        self.decoder = FrameDecoder(version=VERSION_MAX, keep_unknown=True)
        """The decoder of a link."""
        self.events = 0
        """Events published so far."""
        self.identities = [Identity(self.rng) for _ in range(brokers)]
        self.auths = [MessageAuth(identity.id, identity) for identity in self.identities]
        self.ids = [identity.id for identity in self.identities]
        self.number_of = {id: number for number, id in enumerate(self.ids)}
        self.delays_us = self._graph(brokers, links)
        """By number of a broker, its neighbours' numbers and the delays to them."""
        self.neighbours = sorted(self.delays_us[0])
        self._versions = [0] * brokers
        self.overlay = Overlay(self.ids[0], settings, Incarnation(), self.identities[0], Random(seed), self.now)
        for number in self.neighbours:
            self.overlay.link_up(number, self.ids[number], f"b{number}", self.now, self.delays_us[0][number])
        for number in range(1, brokers):
            self.overlay.receive(self.ids[self.neighbours[0]], self.link_state(number), self.now)
        self.now += 0.2  # the storm of link states is over
        self.overlay.tick(self.now)
        self._introduce()
        self.ack_interest(self.take())
        assert len(self.overlay.reached) == brokers, "the graph is connected"

    def event(self) -> Publish:
        """Return the next event of a client."""
        self.events += 1
        block = encode_plain_block({"price": 100, "symbol": "ACME"}, b"x" * 64, 7, self.events, 1)
        assert block is not None
        return Publish(Confirm.NONE, block)

    def link_state(self, number: int) -> Signed:
        """Return the next version of a broker's link state."""
        self._versions[number] += 1
        links = sorted((self.ids[far], delay_us) for far, delay_us in self.delays_us[number].items())
        to, delays_us = zip(*links, strict=True)
        return self.auths[number].envelop(
            LinkState(self.ids[number], self._versions[number], f"b{number}", to, delays_us)
        )

    def _introduce(self) -> None:
        """Let all brokers know the keys of this one."""
        known = self.overlay.flooding.stored(link_state_key(self.ids[0]))
        assert known is not None
        link_state = read_document(known.signed)
        assert isinstance(link_state, LinkState)
        for auth in self.auths[1:]:
            auth.check(known.signed, link_state)

    def receive_message(self, number: int, message: Message) -> None:
        """Receive a message of another broker, over a neighbour."""
        neighbour = self.ids[self.neighbours[number % len(self.neighbours)]]
        self.overlay.receive(neighbour, self.auths[number].envelop_message(message), self.now)

    def ack_interest(self, outputs: Iterable[Output]) -> None:
        """Let all brokers ack the interest updates among these outputs."""
        for output in outputs:
            envelope = output.frame if isinstance(output, SendFrame) else None
            if not isinstance(envelope, EndToEnd):
                continue
            for at, to in enumerate(envelope.to):
                update = read_message(envelope, at)
                if isinstance(update, InterestUpdate):
                    (version,) = update.versions
                    ack = InterestAck(self.ids[0], to, version, update.offers[0], version)
                    self.receive_message(self.number_of[to], ack)

    def take(self) -> list[Output]:
        """Take all outputs."""
        outputs: list[Output] = []
        while self.overlay.pending:
            outputs += self.overlay.take_outputs(self.now)
        return outputs

    def change_delay(self) -> tuple[float, float]:
        """Receive a link state with another delay. Return the processor time until the next hop of one broker is known,
        and until those of all are, in seconds."""
        number = self.rng.randrange(1, len(self.ids))
        far = self.rng.choice(sorted(self.delays_us[number]))
        self.delays_us[number][far] = self.delays_us[far][number] = self.rng.randint(*DELAY_US)
        self.now += 1.0
        frames = [self.link_state(number), self.link_state(far)] if far else [self.link_state(number)]
        neighbour = self.ids[self.neighbours[0]]
        self.overlay.receive(neighbour, frames[0], self.now)  # the first end's; the link has the greater delay
        self.take()
        began = thread_time()
        self.overlay.receive(neighbour, frames[-1], self.now)
        self.take()
        self.overlay.routes.next_hop(self.ids[-1])
        first_s = thread_time() - began
        for to in self.ids[1:]:
            self.overlay.routes.next_hop(to)
        return first_s, thread_time() - began

    def _graph(self, brokers: int, links: int) -> list[dict[int, int]]:
        """Return a random connected graph in which broker 0 has `NEIGHBOURS` neighbours."""
        rng = self.rng
        ends = [(rng.randrange(near), near) for near in range(1, brokers)]
        known = {(near, far) for near, far in ends if near} | {(0, far) for far in range(1, NEIGHBOURS + 1)}
        for far in [far for near, far in ends if not near and far > NEIGHBOURS]:
            known.add((rng.randrange(1, NEIGHBOURS + 1), far))
        while len(known) < links:
            near, far = sorted(rng.sample(range(1, brokers), 2))
            known.add((near, far))
        graph: list[dict[int, int]] = [{} for _ in range(brokers)]
        for near, far in sorted(known):
            graph[near][far] = graph[far][near] = rng.randint(*DELAY_US)
        return graph
