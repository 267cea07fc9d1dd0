"""Confirmed delivery while the tree changes: all subscribers have each confirmed event
(`plait_lab.simulation.peers.confirmed_delivery`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from plait_lab.simulation.peers.confirmed_delivery import TROUBLES, ConfirmationTerms, ConfirmationTrial
from plait_peer import Peer
from plait_peer.protocol.confirmed_delivery import ConfirmedDelivery
from plait_peer.protocol.dissemination import Dissemination


def played(trouble: str, seed: int, publishers: int = 1, subscribers: int = 12) -> ConfirmationTrial:
    trial = ConfirmationTrial(ConfirmationTerms(trouble, subscribers, publishers, seed=seed))
    trial.play()
    return trial


def judge(trial: ConfirmationTrial) -> None:
    assert not trial.broken, trial.broken[:3]
    assert trial.promised | trial.given_up == set(trial.owed), "every event has an outcome"
    assert not trial.given_up, "nobody is away for so long that anything is given up"
    assert sum(len(peers) for peers in trial.owed.values()) > len(trial.owed), "the trial says something"


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_is_confirmed_has_been_heard_by_all(trouble: str) -> None:
    judge(played(trouble, seed=1, publishers=2, subscribers=8))


@pytest.mark.nightly
@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("hundred", range(2))
def test_what_is_confirmed_has_been_heard_by_all_whatever_the_seed(trouble: str, hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        judge(played(trouble, seed, 1 + seed % 2))


# --- planted bugs -----------------------------------------------------------------------------------------------------


def never_enrolled(patch: pytest.MonkeyPatch) -> None:
    """A subscription opens when events reach it, although no publisher has enrolled it."""
    patch.setattr(ConfirmedDelivery, "_renew", lambda self: None)
    patch.setattr(Peer, "open", Peer.reached)


def never_retransmitted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConfirmedDelivery, "_retransmit_due", lambda self: None)


def acked_by_one(patch: pytest.MonkeyPatch) -> None:
    """One ack completes an event: as lists kept in the tree would have it after a change of the tree."""
    honest = ConfirmedDelivery.handle_taken

    def taken(self: ConfirmedDelivery, sender: int, frame: object, now: float) -> None:
        for number in frame.numbers:  # type: ignore[attr-defined]
            if number in self._unacked:
                self._unacked[number].waiting.clear()
        honest(self, sender, frame, now)  # type: ignore[arg-type]

    patch.setattr(ConfirmedDelivery, "handle_taken", taken)


def never_remembered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Dissemination, "_is_new", lambda *_: True)


@pytest.mark.parametrize("plant", [never_enrolled, never_retransmitted, acked_by_one, never_remembered])
def test_planted_bugs_are_caught(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(3):
            judge(played("churn", seed, subscribers=8))
