"""Requests that wait until other brokers know a subscription or an advertisement, and until it is stored."""

from __future__ import annotations

from random import Random

import pytest
from one_overlay import OneOverlay

from plait_broker.adapter.install_waits import InstallWaits
from plait_broker.clients.access import Caller, Principal
from plait_broker.clients.connection import Connection
from plait_broker.clients.sessions import Sessions
from plait_broker.overlay.outputs import Advertised, Installed
from plait_broker.pipeline.advertisement_gate import AdvertisementGate
from plait_core.filters import parse
from plait_core.ids import new_id
from plait_core.matching import new_index
from plait_core.wire import VERSION_MAX, VERSION_MIN, Frame, FrameDecoder, Hello, Role
from plait_core.wire.frame_types.envelope_frames import envelop_message
from plait_core.wire.frame_types.overlay_frames import Advertisement, InterestAck, InterestUpdate
from plait_core.wire.frame_types.session_frames import Done

ME, NEAR = 1, 2
SESSION = new_id(Random(1))
FIRST, SECOND = (SESSION, 1), (SESSION, 2)
"""Two requests of one session."""


def frames(data: bytes, version: int) -> list[Frame]:
    """Decode all frames of some bytes."""
    decoder = FrameDecoder(version=version or VERSION_MAX)
    decoder.feed(data)
    return decoder.take()


class Waits:
    """The waiting requests of a broker with one neighbour, whose clients publish x >= 0, and one connected client."""

    def __init__(self) -> None:
        self.one = OneOverlay(ME)
        sessions = Sessions(Random(1))
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, "c", 7, (), None, None)
        session = sessions.open(hello, Principal("c"))
        assert session.id == SESSION, "drawn first"
        self.connection = Connection(1, Caller("memory"), (), {}, 0.0)
        self.connection.handshake.receive(hello)
        self.connection.handshake.welcome(broker_name="b", broker=ME, session=SESSION, heartbeat_s=5.0)
        sessions.attach(session, self.connection)
        self.waits = InstallWaits(self.one.overlay, AdvertisementGate(self.one.overlay, new_index, 0.0), sessions)
        self.one.link_up(NEAR)
        self.one.learn(Advertisement(NEAR, 1, 1, "x >= 0"), NEAR)
        self.one.clear()

    def ack(self) -> list[tuple[int, int]]:
        """Have the neighbour ack our newest interest update. Return the requests that are answered."""
        update = self.one.messages(InterestUpdate)[-1]
        fingerprint = self.one.overlay.advertisements.fingerprint(NEAR)
        ack = InterestAck(ME, NEAR, update.versions[0], fingerprint, update.versions[0])
        self.one.receive(NEAR, envelop_message(ack))
        return self.installed()

    def installed(self) -> list[tuple[int, int]]:
        """Return the requests that are answered because of what is installed now."""
        for output in self.one.of(Installed):
            self.waits.installed(output, 0.0)
        self.one.clear()
        return self.answered()

    def answered(self) -> list[tuple[int, int]]:
        """Return the requests that are answered since the last call."""
        send = self.connection.take(0.0)
        found = frames(b"".join(send.chunks) if send is not None else b"", self.connection.version)
        return [(SESSION, frame.request) for frame in found if isinstance(frame, Done)]


@pytest.fixture
def waits() -> Waits:
    return Waits()


def test_a_subscription_that_no_broker_need_install_is_answered_at_once(waits: Waits) -> None:
    assert waits.waits.answer_when_installed(5, FIRST)


def test_a_request_is_answered_after_the_ack(waits: Waits) -> None:
    waits.waits.subscribe(5, parse("x > 1"))
    assert not waits.waits.answer_when_installed(5, FIRST)
    assert waits.one.of(Installed) == []
    assert waits.ack() == [FIRST]
    assert waits.waits.answer_when_installed(5, SECOND), "it is installed by now"


