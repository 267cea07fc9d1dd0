"""The Matching frames that report whether any subscription matches an advertisement."""

from __future__ import annotations

import pytest

from plait_core.errors import FilterError
from plait_core.filters import parse
from plait_core.space import IntRange, Schema
from plait_core.wire.frame_types.session_frames import Matching
from plait_peer.group import Group
from plait_peer.sdk.advertisements import Advertisements

SPACE = Schema.of({"kind": IntRange(0, 7)})


def test_others_are_known_by_their_sub_spaces_and_our_own_subscriptions_by_their_filters() -> None:
    advertisements = Advertisements(Group(space=SPACE))
    advertisements.add(1, "kind < 4")
    advertisements.add(2, "kind >= 4 and has(probe)")
    assert advertisements.changes([], []) == [Matching(1, False), Matching(2, False)]
    assert advertisements.changes([("0",)], []) == [Matching(1, True)]
    assert advertisements.changes([("0",)], []) == [], "a reported change is not reported again"
    assert advertisements.changes([], [parse("kind == 6")]) == [Matching(1, False), Matching(2, True)]
    assert advertisements.changes([], [parse("kind == 6 and not has(probe)")]) == [Matching(2, False)]


def test_without_a_space_every_subscription_is_for_everything() -> None:
    advertisements = Advertisements(Group())
    advertisements.add(1, "kind < 4")
    assert advertisements.changes([("",)], []) == [Matching(1, True)]


def test_withdrawn_advertisements_are_forgotten_and_invalid_filters_refused() -> None:
    advertisements = Advertisements(Group(space=SPACE))
    advertisements.add(1, "true")
    advertisements.remove(1)
    with pytest.raises(FilterError):
        advertisements.add(2, "kind <")
    assert advertisements.changes([("",)], []) == []
