"""Dz-expressions and their canonical sets."""

from __future__ import annotations

import pytest

from plait_core.errors import SpaceInvalid
from plait_core.limits import DZ_BITS_MAX
from plait_core.space import WHOLE, Dz, DzSet, Strategy


def test_a_dz_is_a_value() -> None:
    assert Dz("01") == Dz("01") != Dz("010")
    assert len({Dz("01"), Dz("01"), Dz("1")}) == 2
    assert sorted([Dz("1"), Dz("01"), Dz("0"), WHOLE]) == [WHOLE, Dz("0"), Dz("01"), Dz("1")]
    assert (str(WHOLE), str(Dz("0*1"))) == ("ε", "0*1")


@pytest.mark.parametrize("text", ["2", "0 1", "0a1", "ε", "٠", None, 1, b"01"])
def test_anything_else_is_refused(text: object) -> None:
    with pytest.raises(SpaceInvalid):
        Dz(text)  # type: ignore[arg-type]


def test_its_length_is_bounded() -> None:
    longest = Dz("0" * DZ_BITS_MAX)
    with pytest.raises(SpaceInvalid, match="DZ_BITS_MAX"):
        longest.children()


def test_relatives() -> None:
    dz = Dz("0*1")
    assert dz.parent() == Dz("0*")
    assert dz.sibling() == Dz("0*0")
    assert dz.children() == (Dz("0*10"), Dz("0*11"))
    assert all(child.parent() == dz for child in dz.children())


@pytest.mark.parametrize("lone", [WHOLE, Dz("0*")])
def test_the_whole_space_has_no_sibling(lone: Dz) -> None:
    with pytest.raises(SpaceInvalid):
        lone.sibling()


def test_the_whole_has_no_parent() -> None:
    with pytest.raises(SpaceInvalid):
        WHOLE.parent()


@pytest.mark.parametrize(
    ("a", "b", "covers", "overlaps"),
    [
        ("*0", "00", True, True),
        ("*0", "1", False, True),
        ("*0", "*01", True, True),
        ("0*", "0", True, True),
        ("0", "0*", True, True),
        ("0*0", "0", False, True),
        ("*1", "*0", False, False),
        ("01", "*1", False, True),
        ("***", "", True, True),
    ],
)
def test_wildcards(a: str, b: str, covers: bool, overlaps: bool) -> None:
    assert Dz(a).covers(Dz(b)) is covers
    assert Dz(a).overlaps(Dz(b)) is Dz(b).overlaps(Dz(a)) is overlaps


def test_a_set_is_canonical() -> None:
    assert str(DzSet.of(["011", "00", "1", "010", "1010"])) == "{ε}"
    assert str(DzSet.of(["011", "00", "10", "000"])) == "{00, 011, 10}"
    assert DzSet.of(["*0", "01"]) == DzSet.of(["0", "10"])
    assert DzSet.of([]) == DzSet()
    assert not DzSet()


def test_spelling_out_wildcards_is_bounded() -> None:
    assert len(DzSet.of(["*" * 15 + "0"])) == 2**15
    assert DzSet.of(["*" * 1000]) == DzSet.of([""])
    for text in ("*" * 17 + "0", "*" * 1023 + "0"):
        with pytest.raises(SpaceInvalid, match="DZ_SET_MAX"):
            DzSet.of([text])
    with pytest.raises(SpaceInvalid, match=r"3 .*2 .DZ_SET_MAX"):
        DzSet.of(["000", "010", "100"], set_max=2)


def test_an_event_is_in_a_set() -> None:
    held = DzSet.of(["001", "011"])
    assert held.covers(Dz("0011010"))
    assert not held.covers(Dz("000"))
    assert not held.covers(Dz("00")), "it covers only a part"
    assert held.overlaps(Dz("00"))
    assert held.covers(Dz("0*1"))
    assert not held.covers(Dz("**1"))
    assert held.overlaps(Dz("**1"))
    assert not held.overlaps(Dz("1*1"))
    assert not DzSet().covers(WHOLE)
    assert not DzSet().overlaps(WHOLE)


def test_algebra() -> None:
    a, b = DzSet.of(["00", "011"]), DzSet.of(["0"])
    assert a.union(b) == b
    assert a.intersection(b) == a
    assert b.difference(a) == DzSet.of(["010"])
    assert a.difference(b) == DzSet()
    assert b.covers(a)
    assert not a.covers(b)
    assert a.overlaps(b)
    assert a.union() == a


def test_a_difference_is_bounded() -> None:
    with pytest.raises(SpaceInvalid, match="DZ_SET_MAX"):
        DzSet.of([""]).difference(DzSet.of(["0" * 40]), set_max=39)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_coarsening_a_set(strategy: Strategy) -> None:
    held = DzSet.of(["0000", "0010", "1000", "1010"])
    assert held.at_most(4, strategy) == held
    assert held.at_most(2, strategy) == DzSet.of(["00", "10"])
    assert held.at_most(1, strategy) == DzSet.of([""])
    with pytest.raises(SpaceInvalid, match="theta"):
        held.at_most(0, strategy)


def test_ours_adds_less_false_volume_than_the_oldest_first() -> None:
    """Breadth-first exploration spends its third dz-expression on the half that is nearly full, because that comes
    first.
    """
    held = DzSet.of(["00", "0100", "0101", "0110", "100000", "111111"])
    by_the_book, ours = (held.at_most(3, strategy) for strategy in Strategy)
    assert ours == DzSet.of(["0", "100000", "111111"])
    assert ours.volume < by_the_book.volume


def test_a_chain_as_deep_as_a_dz_can_be() -> None:
    """One point is removed from the deepest tree, where recursion would fail."""
    held = DzSet.of([""]).difference(DzSet.of(["0" * DZ_BITS_MAX]))
    assert len(held) == DZ_BITS_MAX
    for strategy in Strategy:
        coarse = held.at_most(10, strategy)
        assert len(coarse) <= 10
        assert coarse.covers(held)
