"""A subscription's queue: bounds, policies, priorities."""

from __future__ import annotations

import random

import pytest

from plait_broker.clients.delivery_queue import DeliveryQueue, Queued
from plait_broker.drop_reasons import DropReason
from plait_core.events import Event
from plait_core.wire import Confirm, Publish, encode_block
from plait_core.wire.frame_types.session_frames import Full

ROOM = 1 << 30


def entry(sequence: int, priority: int = 0, payload: int = 0) -> Queued:
    event = Event({"n": sequence}, bytes(payload), publisher=1, sequence=sequence, priority=priority)
    return Queued(Publish(Confirm.NONE, encode_block(event)), 0.0, 0, 0, 0)


SIZE = entry(1).size


def sequences(outbox: DeliveryQueue) -> list[int]:
    return [queued.frame.sequence for queued in outbox.clear()]


def dropped(outcome: list[tuple[Queued, DropReason]]) -> list[tuple[int, DropReason]]:
    return [(queued.frame.sequence, reason) for queued, reason in outcome]


def test_first_in_is_first_out_within_a_priority() -> None:
    outbox = DeliveryQueue(10, ROOM, Full.DROP_OLDEST)
    for sequence, priority in [(1, 0), (2, 5), (3, 0), (4, 9), (5, 5)]:
        assert outbox.put(entry(sequence, priority), ROOM) == []
    assert sequences(outbox) == [4, 2, 5, 1, 3]
    assert outbox.items == outbox.bytes == 0


def test_drop_oldest_makes_room_with_the_oldest_of_the_lowest_priority() -> None:
    outbox = DeliveryQueue(3, ROOM, Full.DROP_OLDEST)
    for sequence, priority in [(1, 5), (2, 0), (3, 0)]:
        outbox.put(entry(sequence, priority), ROOM)
    assert dropped(outbox.put(entry(4, 5), ROOM)) == [(2, DropReason.OUTBOX_ITEMS)]
    assert dropped(outbox.put(entry(5, 0), ROOM)) == [(3, DropReason.OUTBOX_ITEMS)]
    assert sequences(outbox) == [1, 4, 5]


def test_an_event_below_all_queued_priorities_is_dropped_itself() -> None:
    outbox = DeliveryQueue(1, ROOM, Full.DROP_OLDEST)
    outbox.put(entry(1, 5), ROOM)
    assert dropped(outbox.put(entry(2, 4), ROOM)) == [(2, DropReason.OUTBOX_ITEMS)]
    assert sequences(outbox) == [1]


@pytest.mark.parametrize("policy", [Full.DROP_NEWEST, Full.BLOCK, Full.CLOSE])
def test_other_policies_drop_the_newcomer(policy: Full) -> None:
    outbox = DeliveryQueue(1, ROOM, policy)
    outbox.put(entry(1), ROOM)
    assert dropped(outbox.put(entry(2, 9), ROOM)) == [(2, DropReason.OUTBOX_ITEMS)]
    assert sequences(outbox) == [1]


def test_bytes_bound_as_well_as_items() -> None:
    outbox = DeliveryQueue(10, 2 * SIZE, Full.DROP_OLDEST)
    for sequence in (1, 2):
        outbox.put(entry(sequence), ROOM)
    assert dropped(outbox.put(entry(3), ROOM)) == [(1, DropReason.OUTBOX_BYTES)]


def test_the_clients_room_bounds_too() -> None:
    outbox = DeliveryQueue(10, ROOM, Full.DROP_OLDEST)
    outbox.put(entry(1), 2 * SIZE)
    assert dropped(outbox.put(entry(2), SIZE - 1)) == [(1, DropReason.OUTBOX_BYTES)]
    assert sequences(outbox) == [2]


def test_an_event_larger_than_the_queue_evicts_nothing() -> None:
    outbox = DeliveryQueue(10, 2 * SIZE, Full.DROP_OLDEST)
    outbox.put(entry(1), ROOM)
    assert dropped(outbox.put(entry(2, payload=3 * SIZE), ROOM)) == [(2, DropReason.OUTBOX_BYTES)]
    assert sequences(outbox) == [1]


@pytest.mark.parametrize("policy", [Full.DROP_OLDEST, Full.DROP_NEWEST])
def test_against_a_list_that_is_cut_and_sorted(policy: Full) -> None:
    rng = random.Random(7)
    for _ in range(200):
        items_max = rng.randint(1, 6)
        outbox, naive = DeliveryQueue(items_max, ROOM, policy), []
        for sequence in range(1, 30):
            priority = rng.randint(0, 3)
            outbox.put(entry(sequence, priority), ROOM)
            naive.append((priority, sequence))
            if len(naive) > items_max:
                lowest = min(naive, key=lambda queued: queued)
                naive.remove(lowest if policy is Full.DROP_OLDEST else naive[-1])
            if rng.random() < 0.2 and (popped := outbox.pop()):
                first = min(naive, key=lambda queued: (-queued[0], queued[1]))
                assert popped.frame.sequence == first[1]
                naive.remove(first)
            assert len(outbox) == len(naive) <= items_max
