"""An interior peer dies: all surviving peers receive all events again within two seconds
(`plait_lab.simulation.peers.healing`).

Time is virtual here, so that these are figures of the protocol and not of the machine.
"""

from __future__ import annotations

import pytest
from peer_bench import Bench, profile

from plait_core.wire.frame_types.peer_frames import Connect, DetectCycle, Disconnect, PotentialParent
from plait_lab.simulation.peers.healing import HealingTerms, HealingTrial
from plait_peer import PLAIT, Peer, PeerSettings
from plait_peer.protocol.topology.cycle_detection import CycleDetection

HEALED_S = 2.0
AT_ONCE_S = 0.5


def healed(terms: HealingTerms) -> float:
    """Return the seconds until no peer misses events any more."""
    trial = HealingTrial(terms)
    trial.converge()
    assert trial.interior(), "somebody is in between"
    took = trial.play()
    assert not any(trial.duplicates.values()), "nothing twice"
    return took


@pytest.mark.parametrize("mixed", [False, True])
def test_a_peer_that_is_killed_is_replaced_at_once(mixed: bool) -> None:
    """Neighbours notice the broken connections at once and do not wait for the next period."""
    assert healed(HealingTerms(reset_connections=True, mixed=mixed)) < AT_ONCE_S


@pytest.mark.parametrize("mixed", [False, True])
def test_a_peer_that_falls_silent_is_replaced_within_two_seconds(mixed: bool) -> None:
    assert AT_ONCE_S < healed(HealingTerms(reset_connections=False, mixed=mixed)) < HEALED_S


def test_a_group_of_which_a_third_falls_silent_at_once_is_whole_in_seconds() -> None:
    """All interior peers fall silent, among them all those near the publisher."""
    assert healed(HealingTerms(reset_connections=False, deaths=6, seed=6)) < 2 * HEALED_S


@pytest.mark.nightly
@pytest.mark.parametrize("told", [True, False])
def test_healing_takes_no_longer_whatever_the_seed(told: bool) -> None:
    took = [healed(HealingTerms(reset_connections=told, mixed=bool(seed % 2), seed=seed)) for seed in range(60)]
    assert max(took) < (AT_ONCE_S if told else HEALED_S)
    many = [
        healed(HealingTerms(reset_connections=told, mixed=bool(seed % 2), seed=seed, deaths=6)) for seed in range(60)
    ]
    assert max(many) < 3 * HEALED_S


# --- planted bugs -----------------------------------------------------------------------------------------------------


def test_planted_peers_that_wait_for_their_next_period_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peer, "_react", lambda self, now: None)
    assert healed(HealingTerms(reset_connections=True, seed=3)) > AT_ONCE_S


def test_planted_peers_that_pursue_no_cycle_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers in a cycle confirm to each other that the publisher reaches them, and the planted bug stops the check."""
    monkeypatch.setattr(CycleDetection, "recheck", lambda self, *, unreached: None)
    monkeypatch.setattr("plait_peer.protocol.topology.cycle_detection.FORWARDED_MAX", 1)
    assert healed(HealingTerms(reset_connections=False, deaths=6, seed=6)) > 2 * HEALED_S


# --- frame by frame ---------------------------------------------------------------------------------------------------


def bench() -> Bench:
    found = Bench("0", with_settings=PeerSettings(policies=PLAIT, children_max=2))
    found.gossip(
        profile(50, "", bound=0.0),
        profile(10, "0", delay=1.0),
        profile(11, "0", delay=1.5),
        profile(12, "0", delay=1.7),
    )
    return found


def test_whoever_loses_a_parent_asks_another_at_once_and_whoever_is_refused_the_next() -> None:
    one = bench()
    one.adopt(profile(10, "0"), "0")
    one.peer.lost(10, one.now)
    one._take()
    assert [to for to, _ in one.take(Connect)] == [11]
    one.receive(11, PotentialParent(True, ("0",), ()))
    assert [to for to, _ in one.take(Connect)] == [12]


def test_refusals_do_not_make_a_peer_ask_without_end() -> None:
    one = bench()
    most = one.peer.state.settings.prompt_max
    one.gossip(*[profile(number, "0") for number in range(100, 100 + 4 * most)])
    one.periods(1)
    asked = 0
    while requests := one.take(Connect):
        asked += len(requests)
        for to, _ in requests:
            one.receive(to, PotentialParent(True, ("0",), ()))
    assert asked <= most + 1


def test_whoever_did_not_answer_is_not_believed_to_live_by_what_it_said_before() -> None:
    one = bench()
    one.adopt(profile(10, "0"), "0")
    one.peer.lost(10, one.now)
    one._take()
    one.peer.candidates.update(profile(10, "0", version=2), 3)
    assert 10 not in one.peer.candidates.subscribers, "somebody repeats what it said before"
    one.periods(5)
    one.peer.candidates.update(profile(10, "0", version=2), 1)
    assert 10 in one.peer.candidates.subscribers, "it has been heard since"


def test_children_hear_at_once_that_no_publisher_reaches_us_any_more() -> None:
    one = bench()
    one.adopt(profile(10, "0"), "0")
    one.child(profile(20, "0", bound=9.0))
    one.sent.clear()
    one.receive(10, Disconnect("leaving"))
    beats = [frame for to, frame in one.sent if to == 20]
    assert beats
    assert beats[-1].sources == ()  # type: ignore[attr-defined]


def test_a_second_chase_in_one_period_is_passed_on_too_and_a_hundredth_is_not() -> None:
    one = bench()
    one.adopt(profile(10, "0"), "0")
    one.child(profile(20, "0", bound=9.0))
    one.sent.clear()
    for _ in range(100):
        one.receive(10, DetectCycle(77, "0", 3.0, 1))
    assert 2 <= len(one.take(DetectCycle)) <= 8
