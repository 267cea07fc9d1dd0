"""Interest of durable subscriptions at other brokers: learned, stored, recalled, passed to the next incarnation."""

from __future__ import annotations

from typing import Any

import pytest

from plait_broker.overlay.interest.durable_interest import RemoteDurableInterest
from plait_broker.overlay.interest.durable_interest_store import MemoryKey
from plait_broker.overlay.interest.remote_interest import HomeInterest
from plait_broker.overlay.overlay import Overlay
from plait_broker.overlay.settings import OverlaySettings
from plait_core import Event
from plait_core.filters import parse
from plait_core.matching import new_index
from plait_core.wire import Confirm, EventFrame, Publish, encode_block
from plait_core.wire.frame_types.envelope_frames import (
    EndToEnd,
    Signed,
    envelop_document,
    envelop_message,
    read_document,
    read_message,
)
from plait_core.wire.frame_types.overlay_frames import (
    DurableInterest,
    InterestAck,
    InterestUpdate,
    LinkState,
)

HOME, HEIR = 7, 8
CHEAP = DurableInterest(HOME, 1, 1, "price < 10")
SHEET = LinkState(HOME, 1, "home", (), (), incarnation=5, born=1)


def event(price: int) -> EventFrame:
    return Publish(Confirm.NONE, encode_block(Event({"price": price}, b"", 1, 1, 0)))


@pytest.fixture
def theirs() -> RemoteDurableInterest:
    found = RemoteDurableInterest(new_index)
    found.learn(CHEAP)
    return found


def test_whoever_has_told_nothing_is_away(theirs: RemoteDurableInterest) -> None:
    theirs.review({}, 3)
    assert theirs.match(event(5)) == [HOME]
    assert theirs.match(event(50)) == []


@pytest.mark.parametrize(("since", "offers", "away"), [(1.0, 3, False), (1.0, 2, True), (float("inf"), 3, True)])
def test_whoever_has_answered_to_our_present_offers_is_there(
    theirs: RemoteDurableInterest, since: float, offers: int, away: bool
) -> None:
    theirs.review({HOME: HomeInterest(since=since, offers=offers)}, 3)
    assert bool(theirs.match(event(5))) is away


def test_what_is_taken_back_is_wanted_no_more(theirs: RemoteDurableInterest) -> None:
    theirs.learn(DurableInterest(HOME, CHEAP.number, 2, ""))
    theirs.review({}, 0)
    assert theirs.match(event(5)) == []
    assert not theirs.away
    assert not len(theirs)


def test_a_next_life_is_wanted_of_until_it_has_spoken(theirs: RemoteDurableInterest) -> None:
    theirs.succeed(HOME, HEIR)
    assert not theirs.forget(HOME), "it is kept for the heir"
    theirs.review({}, 0)
    assert theirs.match(event(5)) == [HEIR]
    assert theirs.complete(HEIR) == [HOME]
    theirs.review({}, 0)
    assert theirs.match(event(5)) == []


def test_what_cannot_be_read_is_said_to_be_so(theirs: RemoteDurableInterest) -> None:
    assert not theirs.learn(DurableInterest(HOME, 2, 1, "price <"))


class Kept:
    """The host of an overlay, as far as it remembers; all else it lets pass."""

    waits = False

    def __init__(self, stores: bool = True) -> None:
        self.stores = stores
        self.memories: dict[MemoryKey, Signed] = {}
        self.sent: list[Any] = []

    def remember(self, key: MemoryKey, document: Signed | None) -> bool:
        if document is None:
            self.memories.pop(key, None)
            return False
        self.memories[key] = document
        return self.stores

    def send(self, link: int, frame: Any) -> None:
        self.sent.append(frame)

    @property
    def acks(self) -> list[InterestAck]:
        """The interest acks that were sent."""
        read = [read_message(frame, 0) for frame in self.sent if isinstance(frame, EndToEnd)]
        return [message for message in read if isinstance(message, InterestAck)]

    @property
    def durable(self) -> list[DurableInterest]:
        """The durable interest that was flooded."""
        read = [read_document(frame) for frame in self.sent if isinstance(frame, Signed)]
        return [document for document in read if isinstance(document, DurableInterest)]

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Chance:
    """A random generator whose values do not matter."""

    def getrandbits(self, bits: int) -> int:
        return 1

    def random(self) -> float:
        return 0.5


def overlay(host: Kept) -> Overlay:
    return Overlay(1, OverlaySettings(), host, Chance(), 0.0)  # type: ignore[arg-type]


def test_what_is_told_is_kept_with_the_sheet_that_it_is_believed_by() -> None:
    host = Kept()
    broker = overlay(host)
    broker.link_up(1, 2, "b", 0.0)
    for document in (SHEET, CHEAP):
        broker.hear(2, envelop_document(document), 0.1)
    assert host.memories == {(HOME, 0): envelop_document(SHEET), (HOME, CHEAP.number): envelop_document(CHEAP)}
    broker.hear(2, envelop_document(DurableInterest(HOME, CHEAP.number, 2, "")), 0.2)
    assert host.memories == {}, "and nothing of a broker that wants nothing"


def test_a_next_start_goes_by_what_was_kept() -> None:
    broker = overlay(Kept())
    broker.recall(map(envelop_document, [CHEAP, SHEET]), 0.0)
    assert broker.destinations(event(5)) == [HOME]
    assert broker.meets(parse("price < 3"))
    assert HOME in broker.map


def test_what_was_kept_without_its_sheet_is_of_no_use() -> None:
    host = Kept()
    host.memories[HOME, 0] = envelop_document(SHEET)
    overlay(host).recall([envelop_document(SHEET)], 0.0)
    assert host.memories == {}


def test_a_home_hears_that_it_is_known_once_that_is_stored() -> None:
    host = Kept()
    broker = overlay(host)
    broker.link_up(1, 2, "b", 0.0, delay_us=1000)
    broker.hear(2, envelop_document(LinkState(2, 1, "b", (1,), (1000,), incarnation=5, born=1)), 0.1)
    broker.hear(2, envelop_document(DurableInterest(2, 1, 1, "price < 10")), 0.1)
    update = InterestUpdate((1,), 2, (1,), (0,), True, (1,), ("price < 10",), ())
    broker.hear(2, envelop_message(update), 0.1)
    assert len(host.memories) == 2
    assert not host.acks
    broker.stored(list(host.memories))
    assert [ack.version for ack in host.acks] == [1]


def test_a_broker_alone_says_nothing_and_all_once_there_are_others() -> None:
    host = Kept()
    broker = overlay(host)
    broker.want(1, parse("price < 10"), durable=True)
    broker.want(2, parse("price < 5"), durable=True)
    broker.link_up(1, 2, "b", 0.0)
    assert not host.durable
    broker.hear(2, envelop_document(LinkState(2, 1, "b", (), ())), 0.1)
    assert [document.filter for document in host.durable] == ["price < 10"], "which covers the other"
    broker.unwant(1)
    assert [document.filter for document in host.durable[1:]] == ["price < 5", ""], "what it covered alone comes first"


def test_one_that_will_not_come_back_is_forgotten_when_that_is_said() -> None:
    host = Kept()
    broker = overlay(host)
    broker.recall(map(envelop_document, [SHEET, CHEAP]), 0.0)
    broker.tick(1.0)
    assert broker.destinations(event(5)) == [HOME]
    broker.given_up = frozenset({"home"})
    broker.tick(2.0)
    assert broker.destinations(event(5)) == []
    assert host.memories == {}, "and does not come back at the next start"
