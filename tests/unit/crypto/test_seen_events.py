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
            new = seen.see(bytes((session,)), number, session + 1)
            assert not (new and (session, number) in known)
            kept = {session for session, _ in known} | {session}
            if session in sorted(kept)[-most:]:
                assert new is ((session, number) not in known)
            known.add((session, number))
        assert len(seen._numbers) == len(seen._ends) <= most


def test_a_number_that_is_taken_back_is_new_again() -> None:
    seen = SeenEvents()
    assert seen.see(b"a", 9, 5)
    seen.unsee(b"a", 8)
    assert not seen.see(b"a", 9, 5)
    seen.unsee(b"a", 9)
    assert seen.see(b"a", 9, 5)
    seen.unsee(b"b", 1)
    seen.forget(6)
    assert not seen.see(b"a", 9, 5), "a session that has ended does not begin again"
    assert seen.see(b"c", 1, 6)


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
