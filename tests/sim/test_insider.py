"""S3 beyond the frames of a production broker: a hostile broker signs senseless frames with its own keys.

Frames that honest brokers relay must break nothing between them: no exception, and no closed link.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from plait_broker import BrokerSettings
from plait_broker.overlay import Overlay
from plait_core.events import Event
from plait_core.limits import BROKERS_MAX, FRAME_BYTES_MAX, PATH_MAX
from plait_core.wire import Forward, encode_block, encode_frame
from plait_core.wire.frame_header import PREFIX, VERSION_MAX
from plait_core.wire.frame_types.envelope_frames import LINK_STATE, Signed, SourceRouted, envelop_message
from plait_core.wire.frame_types.overlay_frames import Advertisement, InterestUpdate, StreamSkip
from plait_core.wire.msgpack_codec import pack
from plait_lab.simulation.overlay.enemies.honest_oracle import EXPULSIONS, HonestOracle
from plait_lab.simulation.overlay.enemies.insider import EVERYTHING, Insider, Persona, unreadable
from plait_lab.simulation.overlay.world import SETTINGS, World, WorldTerms
from plait_lab.simulation.overlay.worlds.insiders import InsiderHistory

SEEDS = 100 if os.environ.get("PLAIT_NIGHTLY") else 12
SHARE = 4

BLOCK = encode_block(Event({"x": 5}, b"payload", publisher=77, sequence=1))


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_honest_brokers_get_all_that_is_theirs_while_an_insider_sends_what_it_likes(first: int) -> None:
    due = harmed = 0
    for seed in range(first, first + SHARE):
        history = InsiderHistory(seed)
        complaints = history.play()
        assert not complaints, f"seed {seed}: {complaints[0]}"
        assert history.insider.closed is None, "an honest broker might send each of these frames"
        due += history.world.oracle.due
        harmed += history.harmed
    assert due > 30 * SHARE, "something was to be delivered"
    assert harmed >= 10 * SHARE


# --- single situations ------------------------------------------------------------------------------------------------


class InsiderWorld:
    """A chain of brokers, with an insider at the first one."""

    def __init__(self, brokers: int = 2, settings: BrokerSettings = SETTINGS, log_secret: bytes = b"") -> None:
        self.world = World("insider", brokers=brokers, terms=WorldTerms(settings, signed=True))
        for near in range(brokers - 1):
            self.world.link(near, near + 1, 0.002)
        self.insider = Insider(self.world, self.world.nodes[0], log_secret=log_secret)
        self.oracle = HonestOracle(self.world, self.insider)
        self.world.start()
        self.world.run(3.0)
        self.insider.link()

    @property
    def overlays(self) -> list[Overlay]:
        return [node.overlay for node in self.world.nodes]

    def assert_unharmed(self) -> None:
        """Check that no link was closed and that an event passes from one end to the other."""
        world = self.world
        for near, far in pairwise(self.overlays):
            assert far.me in near.neighbours
            assert near.me in far.neighbours
        closed = self.insider.closed
        assert closed is None or closed.code not in EXPULSIONS, "each frame might be an honest broker's"
        publisher, subscriber = world.client(0), world.client(len(world.nodes) - 1)
        publisher.advertise("seen == true")
        subscription = subscriber.subscribe("seen == true")
        world.run(15.0)
        assert subscription.installed
        publisher.publish({"seen": True})
        world.run(10.0)
        assert len(subscription.received) == 1
        self.oracle.judge()
        assert not world.complaints


def test_an_event_that_cannot_be_read_is_counted_and_nobody_else_is_blamed() -> None:
    chain = InsiderWorld()
    world, insider = chain.world, chain.insider
    subscription = world.client(1).subscribe("x > 0")
    assert world.run_until(lambda: subscription.installed, 15.0), "though the insider has sent no interest"
    home, broker = world.nodes[1].overlay, world.nodes[1].broker
    assert broker is not None
    block = unreadable()
    for position in (1, 2):
        insider.send(insider.persona.auth.envelop_message(StreamSkip(home.me, insider.persona.id, position - 1)))
        insider.send(insider.persona.event(home.me, position, block))
        world.run(1.0)
    assert broker.counters.dropped["invalid"] == 1, "the second is a repetition"
    assert home.event_streams.incoming[insider.persona.id].up_to == 2, "and both are taken"
    chain.assert_unharmed()


def test_an_event_with_as_long_a_way_as_can_be_named_goes_no_further() -> None:
    chain = InsiderWorld(3)
    world, insider = chain.world, chain.insider
    far = world.nodes[2].overlay.me
    path = (*range(1, PATH_MAX), insider.persona.id)
    insider.send(Forward(1, 0, 0, path, ((far, 1, 0),), BLOCK))
    world.run(1.0)
    assert world.nodes[0].overlay.counts["no_way"] == 1
    chain.assert_unharmed()


def test_an_age_beyond_what_can_be_written_by_a_detour() -> None:
    chain = InsiderWorld(3)
    world, insider = chain.world, chain.insider
    between, next, last = (overlay.me for overlay in chain.overlays)
    old = Forward(1, 2**64 - 1, 0, (insider.persona.id,), ((last, 1, 0),), BLOCK)
    insider.send(SourceRouted((insider.persona.id, between, next, last), 1, 2**32 - 1, encode_frame(old)))
    world.run(1.0)
    assert world.nodes[2].overlay.counts["forged"] == 1, "it has come"
    chain.assert_unharmed()


def test_a_detour_that_grows_beyond_a_frame_on_its_way() -> None:
    chain = InsiderWorld(3)
    world, insider = chain.world, chain.insider
    route = (insider.persona.id, *(overlay.me for overlay in chain.overlays))

    def body(delay_us: int, size: int) -> bytes:
        parts = {"route": route, "at": 1, "delay_us": delay_us, "frame": bytes(size), "number": 0, "proof": b""}
        return bytes(pack(parts))

    for delay_us in range(65_536 - 6_000, 65_536, 500):
        size = FRAME_BYTES_MAX - 8 - len(body(delay_us, 1 << 20)) + (1 << 20)
        full = body(delay_us, size)
        insider.send(PREFIX.pack(len(full), VERSION_MAX, 0x4A, 0) + full)
        world.run(0.2)
    assert sum(overlay.counts["relays_refused"] for overlay in chain.overlays) > 0, "it has grown"
    chain.assert_unharmed()


def test_more_brokers_than_there_may_be() -> None:
    chain = InsiderWorld()
    world, insider = chain.world, chain.insider
    rng = Random(3)
    insider.send(*(Persona(rng).link_state() for _ in range(BROKERS_MAX + 50)))
    world.run(2.0)
    for overlay in chain.overlays:
        assert len(overlay.map) == BROKERS_MAX
    assert world.nodes[0].overlay.counts["brokers_refused"] == 50 + 3
    chain.assert_unharmed()


@pytest.mark.parametrize("durable", ["", "bookkeeping"])
def test_who_never_answers_keeps_subscribers_waiting_once_and_is_named(durable: str) -> None:
    chain = InsiderWorld()
    world, insider = chain.world, chain.insider
    insider.send(insider.persona.auth.envelop(Advertisement(insider.persona.id, 1, 1, "true")))
    world.run(1.0)
    client = world.client(1)
    first = client.subscribe("x > 0", durable=durable)
    world.run(11.0)
    assert not first.installed, "its events might be missed"
    world.run(2.0)
    assert first.installed
    second = client.subscribe("x > 1")
    world.run(0.1)
    assert second.installed
    assert world.nodes[1].overlay.counts["interest_unacked"] == 1


def test_brokers_that_were_forgotten_are_no_reason_to_tell_everything_for_each() -> None:
    chain = InsiderWorld(settings=replace(SETTINGS, overlay_gone_s=5.0))
    world, insider = chain.world, chain.insider
    rng = Random(3)
    others = [Persona(rng) for _ in range(100)]
    insider.send(*(other.link_state() for other in others))
    world.run(8.0)
    between = world.nodes[0].overlay
    assert len(between.map) == 3, "they are forgotten"
    before = between.counts["DatabaseSummary"]
    insider.send(*(other.link_state() for other in others))
    world.run(1.0)
    assert between.counts["DatabaseSummary"] - before <= 2 * 2, "one for each neighbour and beat"
    chain.assert_unharmed()


def test_digests_in_a_row_are_answered_once_a_beat() -> None:
    chain = InsiderWorld()
    world, insider = chain.world, chain.insider
    insider.received_frames.clear()
    insider.send(*[EVERYTHING] * 300)
    world.run(2.0)
    told = [frame for frame in insider.received_frames if isinstance(frame, Signed) and frame.kind == LINK_STATE]
    assert 2 * 2 <= len(told) <= 2 * 3 * 3, "the last of them, too"
    chain.assert_unharmed()


def test_a_neighbours_next_life_that_is_heard_of_over_its_own_link() -> None:
    log_secret = bytes(range(32))
    chain = InsiderWorld(log_secret=log_secret)
    world, insider = chain.world, chain.insider
    insider.send(insider.persona.link_state([world.nodes[0].overlay.me], born=1))
    world.run(1.0)
    anew = Persona(Random(5), log_secret)
    insider.send(
        anew.auth.envelop(Advertisement(anew.id, 1, 1, "x > 0")), anew.link_state([world.nodes[0].overlay.me], born=2)
    )
    world.run(2.0)
    chain.assert_unharmed()


def test_an_interest_update_names_each_broker_once() -> None:
    with pytest.raises(ValueError, match="each broker once"):
        encode_frame(envelop_message(InterestUpdate((1, 1), 2, (1, 1), (0, 0), True, (), (), ())))
