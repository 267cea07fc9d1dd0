"""The reader's memory of sessions: nothing opens twice, also when it has to forget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sealed_world import HOUR_US, World, sides

from plait_crypto import Draft, PayloadReader, PayloadSealer, SessionSealer, Unopenable
from plait_crypto.limits import SESSION_EVENTS_MAX
from plait_crypto.seen_events import SeenEvents

EVENTS = st.tuples(st.integers(0, 9), st.integers(0, 40) | st.just(SESSION_EVENTS_MAX - 1))


@given(st.lists(EVENTS), st.integers(1, 4))
def test_nothing_is_new_twice(events: list[tuple[int, int]], most: int) -> None:
    """Session k ends at time k. What is remembered is exact, and what is forgotten is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plait_crypto.seen_events.SESSIONS_SEEN_MAX", most)
        seen, known = SeenEvents(), set()
        for session, number in events:
            new = seen.see(7, bytes((session,)), number, session + 1)
            assert not (new and (session, number) in known)
            kept = {session for session, _ in known} | {session}
            if session in sorted(kept)[-most:]:
                assert new is ((session, number) not in known)
            known.add((session, number))
        assert len(seen._numbers) <= most


@given(st.lists(st.tuples(st.integers(0, 3), EVENTS)), st.integers(1, 8))
def test_a_publisher_with_few_sessions_loses_none(events: list[tuple[int, tuple[int, int]]], most: int) -> None:
    """Publishers share the memory. One that has at most its share is remembered exactly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plait_crypto.seen_events.SESSIONS_SEEN_MAX", most)
        seen, known = SeenEvents(), set[tuple[int, bytes, int]]()
        for publisher, (session, number) in events:
            name = bytes((publisher, session))
            event = (publisher, name, number)
            new = seen.see(*event, session // 2 + 9)  # two end at the same time
            before, known = event in known, known | {event}
            assert not (new and before)
            sessions = {each[:2] for each in known}
            publishers = {each for each, _ in sessions}
            if sum(each == publisher for each, _ in sessions) * len(publishers) <= most:
                assert new is not before
            assert len(seen._numbers) == sum(len(its.ends) for its in seen._publishers.values()) <= most


def test_sessions_of_one_publisher_do_not_displace_those_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """One publisher begins very many sessions that end as late as a reader accepts them."""
    monkeypatch.setattr("plait_crypto.seen_events.SESSIONS_SEEN_MAX", 4)
    seen = SeenEvents()
    assert seen.see(2, b"before", 0, 60)
    for session in range(20):
        assert seen.see(1, b"%02d" % session, 0, 1000)
    assert seen.see(2, b"before", 1, 60)
    assert not seen.see(2, b"before", 0, 60)
    assert seen.see(2, b"after", 0, 61)
    assert not any(seen.see(1, b"%02d" % session, 0, 1000) for session in range(20))


def test_as_many_publishers_as_sessions_open_no_event_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_crypto.seen_events.SESSIONS_SEEN_MAX", 4)
    seen = SeenEvents()
    assert all(seen.see(publisher, bytes((publisher,)), 0, 10 + publisher) for publisher in range(20))
    assert not any(seen.see(publisher, bytes((publisher,)), 0, 10 + publisher) for publisher in range(20))
    assert len(seen._publishers) == 4


def test_a_number_that_is_taken_back_is_new_again() -> None:
    seen = SeenEvents()
    assert seen.see(7, b"a", 9, 5)
    seen.unsee(b"a", 8)
    assert not seen.see(7, b"a", 9, 5)
    seen.unsee(b"a", 9)
    assert seen.see(7, b"a", 9, 5)
    seen.unsee(b"b", 1)
    seen.forget(6)
    assert not seen.see(7, b"a", 9, 5), "a session that has ended does not begin again"
    assert seen.see(7, b"c", 1, 6)


def test_more_sessions_than_a_reader_remembers_open_no_event_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker keeps an event until the reader has seen many other sessions, and then sends it again."""
    monkeypatch.setattr("plait_crypto.seen_events.SESSIONS_SEEN_MAX", 2)
    world = World.of(sides())
    reader, payloads = PayloadReader(world.reader("true")), []
    for _ in range(4):
        sealing = PayloadSealer(SessionSealer(world.publisher()))
        payloads.append(sealing.seal(Draft({"side": "buy"}), now_us=world.now_us, randomness=world.rng)[1])
        world.now_us += 1
        reader.open({}, payloads[-1], now_us=world.now_us, randomness=world.rng)
    for payload in payloads:
        with pytest.raises(Unopenable) as refused:
            reader.open({}, payload, now_us=world.now_us + HOUR_US // 2, randomness=world.rng)
        assert refused.value.why == "replayed"
