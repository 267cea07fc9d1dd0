"""Hidden values stay hidden: no product of pairings tells two of them apart, for any party (the generic group model).

The parties have what the production code gives them. Two planted defects show that the check would find one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest

from plait_lab.hiding.distinguishers import distinguisher, rows_needed
from plait_lab.hiding.parties import FRESH_FILLERS, ONE_EXPONENT, PARTIES, PUBLIC_F2, TOGETHER, Draw, Filter, Setting

SEEN = {1: (("a",), ("b",)), 2: (("a", "a"), ("a", "b"))}
"""Hidden values that a party compares: those of one event, or whether two capsules have the same.

Events of one sealing session share a capsule, and so show that their values are equal (THREAT_MODEL.md).
"""

OTHERS = 4
"""Draws of the other hidden values: one outside the span would do."""


@functools.cache
def draw(setting: Setting, seed: int) -> Draw:
    return Draw(setting, seed)


def told(party: str, setting: Setting, events: int) -> str:
    one, other = SEEN[events]
    needed = rows_needed(draw(setting, 0).knowledge(party, one))
    first = [draw(setting, seed).knowledge(party, one) for seed in range(needed)]
    return distinguisher(
        first, [draw(setting, seed).knowledge(party, other) for seed in range(needed, needed + OTHERS)]
    )


@pytest.mark.parametrize("attributes", [1, 2])
def test_no_party_tells_hidden_values_apart(attributes: int) -> None:
    setting = Setting(attributes)
    for events in SEEN:
        for party in (*PARTIES, TOGETHER):
            assert told(party, setting, events) == "", f"{party}, events: {events}"


def filter_told(party: str) -> str:
    setting = Setting(2)
    needed = rows_needed(draw(setting, 0).of_deposit(party, "a"))
    first = [draw(setting, seed).of_deposit(party, "a") for seed in range(needed)]
    return distinguisher(first, [draw(setting, seed).of_deposit(party, "b") for seed in range(needed, needed + OTHERS)])


@pytest.mark.parametrize("party", ["stranger", "broker", "member"])
def test_nobody_but_publishers_tells_which_credential_a_token_is_for(party: str) -> None:
    assert filter_told(party) == ""


def test_a_broker_with_a_publisher_tells_which_credential_a_token_is_for() -> None:
    """As in every such scheme: who can make tags can make one for each credential, and try."""
    assert filter_told("publisher") != ""


TWO, FOUR = (("a",), ("a", "b")), (("a",), ("a", "b", "c"))
"""Filters with one token in the first row, which fillers bring to two and to four points."""


def token_told(party: str, filters: Sequence[Filter], defect: str = "") -> str:
    """Return by what a party that sees a deposit for each filter tells which point of the first row is the token."""
    setting = Setting(2, defect)
    needed = rows_needed(draw(setting, 0).of_deposits(party, filters, 0))
    first = [draw(setting, seed).of_deposits(party, filters, 0) for seed in range(needed)]
    second = [draw(setting, seed).of_deposits(party, filters, 1) for seed in range(needed, needed + OTHERS)]
    return distinguisher(first, second)


@pytest.mark.parametrize("filters", [(TWO, TWO), (FOUR, FOUR), (TWO, FOUR)], ids=["two", "four", "two and four"])
@pytest.mark.parametrize("party", ["stranger", "broker", "member"])
def test_two_deposits_do_not_tell_which_of_their_points_are_tokens(party: str, filters: Sequence[Filter]) -> None:
    """Both are for one filter, or for two whose first rows are the same."""
    assert token_told(party, filters) == ""


@pytest.mark.parametrize("filters", [(TWO, TWO), (TWO, FOUR)], ids=["two", "two and four"])
def test_two_deposits_with_fillers_of_their_own_tell_it(filters: Sequence[Filter]) -> None:
    """As in the first keys of version 2, so the test above would find such a defect."""
    assert token_told("stranger", filters, FRESH_FILLERS) != ""


def test_deposits_of_filters_that_overlap_tell_which_tokens_they_share() -> None:
    """As THREAT_MODEL.md admits: brokers test equal tokens once, so equal credentials have equal tokens."""
    overlapping = (("a", "c"), ("a", "b"))
    assert token_told("stranger", (TWO, overlapping)) != ""


@pytest.mark.parametrize("defect", [PUBLIC_F2, ONE_EXPONENT])
@pytest.mark.parametrize("events", SEEN)
def test_the_defects_of_version_1_are_found(defect: str, events: int) -> None:
    assert told("stranger", Setting(1, defect), events)


def test_a_public_f2_is_found_with_several_attributes() -> None:
    assert told("stranger", Setting(2, PUBLIC_F2), events=1)


def test_whoever_holds_a_token_of_the_value_can_tell() -> None:
    """The check is no blank: a party that may tell is seen to tell."""
    setting = Setting(1)
    needed = rows_needed(draw(setting, 0).knowledge("broker", ("c",)))
    first = [draw(setting, seed).knowledge("broker", ("c",)) for seed in range(needed)]
    other = [draw(setting, seed).knowledge("broker", ("a",)) for seed in range(needed, needed + OTHERS)]
    assert distinguisher(first, other), "the broker has the token of the value c"
