"""The exception tree: messages, pickling, and the position of the caret."""

from __future__ import annotations

import copy
import pickle

import pytest

from plait_core import errors
from plait_core.errors import FilterSyntax, FilterTooComplex, FrameError, FrameFault, PlaitError
from plait_core.filters import parse


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = [line for line in (errors.__doc__ or "").splitlines() if line.startswith("    ")]
    names = {word for line in drawn for word in line.replace("├──", "").replace("└──", "").split()[:2]}
    found = {name for name, thing in vars(errors).items() if isinstance(thing, type) and issubclass(thing, PlaitError)}
    assert found <= names


def test_hints_and_columns_are_shown() -> None:
    assert str(PlaitError("no")) == "no"
    assert str(PlaitError("no", hint="try yes")) == "no (try yes)"
    error = FilterSyntax("odd", text="a b", column=3, hint="even")
    assert str(error) == "filter: odd at column 3 (even)"
    assert str(FilterTooComplex("big")) == "filter: big"
    assert not error.retryable


@pytest.mark.parametrize(
    ("text", "column", "caret"),
    [
        ("a b", 3, "a b\n  ^"),
        ("a b", 1, "a b\n^"),
        ("a b", 4, "a b\n   ^"),  # just after the end
        ("a b", 0, "a b\n^"),  # no column
        ("", 1, "\n^"),
        ("a\nb", 3, "a b\n  ^"),  # a line of text stays a line
        ("\x1b[31m\u202e", 2, " [31m \n ^"),  # and controls no terminal
        ("\ud800x", 2, " x\n ^"),
        ("😀 x", 3, "😀 x\n  ^"),
    ],
)
def test_the_caret_is_under_the_column(text: str, column: int, caret: str) -> None:
    assert FilterSyntax("odd", text=text, column=column).caret() == caret


@pytest.mark.parametrize("column", [1, 2, 50, 51, 99, 100, 101, 500, 950, 999, 1000, 1001])
@pytest.mark.parametrize("width", [1, 2, 20, 100, 2000])
def test_a_long_text_is_cut_around_the_column(column: int, width: int) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(1000))
    shown, caret = FilterSyntax("odd", text=text, column=column).caret(width).split("\n")
    assert len(shown) <= width
    assert shown in text
    assert len(caret) <= width + 1
    if column <= len(text):
        assert shown[len(caret) - 1] == text[column - 1]


@pytest.mark.parametrize(
    ("text", "caret"),
    [
        ("price > 100 and symbol = IBM", "price > 100 and symbol = IBM\n                       ^"),
        ("price >", "price >\n       ^"),
        ("x in [1, 2", "x in [1, 2\n          ^"),
    ],
)
def test_the_caret_of_a_parsed_text(text: str, caret: str) -> None:
    with pytest.raises(FilterSyntax) as caught:
        parse(text)
    assert caught.value.caret() == caret


def test_filter_errors_survive_copying_and_pickling() -> None:
    with pytest.raises(FilterSyntax) as caught:
        parse("a ==")
    for twin in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert str(twin) == str(caught.value)
        assert twin.caret() == caught.value.caret()


def test_a_frame_error_has_its_fault() -> None:
    error = FrameError(FrameFault.OVERSIZE, "too long")
    assert error.fault is FrameFault.OVERSIZE
    assert str(error) == "oversize: too long"