def test_requests_of_a_filter_that_changes_meanwhile_wait_for_the_last_one(waits: Waits) -> None:
    waits.waits.subscribe(5, parse("x > 1"))
    assert not waits.waits.answer_when_installed(5, FIRST)
    first = waits.one.messages(InterestUpdate)[-1]
    waits.waits.subscribe(5, parse("x > 0"))
    assert not waits.waits.answer_when_installed(5, SECOND)
    fingerprint = waits.one.overlay.advertisements.fingerprint(NEAR)
    late = InterestAck(ME, NEAR, first.versions[0], fingerprint, first.versions[0])
    waits.one.overlay.receive(NEAR, envelop_message(late), 0.0)
    assert [output.number for output in waits.one.of(Installed)] == [], "that ack was for the first filter"
    assert waits.ack() == [FIRST, SECOND]


def test_requests_of_a_removed_subscription_are_forgotten(waits: Waits) -> None:
    waits.waits.subscribe(5, parse("x > 1"))
    assert not waits.waits.answer_when_installed(5, FIRST, stored=False)
    waits.one.take()
    waits.waits.unsubscribe(5)
    assert waits.ack() == []
    assert waits.waits.answer_when_installed(5, SECOND)
    assert waits.waits.note_stored(FIRST), "nothing is kept of it"


def test_a_request_that_wants_no_answer_gets_none(waits: Waits) -> None:
    waits.waits.subscribe(5, parse("x > 1"))
    assert not waits.waits.answer_when_installed(5, (SESSION, 0))
    assert not waits.waits.answer_when_installed(5, FIRST)
    waits.waits.advertise(3, parse("x > 1"))
    assert not waits.waits.answer_when_advertised(3, (SESSION, 0))
    waits.waits.advertised(Advertised(3), 0.0)
    assert waits.ack() == [FIRST]


# --- durable subscriptions --------------------------------------------------------------------------------------------


def test_a_durable_request_that_is_stored_first_is_answered_once_installed(waits: Waits) -> None:
    waits.waits.subscribe(5, parse("x > 1"), durable=True)
    assert not waits.waits.answer_when_installed(5, FIRST, stored=False)
    assert not waits.waits.note_stored(FIRST)
    assert waits.ack() == [FIRST]


def test_a_durable_request_that_is_installed_first_is_answered_once_stored(waits: Waits) -> None:
    waits.waits.subscribe(5, parse("x > 1"), durable=True)
    assert not waits.waits.answer_when_installed(5, FIRST, stored=False)
    assert waits.ack() == []
    assert waits.waits.note_stored(FIRST)


def test_each_durable_request_waits_for_its_own_storage(waits: Waits) -> None:
    waits.waits.subscribe(5, parse("x > 1"), durable=True)
    assert not waits.waits.answer_when_installed(5, FIRST, stored=False)
    waits.waits.subscribe(5, parse("x > 0"), durable=True)
    assert not waits.waits.answer_when_installed(5, SECOND, stored=False)
    assert not waits.waits.note_stored(SECOND)
    assert waits.ack() == [SECOND]
    assert waits.waits.note_stored(FIRST)


# --- advertisements ---------------------------------------------------------------------------------------------------


def interest(version: int, fingerprint: int) -> InterestUpdate:
    """Return the neighbour's empty interest, computed against our advertisements with this fingerprint."""
    return InterestUpdate((ME,), NEAR, (version,), (fingerprint,), version == 1, (), (), ())


def test_an_advertisement_is_answered_once_the_other_brokers_have_seen_it(waits: Waits) -> None:
    overlay = waits.one.overlay
    waits.waits.advertise(9, parse("y > 1"))
    assert not waits.waits.answer_when_advertised(9, FIRST)
    assert waits.one.of(Advertised) == []
    waits.one.receive(NEAR, envelop_message(interest(1, overlay.advertisements.fingerprint(ME))))
    (output,) = waits.one.of(Advertised)
    waits.waits.advertised(output, 0.0)
    assert waits.answered() == [FIRST]
    assert waits.waits.answer_when_advertised(9, SECOND)


def test_a_withdrawn_advertisement_answers_nothing(waits: Waits) -> None:
    waits.waits.advertise(9, parse("y > 1"))
    assert not waits.waits.answer_when_advertised(9, FIRST)
    waits.waits.unadvertise(9)
    waits.one.receive(NEAR, envelop_message(interest(1, waits.one.overlay.advertisements.fingerprint(ME))))
    assert waits.one.of(Advertised) == []
