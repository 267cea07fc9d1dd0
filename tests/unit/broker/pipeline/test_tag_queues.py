"""Too many events wait for tests of their tags: earlier ones pass untested, and nobody else's events are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from tag_testing import Line, Matching, client, sealed, tokens

from plait_broker.pipeline import sealed_matching
from plait_broker.pipeline.sealed_matching import LINE_SHARE
from plait_core import Event
from plait_core.sealed_opening import SEALED
from plait_core.wire import Confirm, Publish
from plait_core.wire.event_block import encode_block
from plait_core.wire.frame_types.session_frames import Receipt, Refusal
from plait_lab.simulation.overlay.world import linked_world

LINES: Final[list[Line]] = [("client", number) for number in range(1, 7)]
MOST: Final = 16


@pytest.fixture
def matching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Matching]:
    monkeypatch.setattr(sealed_matching, "HELD_EVENTS_MAX", MOST)
    made = Matching()
    made.subscribe(client(1), tokens(60))
    yield made
    made.work_until_idle()
    assert (made.tags.waits, made.tags._bytes, made.tags._queues) == (0, 0, {})


def test_a_line_that_has_its_share_releases_its_own_events_in_their_order(matching: Matching) -> None:
    other = matching.publish(LINES[1], b"other")
    sent = [matching.publish(LINES[0], b"a") for _ in range(MOST // LINE_SHARE)]
    assert matching.tags.take(0.0) == []
    last = matching.publish(LINES[0], b"b")
    next_one = matching.publish(LINES[0], b"b")
    assert matching.tags.take(0.0) == sent
    assert matching.tags.waits == 3, "the next two events of the line wait, and that of another one"
    assert sorted(matching.work_until_idle()) == sorted([other, last, next_one])


def test_what_follows_released_events_does_not_overtake_them(matching: Matching) -> None:
    sent = [matching.publish(LINES[0], b"a") for _ in range(MOST // LINE_SHARE + 1)]
    plain = Publish(Confirm.NONE, encode_block(Event({"n": 1}, b"", publisher=1, sequence=1)))
    assert matching.tags.hold(LINES[0], plain, 99, matching.asking, 0.0)
    assert not matching.tags.hold(LINES[5], plain, 98, matching.asking, 0.0)
    assert [*matching.tags.take(0.0), *matching.work_until_idle()] == [*sent, 99]


def test_without_room_the_longest_line_passes_untested(matching: Matching) -> None:
    by_line = {line: [matching.publish(line, b"%d" % line[1]) for _ in range(3)] for line in LINES[:5]}
    by_line[LINES[2]].append(matching.publish(LINES[2], b"3"))
    assert matching.tags.waits == MOST
    matching.publish(LINES[5], b"6")
    assert matching.tags.take(0.0) == by_line[LINES[2]]


def test_lines_are_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(sealed(b"a").block)
    monkeypatch.setattr(sealed_matching, "HELD_BYTES_MAX", size * MOST)
    matching = Matching()
    matching.subscribe(client(1), tokens(60))
    for _ in range(100):
        matching.publish(LINES[0], b"a")
        assert matching.tags.waits <= MOST // LINE_SHARE
    assert len([*matching.tags.take(0.0), *matching.work_until_idle()]) == 100


def test_waiting_sealed_events_of_one_client_refuse_no_event_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_matching, "HELD_EVENTS_MAX", MOST)
    world = linked_world({(0, 1): 0.01})
    world.nodes[0].tag_test_s = None
    hostile, other = world.connected_client(0), world.connected_client(0, "other")
    subscriber = world.connected_client(0, "subscriber")
    subscriber.subscribe("n > 0")
    subscriber.subscribe(f"has({SEALED})", routing=b"any points")
    world.run(0.5)
    for number in range(2 * MOST):
        hostile.publish({SEALED: "00" * 16}, payload=sealed(b"%d" % number).payload, confirm=Confirm.BROKER)
    other.publish({"n": 1}, confirm=Confirm.BROKER)
    world.run(0.1)
    assert subscriber.delivered.count({"n": 1}) == 1
    assert other.heard(Receipt)
    assert 0 < world.broker(0)._tags.waits <= MOST // LINE_SHARE
    world.run(5.0)
    assert not other.heard(Refusal)
    assert not hostile.heard(Refusal)
