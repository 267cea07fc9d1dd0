"""Confirmations: the parties whose acks an event still waits for, and the outcome that its publisher gets."""

from __future__ import annotations

from plait_broker.clients.confirmations import LOG, Confirmations
from plait_core.wire.frame_types.session_frames import Code


def outcomes(confirmations: Confirmations) -> list[tuple[int, int, str]]:
    return [(outcome.sequence, outcome.matched, outcome.code) for outcome in confirmations.take()]


def test_an_event_for_nobody_is_confirmed_at_once() -> None:
    confirmations = Confirmations(30.0)
    confirmations.begin(1, 7, 0, set(), 0.0)
    assert outcomes(confirmations) == [(7, 0, "")]
    assert confirmations.pending(1) == 0


def test_the_last_party_decides_when() -> None:
    confirmations = Confirmations(30.0)
    confirmations.begin(1, 7, 2, {(LOG, 3), (5, 9)}, 0.0)
    confirmations.acknowledge((5, 9))
    assert (outcomes(confirmations), confirmations.waits(1, 7)) == ([], True)
    confirmations.acknowledge((LOG, 3))
    assert (outcomes(confirmations), confirmations.waits(1, 7)) == ([(7, 2, "")], False)


def test_one_failure_fails_the_confirmation_with_the_first_reason() -> None:
    confirmations = Confirmations(30.0)
    confirmations.begin(1, 7, 3, {(5, 1), (6, 1), (7, 1)}, 0.0)
    confirmations.fail((6, 1), "late")
    confirmations.fail((7, 1), "gone")
    assert outcomes(confirmations) == []
    confirmations.acknowledge((5, 1))
    (outcome,) = confirmations.take()
    assert (outcome.code, outcome.message) == ("late", "2 of those it was for did not get it")


def test_a_failure_with_a_reason_is_reported_by_its_first_sentence() -> None:
    confirmations = Confirmations(30.0)
    confirmations.begin(1, 7, 3, {(5, 1), (6, 1), (7, 1)}, 0.0)
    confirmations.fail((5, 1), "durability")
    confirmations.fail((6, 1), "durability", "the disk is full")
    confirmations.fail((7, 1), "durability", "the disk reports an I/O error")
    (outcome,) = confirmations.take()
    assert (outcome.code, outcome.message) == ("durability", "the disk is full")


def test_an_event_and_its_repetition_await_the_same_party() -> None:
    confirmations = Confirmations(30.0)
    for sequence in (7, 8, 9):
        confirmations.begin(1, sequence, 0, {(LOG, sequence % 2)}, 0.0)
    confirmations.acknowledge((LOG, 1))
    assert outcomes(confirmations) == [(7, 0, ""), (9, 0, "")]
    confirmations.fail((LOG, 0), Code.DURABILITY)
    assert outcomes(confirmations) == [(8, 0, Code.DURABILITY)]


def test_a_party_is_still_awaited_by_a_repetition_after_a_timeout() -> None:
    confirmations = Confirmations(30.0)
    confirmations.begin(1, 7, 0, {(LOG, 3)}, 0.0)
    confirmations.begin(2, 7, 0, {(LOG, 3)}, 10.0)
    assert confirmations.expire(30.0) == [(LOG, 3)]
    confirmations.acknowledge((LOG, 3))
    assert [(outcome.publisher, outcome.code) for outcome in confirmations.take()] == [(1, Code.TIMEOUT), (2, "")]


def test_silence_is_a_failure_and_its_parties_are_named() -> None:
    confirmations = Confirmations(30.0)
    confirmations.begin(1, 7, 2, {(5, 1), (6, 1)}, 0.0)
    confirmations.begin(1, 8, 1, {(5, 2)}, 10.0)
    confirmations.acknowledge((6, 1))
    assert confirmations.due_at == 30.0
    assert confirmations.expire(29.9) == []
    assert confirmations.expire(30.0) == [(5, 1)]
    (outcome,) = confirmations.take()
    assert (outcome.sequence, outcome.matched, outcome.code, outcome.silent) == (7, 2, Code.TIMEOUT, ((5, 1),))
    assert confirmations.due_at == 40.0
    confirmations.acknowledge((5, 1))  # too late: nothing happens
    assert outcomes(confirmations) == []


def test_pending_events_are_counted_by_publisher() -> None:
    confirmations = Confirmations(30.0)
    for publisher, sequence in [(1, 1), (1, 2), (2, 1)]:
        confirmations.begin(publisher, sequence, 1, {(publisher, sequence)}, 0.0)
    assert [confirmations.pending(publisher) for publisher in (1, 2, 3)] == [2, 1, 0]
    confirmations.acknowledge((1, 1))
    confirmations.expire(30.0)
    assert [confirmations.pending(publisher) for publisher in (1, 2, 3)] == [0, 0, 0]
    assert len(confirmations) == 0
