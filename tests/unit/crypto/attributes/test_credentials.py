"""Credentials (thesis 5.4): those that a value matches, those that a filter needs, and their numbers."""

from __future__ import annotations

import json

import pytest
from sealed_world import EPOCHS, HOUR_US, areas, quotes

from plait_core import parse
from plait_core.space import FloatRange, IntRange
from plait_crypto import Credential, Epochs, Numbers, OneOf, Schema, SealInvalid, Texts
from plait_crypto.attributes.credentials import ABSENT, WHOLE

PRICE, SYMBOL, SIDE = range(3)


def needs(filter: str, row: int, **more: bool) -> list[str]:
    """Return the labels that a filter of one conjunction needs on one attribute of `quotes`."""
    (box,) = quotes().boxes(parse(filter), **more)
    return [credential.label.decode() for credential in box[row]]


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_a_value_of_depth_n_matches_n_plus_one_credentials() -> None:
    """5.4.1: 0010 is matched by 0010, 001, 00, 0 and the empty string."""
    assert Numbers(IntRange(0, 15)).path(2) == (b"", b"dz0", b"dz00", b"dz001", b"dz0010")


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 32, 64])
def test_a_range_needs_at_most_two_credentials_a_level(bits: int) -> None:
    """The worst range of 2**n values excludes the first and the last: 2n - 2 credentials."""
    schema = Schema({"x": Numbers(IntRange(0, 2**bits - 1))}, EPOCHS)
    ((row,),) = schema.boxes(parse(f"x between 1 and {max(2**bits - 2, 1)}"))
    assert len(row) == max(2 * bits - 2, 1)


def test_an_unconstrained_attribute_is_one_credential() -> None:
    assert needs("side == 'buy'", PRICE) == [""]


def test_all_numbers_are_two_credentials_since_absence_is_none_of_them() -> None:
    assert needs("has(price)", PRICE) == ["dz0", "dz1"]
    assert needs("price is null", PRICE) == ["absent"]
    assert Numbers(IntRange(0, 15)).path(None)[:2] == (WHOLE.label, ABSENT.label)


def test_a_range_that_cuts_a_cell_is_refused_unless_widened() -> None:
    assert needs("price < 128", PRICE) == ["dz0"]
    with pytest.raises(SealInvalid, match="not exactly"):
        quotes().boxes(parse("price < 127.5"))
    assert needs("price < 127.5", PRICE, widen=True) == ["dz0"]


def test_holes_and_points() -> None:
    schema = Schema({"x": Numbers(IntRange(0, 7))}, EPOCHS)
    ((row,),) = schema.boxes(parse("x != 3"))
    assert [each.label for each in row] == [b"dz00", b"dz010", b"dz1"]
    ((row,),) = schema.boxes(parse("x in [1, 6, 99]"))
    assert [each.label for each in row] == [b"dz001", b"dz110"]


def test_too_many_holes_are_refused() -> None:
    schema = Schema({"x": Numbers(IntRange(0, 2**16))}, EPOCHS)
    filter = parse(f"x not in {list(range(0, 200, 2))}")
    with pytest.raises(SealInvalid, match="holes"):
        schema.boxes(filter)
    assert len(schema.boxes(filter, widen=True)) == 1


@pytest.mark.parametrize("value", [-1, 256, 2.5, True, "3", [1], float("nan")])
def test_values_outside_the_domain_are_not_sealed(value: object) -> None:
    with pytest.raises(SealInvalid):
        Numbers(IntRange(0, 255)).path(value)


# --- texts ------------------------------------------------------------------------------------------------------------


def test_a_text_matches_its_prefixes_its_suffixes_and_itself() -> None:
    path = Texts(prefix_chars=3, suffix_chars=2).path("sea")
    words = [b"", b"present", b"prefix s", b"prefix se", b"prefix sea", b"suffix a", b"suffix ae", b"text sea"]
    assert list(path) == words


def test_a_path_reveals_no_length() -> None:
    tree = Texts(prefix_chars=4)
    assert {len(tree.path(text)) for text in (None, "", "a", "abc", "abcdefghijk")} == {tree.places}


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("symbol startswith 'IB'", ["prefix IB"]),
        ("symbol endswith 'BM'", ["suffix MB"]),
        ("symbol == 'IBM'", ["text IBM"]),
        ("symbol in ['A', 'IBM Corp']", ["text A", "text IBM Corp"]),
        ("has(symbol)", ["present"]),
        ("symbol is null", ["absent"]),
    ],
)
def test_conditions_on_texts_that_have_credentials(filter: str, expected: list[str]) -> None:
    assert needs(filter, SYMBOL) == expected


@pytest.mark.parametrize(
    ("filter", "widened"),
    [
        ("symbol startswith 'IBMX'", ["prefix IBM"]),
        ("symbol endswith 'IBM'", ["suffix MB"]),
        ("symbol contains 'B'", ["present"]),
        ("symbol like 'I_M'", ["present"]),
        ("symbol > 'I'", ["present"]),
        ("symbol != 'I'", ["present"]),
        ("symbol startswith 'IB' and symbol != 'IBM'", ["prefix IB"]),
    ],
)
def test_conditions_on_texts_without_credentials_are_refused_unless_widened(filter: str, widened: list[str]) -> None:
    with pytest.raises(SealInvalid, match="not exactly"):
        quotes().boxes(parse(filter))
    assert needs(filter, SYMBOL, widen=True) == widened


# --- enumerations, time -----------------------------------------------------------------------------------------------


