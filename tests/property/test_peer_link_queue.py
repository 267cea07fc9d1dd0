"""Any sequence of sends and writes arrives as the same events in order, with the right sender and receiver."""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_core.events import Event
from plait_core.wire import (
    VERSION_MAX,
    Confirm,
    Forward,
    FrameDecoder,
    Publish,
    encode_block,
    encode_frame,
)
from plait_core.wire.frame_types.connection_frames import Close
from plait_core.wire.frame_types.peer_frames import (
    Beat,
    Disconnect,
    Gossip,
    LinkPair,
    PeerEvent,
    PeerFrame,
    Pulse,
    Taken,
)
from plait_core.wire.frames import Frame
from plait_peer.event_frames import event_head, event_of, first_destination
from plait_peer.link_queue import RULES, WRITE_BYTES, LinkQueue, Pair, Rule

Sent: TypeAlias = tuple[Pair, PeerFrame]
Script: TypeAlias = list[tuple[Any, ...]]
"""Steps, each with the name of a method of `Played` and its arguments."""

pairs = st.tuples(st.integers(1, 2), st.integers(11, 12))
publishers = st.integers(101, 102)
steps = st.one_of(
    st.tuples(
        st.just("event"), pairs, publishers, st.sampled_from([0.0, 0.5, 1.5, 5.0]), st.sampled_from([10, 5000, 40_000])
    ),
    st.tuples(st.just("events"), pairs, st.integers(1, 5), st.sampled_from([10, 10_000])),
    st.tuples(st.just("control"), pairs, st.sampled_from([Beat, Disconnect, Gossip, Pulse, Taken])),
    st.tuples(st.just("take")),
)


class Played:
    """A queue after some steps. `sent` and `arrived` are its frames in order."""

    def __init__(self, script: Script) -> None:
        self.queue = LinkQueue()
        self.sent: list[Sent] = []
        self.arrived: list[Sent] = []
        self.closed_at = -1
        self._decoder = FrameDecoder(version=VERSION_MAX)
        self._pair = (0, 0)
        self._number = 0
        for name, *arguments in script:
            getattr(self, name)(*arguments)
        self.queue.add_close(encode_frame(Close("bye", ""), VERSION_MAX))
        while self.queue.size:
            self.take()

    def _block(self, publisher: int, size: int) -> bytes:
        self._number += 1
        return encode_block(Event({}, bytes(size), publisher=publisher, sequence=self._number, published_us=1))

    def event(self, pair: Pair, publisher: int, delay: float, size: int) -> None:
        block = self._block(publisher, size)
        event = PeerEvent(publisher, self._number, "01", delay, 1, block)
        self.queue.add_event(pair, event, event_head(event) + block)
        self.sent.append((pair, event))

    def events(self, pair: Pair, count: int, size: int) -> None:
        frames = [Publish(Confirm.NONE, self._block(pair[0], size)) for _ in range(count)]
        bytes_max = self.queue.size + 15_000
        left_out = self.queue.add_events(pair, frames, (first_destination("01"),), bytes_max)
        taken = frames[: len(frames) - left_out]
        assert taken, "there is room"
        assert not left_out or self.queue.size > bytes_max
        self.sent += [(pair, PeerEvent(pair[0], frame.sequence, "01", 0.0, 0, frame.block)) for frame in taken]

    def control(self, pair: Pair, kind: type[PeerFrame]) -> None:
        self._number += 1
        frames: dict[type, PeerFrame] = {
            Beat: Beat(self._number, (101, 102), (1.0, 2.0)),
            Disconnect: Disconnect(str(self._number)),
            Gossip: Gossip(False, (), ()),
            Pulse: Pulse(self._number),
            Taken: Taken((self._number,)),
        }
        self.queue.add_control(pair, frames[kind])
        self.sent.append((pair, frames[kind]))

    def take(self) -> None:
        before = len(self.arrived)
        self._decoder.feed(self.queue.take())
        while frames := self._decoder.take():
            for frame in frames:
                self._receive(frame)
        blocks = [len(frame.block) for _, frame in self.arrived[before:] if isinstance(frame, PeerEvent)]
        assert sum(blocks[:-1]) < WRITE_BYTES, "one event at most begins in the last byte"

    def _receive(self, frame: Frame) -> None:
        assert self.closed_at < 0, "nothing follows a Close"
        if isinstance(frame, LinkPair):
            self._pair = (frame.sender, frame.receiver)
        elif isinstance(frame, Close):
            self.closed_at = len(self.arrived)
        else:
            received = event_of(frame) if isinstance(frame, Forward) else frame
            assert isinstance(received, PeerFrame)
            self.arrived.append((self._pair, received))


