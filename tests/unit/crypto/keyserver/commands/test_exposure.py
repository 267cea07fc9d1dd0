"""`plait exposure`: what each party can tell about each condition."""

from __future__ import annotations

from sealed_world import EPOCHS

from plait_core import parse
from plait_core.space import IntRange
from plait_crypto import Numbers, OneOf, Schema, Texts
from plait_keyserver.commands.exposure import BROKER, MEMBER, OBSERVER, Exposure, as_text, exposures

SCHEMA = Schema(
    {"price": Numbers(IntRange(0, 1023)), "symbol": OneOf.of("IBM", "SAP", "XYZ"), "note": Texts()},
    EPOCHS,
    frozenset({"venue"}),
)
FILTER = parse("symbol in ['IBM', 'SAP'] and price between 1 and 6 and venue == 'X'")


def told(**options: object) -> dict[tuple[str, str], Exposure]:
    return {(each.attribute, each.party): each for each in exposures(FILTER, SCHEMA, **options)}  # type: ignore[arg-type]


def test_hidden_conditions_leave_all_values_possible() -> None:
    found = told()
    assert found["price", BROKER].tells.startswith("4 points, tokens among them")
    assert found["price", BROKER].possible == 1024
    assert found["symbol", BROKER].possible == 3
    assert found["note", BROKER].possible is None
    assert "by trying values" in found["price", MEMBER].tells
    assert (found["price", MEMBER].possible, found["symbol", MEMBER].possible) == (6, 2)
    assert "padded sizes" in found["price", OBSERVER].tells


def test_what_is_clear_or_revealed_is_told() -> None:
    found = told(reveal=["symbol"])
    assert (found["symbol", BROKER].tells, found["symbol", BROKER].possible) == ("the condition: it is revealed", 2)
    assert "declared clear" in found["venue", BROKER].tells


def test_without_tokens_nothing_is_told() -> None:
    found = told(deposit="nothing")
    assert {found[name, BROKER].tells for name in ("price", "symbol", "note")} == {"nothing"}
    assert "points for wider values" in told(deposit="coarse")["price", BROKER].tells


def test_the_text_names_each_attribute_once() -> None:
    text = as_text(list(told().values()))
    assert [line for line in text.splitlines() if not line.startswith(" ")] == ["price", "symbol", "note", "venue"]
