"""Results of events are sent again when a link has failed."""

from __future__ import annotations

from typing import cast

from plait_broker.overlay.transport.control_unicast import ControlUnicast
from plait_broker.overlay.transport.outcome_sender import KEPT_S, MARGIN_S, OUTCOMES_MAX, OutcomeSender
from plait_core.wire.frame_types.overlay_frames import DeliveryOutcome

ME, NEAR, FAR = 1, 2, 3
DETECT_S = 3.0


class Sent:
    """Takes what is sent."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def send(self, message: DeliveryOutcome, now: float) -> None:
        self.positions.append(message.position)

    def take(self) -> list[int]:
        taken, self.positions = self.positions, []
        return taken


def sender() -> tuple[OutcomeSender, Sent]:
    sent = Sent()
    return OutcomeSender(cast(ControlUnicast, sent), DETECT_S), sent


def outcome(position: int, root: int = NEAR) -> DeliveryOutcome:
    return DeliveryOutcome(root, ME, position, 1)


def test_results_of_the_last_seconds_are_sent_again_in_order_when_a_link_has_failed() -> None:
    outcomes, sent = sender()
    for position, at in ((1, 0.0), (2, 2.0), (3, 2.5)):
        outcomes.send(outcome(position), at)
    assert sent.take() == [1, 2, 3]
    outcomes.send_again(DETECT_S + MARGIN_S + 1.0)
    assert sent.take() == [2, 3]


def test_all_results_of_a_broker_are_sent_again_when_it_can_be_reached_again() -> None:
    outcomes, sent = sender()
    for position, root in ((1, NEAR), (2, FAR), (3, NEAR)):
        outcomes.send(outcome(position, root), 0.0)
    sent.take()
    outcomes.send_again(20.0, NEAR)
    assert sent.take() == [1, 3]
    outcomes.send_again(KEPT_S + 0.1, NEAR)
    assert sent.take() == []


def test_the_latest_results_are_kept_and_no_more() -> None:
    outcomes, sent = sender()
    for position in range(OUTCOMES_MAX + 10):
        outcomes.send(outcome(position), 0.0)
    sent.take()
    outcomes.send_again(0.1)
    assert sent.take() == list(range(10, OUTCOMES_MAX + 10))