def test_an_enumeration_has_a_credential_for_each_value() -> None:
    assert needs("side == 'sell'", SIDE) == ["value 1"]
    assert needs("has(side)", SIDE) == ["value 0", "value 1"]
    assert needs("side startswith 'b'", SIDE) == ["value 0"]
    mixed = OneOf.of(1, True, "1", 2.5)
    assert len({mixed.path(value) for value in (1, True, "1", 2.5, None)}) == 5


def test_an_hour_of_a_month_is_a_few_credentials() -> None:
    """5.5.7: seconds of a month need at most 22 x 2 credentials, and some ranges one."""
    epochs = Epochs(0, 30 * 24 * HOUR_US, HOUR_US, slot_bits=22)
    hour = 2**22 // (30 * 24)
    assert len(epochs.cover((5 * hour, 6 * hour))) <= 2 * 22 - 2
    assert epochs.cover(None) == (WHOLE,)
    assert epochs.cover((0, 2**21)) == (Credential(1, b"dz0"),)


def test_slots_tile_the_epoch() -> None:
    epochs = Epochs(5, 1000, 10, slot_bits=3)
    for now in range(5, 3005):
        epoch, slot = epochs.epoch_at(now), epochs.slot_at(now)
        assert now < epochs.slot_end_us(epoch, slot)
        assert slot == 0 or now >= epochs.slot_end_us(epoch, slot - 1)


def test_epochs_overlap() -> None:
    epochs = Epochs(0, 1000, 100)
    assert [epochs.issued_at(now) for now in (0, 899, 900, 1000)] == [(0,), (0,), (0, 1), (1,)]
    assert [epochs.taken_at(now) for now in (0, 899, 900, 1000, 1099, 1100)] == [
        (0,),
        (0,),
        (0, 1),
        (0, 1),
        (0, 1),
        (1,),
    ]
    with pytest.raises(SealInvalid):
        epochs.epoch_at(-1)


# --- schemas ----------------------------------------------------------------------------------------------------------


def test_a_union_is_a_box_for_each_conjunction() -> None:
    boxes = areas().boxes(parse("(area < 16 and location == 'Stuttgart') or (area >= 64 and location == 'London')"))
    assert [[len(row) for row in box] for box in boxes] == [[1, 1], [1, 1]]


@pytest.mark.parametrize("filter", ["false", "side == 'hold'", "price == 'x'", "price > 999 or side == 3"])
def test_unsatisfiable_filters_are_refused(filter: str) -> None:
    with pytest.raises(SealInvalid, match="no event"):
        quotes().boxes(parse(filter))


def test_a_condition_that_guards_nothing_is_refused_unless_widened() -> None:
    with pytest.raises(SealInvalid, match="note"):
        quotes().boxes(parse("price < 128 and note == 'x'"))
    assert needs("price < 128 and note == 'x'", PRICE, widen=True) == ["dz0"]


def test_a_filter_with_too_many_boxes_or_credentials_is_refused() -> None:
    schema = Schema({"x": Numbers(IntRange(0, 2**16 - 1)), "y": Numbers(IntRange(0, 3))}, EPOCHS)
    many = " or ".join(f"(x == {k} and y == {k % 4})" for k in range(65))
    with pytest.raises(SealInvalid, match="65 conjunctions"):
        schema.boxes(parse(many))
    with pytest.raises(SealInvalid, match="CREDENTIALS_MAX"):
        schema.boxes(parse(f"x in {list(range(0, 1200, 2))}"))


def test_schemas_travel() -> None:
    for schema in (areas(), quotes(), quotes(slot_bits=4)):
        again = Schema.from_json(schema.to_json())
        assert again.digest == schema.digest
        assert again.rows == schema.rows
        assert again.shape == schema.shape
    assert quotes().digest != quotes(slot_bits=4).digest != areas().digest


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.pop("epochs"),
        lambda told: told["attributes"].clear(),
        lambda told: told["attributes"].append(told["attributes"][0]),
        lambda told: told["attributes"][0].update(type="?"),
        lambda told: told["attributes"][0].update(domain="?"),
        lambda told: told["attributes"][0].update(lo=300),
        lambda told: told["attributes"][0].update(name="$time"),
        lambda told: told["attributes"][0].update(name=3),
        lambda told: told["attributes"][0].update(bits=65),
        lambda told: told["attributes"][1].update(prefix_chars=1000),
        lambda told: told["attributes"][2].update(values=[]),
        lambda told: told["attributes"][2].update(values=["\ud800", "buy"]),
        lambda told: told.update(clear="abc"),
        lambda told: told.update(clear={"a": 1}),
        lambda told: told["epochs"].update(length_us=0),
        lambda told: told["epochs"].update(overlap_us="1"),
        lambda told: told["epochs"].update(slot_bits=60),
    ],
)
def test_broken_schemas_are_refused(change: object) -> None:
    told = json.loads(quotes().to_json())
    change(told)  # type: ignore[operator]
    with pytest.raises(SealInvalid):
        Schema.from_json(json.dumps(told))


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "null", '{"attributes": 3, "epochs": {}}', "[" * 100_000])
def test_invalid_schemas_are_refused(text: str) -> None:
    with pytest.raises(SealInvalid):
        Schema.from_json(text)


def test_a_number_needs_two_values() -> None:
    with pytest.raises(SealInvalid):
        Numbers(IntRange(3, 3))
    with pytest.raises(SealInvalid):
        Numbers(FloatRange(0, 1, 65))
