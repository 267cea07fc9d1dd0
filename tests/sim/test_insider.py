"""S3 beyond the frames of a production broker: a hostile broker signs senseless frames with its own keys.

Frames that honest brokers relay must break nothing between them: no exception, and no closed link.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from plait_broker.settings import BrokerSettings
from plait_core.events import Event
from plait_core.limits import BROKERS_MAX, FRAME_BYTES_MAX, PATH_MAX
from plait_core.wire import Destination, Forward, encode_block, encode_frame
from plait_core.wire.frame_header import PREFIX, VERSION_MAX
from plait_core.wire.frame_types.envelope_frames import LINK_STATE, Signed, SourceRouted, envelop_message
from plait_core.wire.frame_types.overlay_frames import (
    Advertisement,
    DatabaseSummary,
    InterestUpdate,
    StreamSkip,
)
from plait_core.wire.msgpack_codec import pack
from plait_lab.simulation.overlay.insider import Insider, Persona, unreadable
from plait_lab.simulation.overlay.linked_brokers import FrameClient, LinkedBrokers

BLOCK = encode_block(Event({"x": 5}, b"payload", publisher=77, sequence=1))


def chain(brokers: int = 2, settings: BrokerSettings | None = None) -> LinkedBrokers:
    world = LinkedBrokers({(near, near + 1): 0.002 for near in range(brokers - 1)}, settings=settings)
    world.run()
    return world


def subscribed(world: LinkedBrokers, broker: int, filter: str = "x > 0") -> FrameClient:
    client = world.client(broker, "subscriber")
    client.subscribe(filter)
    world.run(1.0)
    assert client.done(1)
    return client


def assert_unharmed(world: LinkedBrokers) -> None:
    """Check that honest brokers are still linked and an event passes from one end to the other."""
    brokers = [face.broker for face in world.brokers]
    for near, far in pairwise(brokers):
        assert far.id in near.overlay.neighbours
        assert near.id in far.overlay.neighbours
        assert not near.broker_connections._shunned.keys() & {far.id}
        assert not far.broker_connections._shunned.keys() & {near.id}
    subscriber = world.client(len(brokers) - 1, "afterwards")
    subscriber.subscribe("seen == true")
    world.run(15.0)
    assert subscriber.done(1)
    publisher = world.client(0, "publisher")
    publisher.publish({"seen": True})
    world.run(10.0)
    assert {"seen": True} in subscriber.delivered


def test_an_event_that_cannot_be_read_is_counted_and_nobody_else_is_blamed() -> None:
    world = chain()
    subscribed(world, 1)
    insider = Insider(world, world.brokers[0])
    home = world.brokers[1].broker
    block = unreadable()
    for position in (1, 2):
        insider.say(insider.me.trust.envelop_message(StreamSkip(home.id, insider.me.id, position - 1)))
        insider.say(insider.me.event(home.id, position, block))
        world.run(1.0)
    assert home.counters.dropped["invalid"] == 1, "the second is a repetition"
    assert home.overlay.event_streams.incoming[insider.me.id].up_to == 2, "and both are taken"
    assert_unharmed(world)


def test_an_event_with_as_long_a_way_as_can_be_named_goes_no_further() -> None:
    world = chain(3)
    insider = Insider(world, world.brokers[0])
    far = world.brokers[2].broker.id
    path = (*range(1, PATH_MAX), insider.me.id)
    insider.say(Forward(1, 0, 0, path, (Destination(far, 1, 0),), BLOCK))
    world.run(1.0)
    assert world.brokers[0].broker.overlay.counts["no_way"] == 1
    assert_unharmed(world)


def test_an_age_beyond_what_can_be_written_by_a_detour() -> None:
    world = chain(3)
    insider = Insider(world, world.brokers[0])
    between, next, last = (face.broker.id for face in world.brokers)
    old = Forward(1, 2**64 - 1, 0, (insider.me.id,), (Destination(last, 1, 0),), BLOCK)
    insider.say(SourceRouted((insider.me.id, between, next, last), 1, 2**32 - 1, encode_frame(old)))
    world.run(1.0)
    assert world.brokers[2].broker.overlay.counts["forged"] == 1, "it has come"
    assert_unharmed(world)


def test_a_detour_that_grows_beyond_a_frame_on_its_way() -> None:
    world = chain(3)
    insider = Insider(world, world.brokers[0])
    route = (insider.me.id, *(face.broker.id for face in world.brokers))

    def body(delay_us: int, size: int) -> bytes:
        parts = {"route": route, "at": 1, "delay_us": delay_us, "frame": bytes(size), "number": 0, "proof": b""}
        return bytes(pack(parts))

    for delay_us in range(65_536 - 6_000, 65_536, 500):
        size = FRAME_BYTES_MAX - 8 - len(body(delay_us, 1 << 20)) + (1 << 20)
        full = body(delay_us, size)
        insider.say(PREFIX.pack(len(full), VERSION_MAX, 0x4A, 0) + full)
        world.run(0.2)
    assert sum(face.broker.overlay.counts["relays_refused"] for face in world.brokers) > 0, "it has grown"
    assert_unharmed(world)


def test_more_brokers_than_there_may_be() -> None:
    world = chain()
    insider = Insider(world, world.brokers[0])
    rng = Random(3)
    insider.say(*(Persona(rng).link_state() for _ in range(BROKERS_MAX + 50)))
    world.run(2.0)
    for face in world.brokers:
        assert len(face.broker.overlay.map) == BROKERS_MAX
    assert world.brokers[0].broker.overlay.counts["brokers_refused"] == 50 + 3
    assert_unharmed(world)


@pytest.mark.parametrize("durable", ["", "bookkeeping"])
def test_who_never_answers_keeps_subscribers_waiting_once_and_is_named(durable: str) -> None:
    world = chain()
    insider = Insider(world, world.brokers[0])
    insider.say(insider.me.trust.envelop(Advertisement(insider.me.id, 1, 1, "true")))
    world.run(1.0)
    client = world.client(1)
    client.subscribe("x > 0", durable=durable)
    world.run(11.0)
    assert not client.done(1), "its events might be missed"
    world.run(2.0)
    assert client.done(1)
    client.subscribe("x > 1", 2)
    world.run(0.1)
    assert client.done(2)
    assert world.brokers[1].broker.overlay.counts["interest_unacked"] == 1


def test_brokers_that_were_forgotten_are_no_reason_to_tell_everything_for_each() -> None:
    world = chain(settings=BrokerSettings(overlay_gone_s=5.0))
    insider = Insider(world, world.brokers[0])
    rng = Random(3)
    others = [Persona(rng) for _ in range(100)]
    insider.say(*(other.link_state() for other in others))
    world.run(8.0)
    between = world.brokers[0].broker.overlay
    assert len(between.map) == 3, "they are forgotten"
    before = between.counts["DatabaseSummary"]
    insider.say(*(other.link_state() for other in others))
    world.run(1.0)
    assert between.counts["DatabaseSummary"] - before <= 2 * 2, "one for each neighbour and beat"
    assert_unharmed(world)


def test_digests_in_a_row_are_answered_once_a_beat() -> None:
    world = chain()
    insider = Insider(world, world.brokers[0])
    insider.heard.clear()
    insider.say(*[DatabaseSummary(True, True, (), (), (), ())] * 300)
    world.run(2.0)
    told = [frame for frame in insider.heard if isinstance(frame, Signed) and frame.kind == LINK_STATE]
    assert 2 * 2 <= len(told) <= 2 * 3 * 3, "the last of them, too"
    assert_unharmed(world)


def test_a_neighbours_next_life_that_is_heard_of_over_its_own_link() -> None:
    world = chain()
    log = bytes(range(32))
    insider = Insider(world, world.brokers[0], log=log)
    insider.say(insider.me.link_state([world.brokers[0].broker.id], born=1))
    world.run(1.0)
    anew = Persona(Random(5), log)
    insider.say(
        anew.trust.envelop(Advertisement(anew.id, 1, 1, "x > 0")), anew.link_state([world.brokers[0].broker.id], born=2)
    )
    world.run(2.0)
    assert_unharmed(world)


def test_an_interest_update_names_each_broker_once() -> None:
    with pytest.raises(ValueError, match="each broker once"):
        encode_frame(envelop_message(InterestUpdate((1, 1), 2, (1, 1), (0, 0), True, (), (), ())))
