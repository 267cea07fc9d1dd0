"""Announcements: their content, which ones are accepted, and that no datagram on the segment breaks a receiver."""

from __future__ import annotations

from random import Random

import pytest

from plait_broker.overlay.discovery import announcements as module
from plait_broker.overlay.discovery.announcements import (
    ANSWER_S,
    DATAGRAM_BYTES_MAX,
    INTERVAL_S,
    QUIET_S,
    SPREAD,
    Announcements,
    Found,
)
from plait_core.wire import Ping, encode_frame
from plait_core.wire.frame_types.overlay_frames import Announcement

SECRET = "open-sesame-42"


def discovery(me: int, secret: str = SECRET, overlay: str = "plait", host: str = "", name: str = "b") -> Announcements:
    return Announcements(overlay, secret, me, name, host, 4680, Random(me), 0.0)


@pytest.mark.parametrize("secret", ["", SECRET])
def test_a_broker_is_found_where_it_says_or_where_its_datagram_comes_from(secret: str) -> None:
    listener = discovery(1, secret)
    assert listener.receive(discovery(2, secret).announce(0.0), "10.0.0.2", 0.0) == Found(2, "b", "10.0.0.2", 4680)
    elsewhere = listener.receive(discovery(3, secret, host="fd00::3").announce(0.0), "10.0.0.3", 0.0)
    assert elsewhere is not None
    assert elsewhere.address == "[fd00::3]:4680"


def test_what_is_replayed_is_old() -> None:
    listener, other = discovery(1), discovery(2)
    first, second = other.announce(0.0), other.announce(3.0)
    assert listener.receive(second, "10.0.0.2", 0.0)
    assert listener.receive(second, "10.6.6.6", 0.0) is None
    assert listener.receive(first, "10.6.6.6", 0.0) is None
    assert listener.counts["old"] == 2
    assert listener.receive(other.announce(6.0), "10.0.0.2", 0.0)


@pytest.mark.parametrize(
    ("speaker", "why"),
    [
        (discovery(2, "another secret"), "unproved"),
        (discovery(2, ""), "unproved"),
        (discovery(2, overlay="other"), "other_overlay"),
        (discovery(1), "own"),
    ],
)
def test_whom_nobody_listens_to(speaker: Announcements, why: str) -> None:
    listener = discovery(1)
    assert listener.receive(speaker.announce(0.0), "10.0.0.2", 0.0) is None
    assert dict(listener.counts) == {why: 1}


def test_one_with_a_secret_is_not_heard_by_one_without() -> None:
    assert discovery(1, "").receive(discovery(2).announce(0.0), "10.0.0.2", 0.0) is None


@pytest.mark.parametrize("secret", ["", SECRET])
def test_anything_may_be_on_the_segment(secret: str) -> None:
    """Receive truncated, corrupted, random and foreign datagrams: none raises, and with a secret none is accepted."""
    rng, listener = Random(5), discovery(1, secret)
    right = discovery(2, secret).announce(0.0)
    for _ in range(20_000):
        datagram = bytearray(right)
        kind = rng.randrange(3)
        if kind == 0:
            datagram[rng.randrange(len(datagram))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del datagram[rng.randrange(len(datagram)) :]
        else:
            datagram = bytearray(rng.randbytes(rng.randrange(DATAGRAM_BYTES_MAX + 50)))
        found = listener.receive(bytes(datagram), "10.0.0.2", 0.0)
        assert not (secret and found)
    for other in (b"", b"\0" * 5000, encode_frame(Ping(1), 1), right + right):
        assert listener.receive(other, "10.0.0.2", 0.0) is None


def test_announcements_are_spread_and_fit_a_packet() -> None:
    one = discovery(2, name="n" * 128, overlay="o" * 128, host="h" * 255)
    now, gaps = 0.0, []
    for _ in range(200):
        assert len(one.announce(now)) <= DATAGRAM_BYTES_MAX
        gaps.append(one.next_deadline() - now)
        now = one.next_deadline()
    assert min(gaps) >= INTERVAL_S * (1 - SPREAD)
    assert max(gaps) <= INTERVAL_S * (1 + SPREAD)
    assert max(gaps) - min(gaps) > INTERVAL_S / 2


def test_it_remembers_no_more_brokers_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANNOUNCEMENTS_MAX", 10)
    listener = discovery(1, "")
    for broker in range(2, 50):
        assert listener.receive(encode_frame(Announcement("plait", broker, "b", 1, 4680), 1), "10.0.0.2", 0.0)
    assert len(listener._numbers) == 10


def test_a_newcomer_is_answered_soon_and_once() -> None:
    listener, other = discovery(1), discovery(2)
    listener.announce(0.0)
    before = listener.next_deadline()
    listener.receive(other.announce(0.0), "10.0.0.2", 1.2)
    answer = listener.next_deadline()
    assert 1.2 <= answer <= 1.2 + ANSWER_S
    assert answer < before
    listener.announce(answer)
    after = listener.next_deadline()
    listener.receive(other.announce(3.0), "10.0.0.2", answer + 0.1)
    assert listener.next_deadline() == after, "it is no newcomer any more"
    for broker in range(3, 100):
        listener.receive(discovery(broker).announce(0.0), "10.0.0.9", answer + 0.1)
    assert listener.next_deadline() >= answer + QUIET_S, "a crowd of them is answered as one"
