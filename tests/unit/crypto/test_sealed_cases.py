"""Runs the cases of `tests/vectors/sealed_v2`: what opens, and what each attack is refused for, in both backends."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import pytest
import sealed_cases
from sealed_attacks.written import write

from plait_crypto.hazmat import ArkworksGroups, Scheme
from plait_crypto.hazmat.reference import ReferenceGroups

BYTES_MAX = 1_500_000
REFUSALS_MIN = 150
FEW = {
    "opens.json": ("keys: level 1", "member 0 of a batch of three"),
    "outsiders/points.json": ("CT2, times a point of order 3: pairings do not notice it",),
    "members/contents.json": ("exponents that do not come from the seed",),
    "members/signatures.json": ("errors in A_1 and A_2 that cancel out",),
    "members/mixed.json": ("S2 of another set in an own key",),
    "keys/deposits.json": (
        "keys of the event, of others, none",
        "two tokens of one row, a token and a filler of the other",
    ),
}
"""Cases that the reference runs in `make test`, by their comments. It takes a second or two for each."""


scheme = functools.cache(Scheme)
"""One scheme for each realm: the reference takes a second to prepare its tables."""


@pytest.fixture
def one_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_crypto.keyring.Scheme", scheme)


@functools.cache
def slow() -> sealed_cases.Runner:
    return sealed_cases.Runner(ReferenceGroups(), trusting=True)


def check(runner: sealed_cases.Runner, case: dict[str, Any]) -> None:
    expected = [step["expect"] for step in case["steps"]]
    assert runner.run(case) == expected, f"case {case['id']}, {case['attack']}: {case['comment']}"


@pytest.mark.parametrize("name", sealed_cases.case_files())
def test_the_fast_backend_agrees(name: str) -> None:
    runner = sealed_cases.Runner(ArkworksGroups())
    for case in sealed_cases.cases(name):
        check(runner, case)


@pytest.mark.usefixtures("one_scheme")
@pytest.mark.parametrize("name", FEW)
def test_the_reference_agrees_on_a_few(name: str) -> None:
    found = [case for case in sealed_cases.cases(name) if case["comment"] in FEW[name]]
    assert len(found) == len(FEW[name])
    for case in found:
        check(slow(), case)


@pytest.mark.nightly
@pytest.mark.usefixtures("one_scheme")
@pytest.mark.parametrize("name", sealed_cases.case_files())
def test_the_reference_agrees(name: str) -> None:
    for case in sealed_cases.cases(name):
        check(slow(), case)


@pytest.mark.nightly
def test_the_files_are_what_the_program_writes(tmp_path: Path) -> None:
    """If they differ, the format or the program has changed: write them anew only on purpose."""
    write(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    written = {str(path.relative_to(tmp_path)): hashlib.sha256(path.read_bytes()).digest() for path in files}
    kept = {name: hashlib.sha256((sealed_cases.FOLDER / name).read_bytes()).digest() for name in written}
    assert written == kept
    assert set(written) == {*sealed_cases.case_files(), sealed_cases.INPUTS}


def test_most_cases_are_refusals_and_all_reasons_occur() -> None:
    last = [case["steps"][-1]["expect"] for name in sealed_cases.case_files() for case in sealed_cases.cases(name)]
    reasons = [each["reason"] for each in last if each["result"] == "refused"]
    assert len(reasons) >= REFUSALS_MIN
    assert set(reasons) == {
        *("not_authentic", "another_realm", "stale_epoch", "missing_key", "not_covered", "replayed", "expired"),
        *("KeyInvalid", "PointInvalid", "SealInvalid"),
    }
    assert {each["result"] for each in last} == {"refused", "opens", "valid", "routed", "deposited"}


def test_cases_are_numbered_and_the_files_are_small() -> None:
    for name in sealed_cases.case_files():
        assert [case["id"] for case in sealed_cases.cases(name)] == list(range(1, len(sealed_cases.cases(name)) + 1))
    assert sum(path.stat().st_size for path in sealed_cases.FOLDER.rglob("*.json")) < BYTES_MAX
