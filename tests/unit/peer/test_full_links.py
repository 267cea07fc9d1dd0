"""Links between processes of peers that are offered more than they carry: control frames do not wait behind events."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from peer_processes import Process, Processes

from plait_core.events import Event
from plait_core.wire import Confirm, encode_publish
from plait_core.wire.frame_types.peer_frames import Beat, Disconnect, PeerFrame
from plait_peer.link_queue import RULES, Rule
from plait_peer.node import Node
from plait_peer.protocol.outputs import PeerId
from plait_peer.protocol.peer import Peer
from plait_peer.protocol.topology.children import Children
from plait_peer.protocol.topology.parents import Parents
from plait_peer.server import LIVE

BYTES_PER_S = 125_000.0
"""1 Mbit/s."""
OFFERED = 1.6
PAYLOAD = bytes(1000)
TURN_S = 0.05
BACKLOG_BYTES = 400_000


class FullLink:
    """A publisher whose link to a subscriber's process is offered more than it carries. Each process does both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.group = Processes("publisher", "subscriber")
        self.source, self.reader = self.group.all
        self.lost: list[str] = []
        self.round_trips_s: list[float] = []
        self.published = 0
        self._watch_losses(monkeypatch)
        self._watch_pulses(monkeypatch)
        self.group.subscribe(self.reader, 1, "true")
        self.group.advertise(self.source)
        self.group.subscribe(self.source, 2, "true")  # its keepalives to the reader's publisher use the full link
        self.group.advertise(self.reader)
        self.group.run(6.0)
        assert not self.lost

    def _watch_losses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def watched(owner: type, name: str, reason: Callable[..., str]) -> None:
            original = getattr(owner, name)

            def call(*args: object, **kwargs: object) -> object:
                if reason(*args):
                    self.lost.append(reason(*args))
                return original(*args, **kwargs)

            monkeypatch.setattr(owner, name, call)

        watched(Node, "_report_lost", lambda *_: "unreachable")
        watched(Parents, "leave", lambda _self, peer, reason: f"parent {reason}" if peer in _self.by_id else "")
        watched(Children, "drop", lambda _self, peer, reason: f"child {reason}" if peer in _self.by_id else "")

    def _watch_pulses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Measure each answer to a keepalive, also those that a peer awaits no longer."""
        sent: dict[tuple[PeerId, PeerId, int], float] = {}
        receive = Peer.receive

        def received(peer: Peer, sender: PeerId, frame: PeerFrame, now: float) -> None:
            if type(frame) is Beat and (peer.id, sender, frame.number) in sent:
                self.round_trips_s.append(now - sent[peer.id, sender, frame.number])
            receive(peer, sender, frame, now)

        send_pulses = Parents.send_pulses

        def sending(parents: Parents, now: float) -> None:
            send_pulses(parents, now)
            for peer, parent in parents.by_id.items():
                sent[parents._state.id, peer, parent.pending_pulse[0]] = now

        monkeypatch.setattr(Peer, "receive", received)
        monkeypatch.setattr(Parents, "send_pulses", sending)

    def slow_down(self) -> None:
        self.group.bytes_per_s["publisher"] = BYTES_PER_S

    def offer(self, seconds: float, times: float = OFFERED, confirm: Confirm = Confirm.NONE) -> None:
        """Publish more than the link carries, by a factor."""
        end = self.group.now + seconds
        owed = 0.0
        while self.group.now < end:
            owed += times * BYTES_PER_S * TURN_S / (len(PAYLOAD) + 110)
            events = [self._event() for _ in range(int(owed))]
            owed -= len(events)
            self.source.session.receive(b"".join([encode_publish(event, confirm) for event in events]), self.group.now)
            self.group.run(TURN_S)

    def _event(self) -> Event:
        self.published += 1
        event = self.group.event_of(self.source, self.published)
        return Event(
            event.attributes,
            PAYLOAD,
            publisher=event.publisher,
            sequence=event.sequence,
            published_us=event.published_us,
        )

    @property
    def received(self) -> list[int]:
        return self.reader.received.get(1, [])

    def waiting_bytes(self, process: Process) -> int:
        return sum(link.size for link in process.node.links.values())


def test_a_full_link_answers_keepalives_and_nobody_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_peer.node.BACKLOG_BYTES_MAX", BACKLOG_BYTES)
    link = FullLink(monkeypatch)
    link.slow_down()
    link.offer(15.0)
    assert link.waiting_bytes(link.source) > BACKLOG_BYTES / 2, "the link is full"
    silence_s = LIVE.silence_periods * LIVE.period_s
    assert len(link.round_trips_s) > 40
    assert max(link.round_trips_s) < silence_s
    assert not link.lost
    link.group.run(10.0)
    assert link.waiting_bytes(link.source) == 0
    assert link.received == sorted(set(link.received)), "in order, none twice"
    dropped = link.source.node.counts["slow_link"]
    assert len(link.received) + dropped == link.published
    assert dropped > 0
    assert not link.lost


def test_nobody_is_lost_while_a_burst_of_twelve_seconds_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    link = FullLink(monkeypatch)
    link.slow_down()
    link.offer(1.0, times=12.0)
    link.group.run(15.0)
    assert link.received == list(range(1, link.published + 1))
    assert max(link.round_trips_s) < LIVE.silence_periods * LIVE.period_s
    assert not link.lost


def test_retransmissions_do_not_fill_a_full_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher repeats events that are not acked. Of each, one copy at most waits for a receiver."""
    link = FullLink(monkeypatch)
    link.slow_down()
    link.offer(15.0, confirm=Confirm.SUBSCRIBERS)
    assert len(link.received) == len(set(link.received))
    assert len(link.received) > 0.7 * 15.0 * BYTES_PER_S / (len(PAYLOAD) + 110)
    link.group.run(30.0)
    assert sorted(link.received) == list(range(1, link.published + 1))
    assert link.waiting_bytes(link.source) == 0
    assert not link.lost


def test_control_frames_that_wait_behind_events_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a queue in which nothing overtakes events."""
    for kind in RULES:
        if kind is not Disconnect:
            monkeypatch.setitem(RULES, kind, Rule.AFTER_EVENTS)
    link = FullLink(monkeypatch)
    link.slow_down()
    link.offer(15.0)
    assert max(link.round_trips_s, default=0.0) > LIVE.silence_periods * LIVE.period_s or link.lost


def test_a_great_event_that_arrives_slowly_keeps_the_other_end_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    link = FullLink(monkeypatch)
    link.slow_down()
    event = link._event()
    great = Event(
        event.attributes,
        bytes(1 << 20),
        publisher=event.publisher,
        sequence=event.sequence,
        published_us=event.published_us,
    )
    link.source.session.receive(encode_publish(great, Confirm.NONE), link.group.now)
    link.group.run(12.0)
    assert link.received == [1], "it takes eight seconds"
    assert not link.lost


def test_who_leaves_a_full_link_behind_is_not_lost_and_what_it_sent_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    link = FullLink(monkeypatch)
    link.slow_down()
    link.offer(5.0)
    assert link.waiting_bytes(link.source) > 0
    link.source.node.leave(link.group.now)
    link.group.run(10.0)
    assert link.received == list(range(1, link.published + 1)), "its goodbye overtakes no event"
    assert all(other.closed_cleanly for other in link.reader.node.links.values())
