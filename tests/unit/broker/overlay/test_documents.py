"""Learned documents: in a storm link states change the map together, and a lost link changes it at once."""

from __future__ import annotations

from one_overlay import OneOverlay

from plait_broker.overlay.documents import CALM_S, CHANGES_BURST, CHANGES_PER_S, STORM_S
from plait_core.wire.frame_types.envelope_frames import EndToEnd
from plait_core.wire.frame_types.overlay_frames import LinkState

ME, NEAR = 1, 2
MANY = range(10, 10 + 4 * round(CHANGES_BURST))


def storm(broker: OneOverlay, version: int = 1) -> None:
    """Let many brokers behind a neighbour flood their link states at once."""
    for far in MANY:
        broker.learn(LinkState(far, version, f"b{far}", (NEAR,), (1000,)), NEAR)


def started() -> OneOverlay:
    broker = OneOverlay(ME)
    broker.link_up(NEAR)
    broker.learn(LinkState(NEAR, 2, "near", (ME, *MANY), (1000,) * (1 + len(MANY))), NEAR)
    return broker


def interest(broker: OneOverlay) -> list[tuple[int, ...]]:
    """Return the destinations of each interest update, all in order."""
    return [tuple(sorted(frame.to)) for _, frame in broker.sent if isinstance(frame, EndToEnd)]


def test_in_a_storm_the_map_changes_rarely() -> None:
    broker = started()
    before = broker.overlay.map.paths_revision
    storm(broker)
    assert broker.overlay.map.paths_revision - before <= CHANGES_BURST
    assert len(broker.overlay.map) < len(MANY), "the others wait"
    broker.tick(broker.now + 1 / CHANGES_PER_S)
    assert len(broker.overlay.map) == 2 + len(MANY)


def test_only_the_newest_of_the_gathered_versions_counts() -> None:
    broker = started()
    storm(broker)
    storm(broker, version=2)
    before = broker.overlay.map.revision
    broker.tick(broker.now + 1 / CHANGES_PER_S)
    assert broker.overlay.map.revision - before <= len(MANY)
    assert {broker.overlay.map.known[far].version for far in MANY} == {2}


def test_a_lost_link_does_not_wait_for_the_end_of_a_storm() -> None:
    broker = started()
    storm(broker)
    broker.learn(LinkState(MANY[0], 2, "far", (), ()), NEAR)
    assert not broker.overlay.map.reaches(ME, MANY[0])
    assert len(broker.overlay.map) == 2 + len(MANY), "nor does what came before it"


def test_the_brokers_of_a_storm_get_their_first_interest_together() -> None:
    broker = started()
    storm(broker)
    broker.clear()
    broker.tick(broker.now + 1 / CHANGES_PER_S)
    assert interest(broker) == []
    broker.tick(broker.now + CALM_S)
    (update,) = interest(broker)
    assert set(update) >= set(MANY[round(CHANGES_BURST) :])


def test_a_storm_without_an_end_holds_interest_for_a_bounded_time() -> None:
    broker = started()
    storm(broker)
    broker.clear()
    until, version = broker.now + 1.5 * STORM_S, 1
    while broker.now < until:
        version += 1
        storm(broker, version)
        broker.tick(broker.now + CALM_S / 2)
    assert interest(broker)


def test_an_overlay_has_a_deadline_while_link_states_are_gathered() -> None:
    broker = started()
    storm(broker)
    assert broker.overlay.due_at <= broker.now + 1 / CHANGES_PER_S
