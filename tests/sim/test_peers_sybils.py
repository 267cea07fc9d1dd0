"""Sixteen attackers for each honest peer from the beginning (SCORECARD S16), and floods of join requests (F14).

The attackers look like ideal parents: near every publisher, with free places. They relay no event and acknowledge none.
Confirmed events need no tree. The attackers can only delay these events and withhold acks from the publisher; they
cannot make it believe a false confirmation.
"""

from __future__ import annotations

from dataclasses import replace

from plait_core.limits import PEER_MEMBERS_MAX
from plait_core.wire.frame_types.peer_frames import (
    Accept,
    Beat,
    Connect,
    Enrol,
    Gossip,
    PeerEvent,
    PeerFrame,
    Profile,
    Pulse,
    Taken,
)
from plait_lab.simulation.peers.confirmed_delivery import ConfirmationTerms, ConfirmationTrial
from plait_peer import Confirmed

HONEST = 2
SYBILS = 16 * HONEST
PUBLISHER = 1


def gilded(profile: Profile) -> Profile:
    return replace(profile, delay=0.0, free=200)


def attacked() -> ConfirmationTrial:
    trial = ConfirmationTrial(ConfirmationTerms(subscribers=HONEST, seed=3))
    honest = set(trial.subscribers)
    for _ in range(SYBILS):
        trial.join()
    sybils = set(trial.subscribers) - honest

    def lie(sender: int, to: int, frame: PeerFrame) -> PeerFrame | None:
        if sender not in sybils:
            return frame
        match frame:
            case PeerEvent() | Taken():
                return None
            case Gossip():
                told = [gilded(each) if each.peer in sybils else each for each in frame.profiles]
                return replace(frame, profiles=tuple(told))
            case Accept() | Beat():
                profile = gilded(frame.profile) if frame.profile is not None else None
                return replace(frame, sources=(PUBLISHER,), delays=(0.0,), profile=profile)  # type: ignore[arg-type]
            case Connect() | Pulse() if frame.profile is not None:
                return replace(frame, profile=gilded(frame.profile))
        return frame

    trial.world.sent = lie
    return trial


def test_confirmed_events_reach_honest_peers_through_any_number_of_attackers() -> None:
    trial = attacked()
    honest = set(trial.subscribers[:HONEST])
    trial.run(4.0, publish=False)
    assert honest <= trial.opened
    trial.run(6.0)
    trial.run(6.0, publish=False)
    owed = {(peer, *key) for key, peers in trial.owed.items() for peer in peers & honest}
    assert len(owed) > 150
    lacking = {each for each in owed if not trial.got[each]}
    assert not lacking
    assert not trial.broken, trial.broken[:3]
    assert not trial.promised, "somebody who matches takes nothing: nothing can be promised"


def test_without_them_the_same_group_is_promised_everything() -> None:
    """Run the same group without attackers, to show that the test above can fail."""
    trial = ConfirmationTrial(ConfirmationTerms(subscribers=HONEST, seed=3))
    trial.run(4.0, publish=False)
    trial.run(6.0)
    trial.run(6.0, publish=False)
    assert trial.promised == set(trial.owed)


def test_a_flood_of_enrolments_is_bounded_and_the_publisher_promises_nothing() -> None:
    trial = ConfirmationTrial(ConfirmationTerms(subscribers=HONEST, seed=3))
    trial.run(4.0, publish=False)
    publisher, now = trial.world.peers[PUBLISHER], trial.world.now
    for stranger in range(10_000, 10_000 + 2 * PEER_MEMBERS_MAX):
        publisher.receive(stranger, Enrol(1, ("",)), now)
    answers = publisher.take_output()
    assert len(answers) < PEER_MEMBERS_MAX, "whoever is not on the list is not told so"
    publisher.publish("0" * 6, b"", now, number=1, confirm=True)
    assert Confirmed(1, None) in publisher.take_output()
