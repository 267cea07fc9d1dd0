"""`plait filter`: its exact output and its exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from plait.commands.root import plait


def run(*arguments: str) -> Result:
    return CliRunner().invoke(plait, ["filter", *arguments])


def test_check_prints_the_canonical_text() -> None:
    ran = run("check", "symbol = 'IBM' AND 100 < price <= 130")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "symbol == 'IBM' and price > 100 and price <= 130\n", "")


def test_check_refuses_a_filter_that_no_event_can_match() -> None:
    ran = run("check", "price < 3 and price > 5")
    assert ran.exit_code == 2
    assert "no event can match: `price < 3` and `price > 5` exclude each other" in ran.stderr
    assert "\n                ^" in ran.stderr
    assert run("match", "false", "{}").stdout == "false\n"


def test_check_names_a_doubtful_condition() -> None:
    ran = run("check", "symbol.IBM")
    assert (ran.exit_code, ran.stdout) == (0, "symbol.IBM\n")
    assert "did you mean `symbol == 'IBM'`?" in ran.stderr


def test_check_in_json() -> None:
    ran = run("check", "x == 1 or y == 2", "--json")
    assert json.loads(ran.stdout) == {"filter": "x == 1 or y == 2", "attributes": ["x", "y"], "alternatives": 2}


@pytest.mark.parametrize(
    ("attributes", "answer"),
    [
        ('{"price": 99.5}', "true"),
        ('{"price": 120}', "false"),
        ('{"other": 1}', "unknown"),
        ('{"price": "x"}', "unknown"),
    ],
)
def test_match_prints_true_false_or_unknown(attributes: str, answer: str) -> None:
    ran = run("match", "price < 100", attributes)
    assert (ran.exit_code, ran.stdout) == (0, f"{answer}\n")
    assert json.loads(run("match", "price < 100", attributes, "--json").stdout) == {"result": answer}


@pytest.mark.parametrize(
    ("relation", "a", "b", "answer"),
    [
        ("covers", "price < 100", "price < 50", "true"),
        ("covers", "price < 50", "price < 100", "false"),
        ("intersects", "price < 100", "price > 50", "true"),
        ("intersects", "price < 50", "price > 100", "false"),
    ],
)
def test_relations_print_true_or_false(relation: str, a: str, b: str, answer: str) -> None:
    ran = run(relation, a, b)
    assert (ran.exit_code, ran.stdout) == (0, f"{answer}\n")
    assert json.loads(run(relation, a, b, "--json").stdout) == {relation: answer == "true"}


def test_explain_prints_the_deciding_atoms() -> None:
    ran = run("explain", "symbol == 'IBM' and price < 100", '{"symbol": "IBM", "price": 121}')
    assert (ran.exit_code, ran.stdout) == (0, "false\n  price < 100 is false: price is 121\n")
    in_json = run("explain", "symbol == 'IBM' and price < 100", '{"symbol": "IBM"}', "--json")
    assert json.loads(in_json.stdout) == {
        "result": "unknown",
        "reasons": [
            {"atom": "price < 100", "result": "unknown", "attribute": "price", "present": False, "value": None}
        ],
    }


@pytest.mark.parametrize("command", [["check"], ["match", "{}"], ["explain", "{}"], ["covers", "x == 1"]])
def test_a_wrong_filter_is_shown_with_a_caret_and_ends_with_2(command: list[str]) -> None:
    ran = run(command[0], "price <", *command[1:])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[0].startswith("Error: filter: ")
    assert ran.stderr.splitlines()[1:3] == ["  price <", "         ^"]


def test_a_filter_with_too_many_alternatives_is_named() -> None:
    ran = run("check", " and ".join(f"(a{i} == 1 or b{i} == 2)" for i in range(9)))
    assert ran.exit_code == 2
    assert "alternatives" in ran.stderr


@pytest.mark.parametrize(
    "attributes", ["", "x", "[1]", "1", '{"x": NaN}', '{"x": 1, "x": 2}', '{"x": {}}', '{"1x": 1}', "[" * 100_000]
)
def test_wrong_attributes_end_with_2(attributes: str) -> None:
    ran = run("match", "x == 1", attributes)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "Error: " in ran.stderr
    assert "Traceback" not in ran.stderr
