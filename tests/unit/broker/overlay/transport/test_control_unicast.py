"""Control frames relayed for other brokers: no more than the receiver accepts from one neighbour."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from maps import linked

from plait_broker.clients.connection import CONTROL_BURST, CONTROL_PER_S
from plait_broker.overlay.overlay import Overlay
from plait_broker.overlay.settings import OverlaySettings
from plait_broker.overlay.topology.neighbours import RELAYS_BURST, RELAYS_PER_S
from plait_core.wire import ControlFrame, encode_frame
from plait_core.wire.frame_types.envelope_frames import EndToEnd, SourceRouted, envelop_document, envelop_message
from plait_core.wire.frame_types.overlay_frames import InterestUpdate, StreamAck

ME, LIAR, OTHER = 1, 2, 3


class Sending:
    """A host that records the sent frames with their links."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, ControlFrame]] = []

    def send(self, link: int, frame: ControlFrame) -> None:
        self.sent.append((link, frame))

    def relay(self, link: int, frame: ControlFrame) -> bool:
        self.send(link, frame)
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def between(others: Iterable[int] = (LIAR,)) -> tuple[Overlay, Sending]:
    host = Sending()
    broker = Overlay(ME, OverlaySettings(), host, Random(1), 0.0)  # type: ignore[arg-type]
    for sheet in linked({(ME, other): 1000 for other in (*others, OTHER)}).link_states:
        if sheet.origin != ME:
            broker.link_up(sheet.origin, sheet.origin, sheet.name, 0.0, delay_us=1000)
            broker.hear(sheet.origin, envelop_document(sheet), 0.0)
    host.sent.clear()
    return broker, host


def passed_on(host: Sending, kind: type[ControlFrame]) -> int:
    return sum(link == OTHER and isinstance(frame, kind) for link, frame in host.sent)


def test_one_that_floods_makes_nobody_else_look_like_that() -> None:
    broker, host = between()
    took = envelop_message(StreamAck(OTHER, LIAR, 7))
    want = envelop_message(InterestUpdate((OTHER,), LIAR, (1,), (0,), True, (1,), ("x > 1",), ()))
    floods = (took, want, SourceRouted((LIAR, ME, OTHER), 1, 0, encode_frame(took)))
    for number in range(round(2 * CONTROL_BURST)):
        broker.hear(LIAR, floods[number % 3], 1.0)
    passed = sum(passed_on(host, kind) for kind in (EndToEnd, SourceRouted))
    assert passed == RELAYS_BURST < CONTROL_BURST
    assert broker.counts["relays_refused"] == 2 * CONTROL_BURST - RELAYS_BURST
    assert RELAYS_PER_S < CONTROL_PER_S


def test_nor_do_several_each_within_what_is_passed_on_for_it() -> None:
    liars = range(10, 13)
    broker, host = between(liars)
    for liar in liars:
        for _ in range(round(RELAYS_BURST)):
            broker.hear(liar, envelop_message(StreamAck(OTHER, liar, 7)), 1.0)
    assert passed_on(host, EndToEnd) == RELAYS_BURST < CONTROL_BURST


def test_what_others_have_to_say_is_passed_on_meanwhile() -> None:
    broker, host = between()
    for _ in range(round(RELAYS_BURST) + 1000):
        broker.hear(LIAR, envelop_message(StreamAck(OTHER, LIAR, 7)), 1.0)
    host.sent.clear()
    broker.hear(OTHER, envelop_message(StreamAck(LIAR, OTHER, 7)), 1.0)
    assert [link for link, _ in host.sent] == [LIAR]
    broker.hear(LIAR, envelop_message(StreamAck(OTHER, LIAR, 8)), 2.0)
    assert passed_on(host, EndToEnd) == 1, "and of that one, too, after a while"