def of_kinds(frames: list[Sent], *kinds: type[PeerFrame]) -> list[Sent]:
    return [each for each in frames if type(each[1]) in kinds]


@given(st.lists(steps, max_size=25))
def test_events_arrive_in_order_from_their_sender_at_their_receiver(script: Script) -> None:
    played = Played(script)
    assert of_kinds(played.arrived, PeerEvent) == of_kinds(played.sent, PeerEvent)
    assert len(played.arrived) == len(played.sent) == played.closed_at


@given(st.lists(steps, max_size=25))
def test_what_concerns_a_connection_keeps_its_order(script: Script) -> None:
    check_connections(Played(script))


def check_connections(played: Played) -> None:
    for pair in {pair for pair, _ in played.sent}:
        sent = [each for each in of_kinds(played.sent, Beat, Disconnect, Pulse) if each[0] == pair]
        arrived = [each for each in of_kinds(played.arrived, Beat, Disconnect, Pulse) if each[0] == pair]
        assert [key(frame) for _, frame in arrived] == [key(frame) for _, frame in sent]
        for _, frame in of_kinds(sent, Disconnect):
            before = [other for to, other in played.sent[: played.sent.index((pair, frame))] if to == pair]
            after = [other for to, other in played.arrived[played.arrived.index((pair, frame)) :] if to == pair]
            assert not [event for event in before if isinstance(event, PeerEvent) and event in after]


@given(st.lists(steps, max_size=25))
def test_events_are_never_later_than_the_beat_before_them_announced(script: Script) -> None:
    check_delays(Played(script))


def check_delays(played: Played) -> None:
    keys = [(pair, key(frame)) for pair, frame in played.sent]
    for place, (pair, beat) in enumerate(played.arrived):
        if not isinstance(beat, Beat):
            continue
        announced = dict(zip(beat.sources, beat.delays, strict=True))
        assert announced[101] >= 1.0
        for to, event in played.arrived[place:]:
            overtaken = keys.index((to, key(event))) < keys.index((pair, key(beat)))
            if to == pair and isinstance(event, PeerEvent) and overtaken:
                assert event.delay <= announced.get(event.publisher, event.delay)


def key(frame: PeerFrame) -> object:
    """Return what identifies a frame: a beat counts without its delays."""
    return (Beat, frame.number) if isinstance(frame, Beat) else frame


@pytest.mark.parametrize("kind", [Beat, Pulse, Gossip, Taken])
def test_control_frames_are_in_the_next_write(kind: type[PeerFrame]) -> None:
    script: Script = [("event", (1, 11), 101, 0.0, 5000)] * 50
    played = Played([*script, ("control", (1, 11), kind), ("take",), ("control", (2, 11), kind), ("take",)])
    kinds = [type(frame) for _, frame in played.arrived]
    assert kinds[0] is kind
    assert 0 < kinds[1:].index(kind) < 10


def test_every_frame_between_peers_has_a_rule() -> None:
    assert set(RULES) == set(get_args(PeerFrame))
    assert [kind for kind, rule in RULES.items() if rule is Rule.EVENT] == [PeerEvent]


def test_a_disconnect_that_overtakes_its_events_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the defect that the rule of Disconnect prevents."""
    script: Script = [("event", (1, 11), 101, 5.0, 10), ("control", (1, 11), Disconnect)]
    check_connections(Played(script))
    monkeypatch.setitem(RULES, Disconnect, Rule.FREE)
    with pytest.raises(AssertionError):
        check_connections(Played(script))


def test_a_beat_that_announces_less_than_waiting_events_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the defect that the rule of Beat prevents."""
    script: Script = [("event", (1, 11), 101, 5.0, 10), ("control", (1, 11), Beat)]
    check_delays(Played(script))
    monkeypatch.setitem(RULES, Beat, Rule.CONNECTION)
    with pytest.raises(AssertionError):
        check_delays(Played(script))
