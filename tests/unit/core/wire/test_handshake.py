"""The handshake: every cell of its table, versions, capabilities, and refusals from either end."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from plait_core.errors import FrameError, FrameFault
from plait_core.wire import Close, End, FrameDecoder, Handshake, Hello, Ping, Role, State, Welcome, encode_frame
from plait_core.wire.handshake import TABLE, Transition

HELLO = Hello(1, 3, Role.CLIENT, "ibis", 7, ("durable", "trace", "durable", "seal"))
WELCOME = Welcome(2, ("trace",), "hub", 1, 2, 10.0)
CLOSE = Close("auth", "who are you?")
WHO = {"broker_name": "hub", "broker": 1, "session": 2, "heartbeat_s": 10}


def initiator() -> Handshake:
    return Handshake.initiator(HELLO)


def acceptor() -> Handshake:
    return Handshake.acceptor(("trace", "seal"), versions=(1, 2))


REACH: dict[tuple[End, State], list[str]] = {
    (End.INITIATOR, State.START): [],
    (End.INITIATOR, State.HELLO_SENT): ["SEND_HELLO"],
    (End.INITIATOR, State.OPEN): ["SEND_HELLO", "RECEIVE_WELCOME"],
    (End.INITIATOR, State.CLOSED): ["SEND_CLOSE"],
    (End.ACCEPTOR, State.START): [],
    (End.ACCEPTOR, State.HELLO_RECEIVED): ["RECEIVE_HELLO"],
    (End.ACCEPTOR, State.OPEN): ["RECEIVE_HELLO", "SEND_WELCOME"],
    (End.ACCEPTOR, State.CLOSED): ["RECEIVE_CLOSE"],
}


def do(handshake: Handshake, step: str) -> Any:
    match step:
        case "SEND_HELLO":
            return handshake.start()
        case "SEND_WELCOME":
            return handshake.welcome(**WHO)  # type: ignore[arg-type]
        case "SEND_CLOSE":
            return handshake.refuse("auth", "no")
        case "RECEIVE_HELLO":
            return handshake.receive(HELLO)
        case "RECEIVE_WELCOME":
            return handshake.receive(WELCOME)
        case _:
            return handshake.receive(CLOSE)


def test_every_state_of_the_table_can_be_reached() -> None:
    assert set(REACH) == {(side, state) for side, states in TABLE.items() for state in states}


@pytest.mark.parametrize(("where", "step"), list(itertools.product(REACH, Transition)), ids=str)
def test_each_cell(where: tuple[End, State], step: Transition) -> None:
    side, state = where
    handshake = initiator() if side is End.INITIATOR else acceptor()
    for earlier in REACH[where]:
        do(handshake, earlier)
    assert handshake.state is state
    allowed = TABLE[side][state]
    if step in allowed:
        do(handshake, step.name)
        assert handshake.state is allowed[step]
    elif step.name.startswith("RECEIVE"):
        with pytest.raises(FrameError) as caught:
            do(handshake, step.name)
        assert caught.value.fault is FrameFault.ORDER
        assert handshake.state is state
    else:
        with pytest.raises(AssertionError):
            do(handshake, step.name)
        assert handshake.state is state


def test_both_ends_agree_on_the_highest_version_and_the_common_capabilities() -> None:
    one, other = initiator(), acceptor()
    assert other.receive(one.start()) is None
    welcome = do(other, "SEND_WELCOME")
    assert one.receive(welcome) is None
    assert one.state is other.state is State.OPEN
    assert one.version == other.version == welcome.version == 2
    assert one.capabilities == other.capabilities == ("trace", "seal")
    assert one.peer == welcome
    assert other.peer == HELLO


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [((1, 1), (1, 1), 1), ((1, 5), (3, 9), 5), ((3, 9), (1, 5), 5), ((2, 4), (1, 9), 4), ((1, 2), (3, 4), None),
     ((3, 4), (1, 2), None)],
)  # fmt: skip
def test_versions(ours: tuple[int, int], theirs: tuple[int, int], agreed: int | None) -> None:
    handshake = Handshake.acceptor(versions=ours)
    close = handshake.receive(Hello(*theirs, Role.PEER, "p", 0))
    if agreed is None:
        assert close is not None
        assert close.code == "version"
        assert f"{theirs[0]} to {theirs[1]}" in close.message
        assert f"{ours[0]} to {ours[1]}" in close.message
        assert handshake.state is State.CLOSED
        assert handshake.refusal == close
    else:
        assert close is None
        assert do(handshake, "SEND_WELCOME").version == agreed
        assert handshake.version == agreed


def test_a_refusal_can_be_read_by_one_who_was_not_welcomed() -> None:
    ours, theirs, decoder = acceptor(), initiator(), FrameDecoder()
    ours.receive(theirs.start())
    decoder.feed(encode_frame(ours.refuse("auth", "no"), ours.version))
    (close,) = decoder.take()
    theirs.receive(close)
    assert theirs.refusal == ours.refusal == close


def test_an_initiator_keeps_the_refusal_it_got() -> None:
    handshake = initiator()
    handshake.start()
    handshake.receive(CLOSE)
    assert handshake.state is State.CLOSED
    assert handshake.refusal == CLOSE


@pytest.mark.parametrize(
    ("welcome", "fault"),
    [(Welcome(4, (), "hub", 1, 2, 10.0), FrameFault.VERSION), (Welcome(1, ("x",), "hub", 1, 2, 1.0), FrameFault.FIELD)],
)
def test_a_welcome_may_only_grant_what_was_offered(welcome: Welcome, fault: FrameFault) -> None:
    handshake = initiator()
    handshake.start()
    with pytest.raises(FrameError) as caught:
        handshake.receive(welcome)
    assert caught.value.fault is fault
    assert handshake.state is State.HELLO_SENT


def test_other_frames_before_the_handshake_are_refused() -> None:
    with pytest.raises(FrameError) as caught:
        acceptor().receive(Ping(1))
    assert caught.value.fault is FrameFault.ORDER


def test_the_acceptor_does_not_send_first() -> None:
    with pytest.raises(AssertionError):
        acceptor().start()


def test_a_handshake_and_what_follows_it_in_one_read() -> None:
    ours, decoder = initiator(), FrameDecoder()
    ours.start()
    decoder.feed(encode_frame(Welcome(1, (), "hub", 1, 2, 10.0)) + encode_frame(Ping(5)) + encode_frame(CLOSE))
    seen: list[object] = []
    while frames := decoder.take():
        for frame in frames:
            seen.append(frame)
            if ours.state is State.HELLO_SENT:
                ours.receive(frame)
                decoder.establish(ours.version)
    assert seen[1:] == [Ping(5), CLOSE]
    assert decoder.held_bytes == 0
