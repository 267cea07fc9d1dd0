"""Two states of the source in one run: the trials' contract, the order of turns, and the verdict."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from plait_lab import bench, compare, reference_trials
from plait_lab.benchmarks.measurement import source_state
from plait_lab.benchmarks.measurement.cpu_time import OtherLoad
from plait_lab.benchmarks.measurement.source_state import Broken, State
from plait_lab.compare import Comparison
from plait_lab.failures import NothingMeasured
from plait_lab.reference_trials import CPU, DELIVERED, MEASURES, P50, PAIRING, SCRIPTS, Measure

ROOT = Path(__file__).parents[3]


# --- the contract -----------------------------------------------------------------------------------------------------


def printed_trial(capsys: pytest.CaptureFixture[str], trial: str, status: int = 0) -> list[dict[str, Any]]:
    assert bench.main(["--trial", trial, "--seed", "3", "--quick", "--json"]) == status
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("trial", [trial for trial in MEASURES if trial not in SCRIPTS])
def test_a_trial_prints_where_it_comes_from_and_its_measures(trial: str, capsys: pytest.CaptureFixture[str]) -> None:
    head, *lines = printed_trial(capsys, trial)
    assert head["sources"].keys() == {"plait", "plait_broker", "plait_core", "plait_crypto", "plait_lab", "plait_peer"}
    assert all(Path(folder).is_relative_to(ROOT) for folder in head["sources"].values())
    assert all(line["reached"] > 0 for line in lines)
    assert [(line["measure"], line["unit"]) for line in lines] == names_and_units(trial)


def names_and_units(trial: str) -> list[tuple[str, str]]:
    return [(measure.name, measure.unit) for measure in MEASURES[trial]]


@pytest.mark.parametrize("trial", SCRIPTS)
def test_a_program_of_this_state_measures_in_another_checkout(
    trial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program imports the packages of that checkout alone, and needs no native kernel."""
    monkeypatch.setattr(source_state, "kernel_of", None)
    checkout = tmp_path / "checkout"
    for member in ("core", "crypto"):
        shutil.copytree(ROOT / member, checkout / member, ignore=shutil.ignore_patterns("kernel", "__pycache__"))
    found = State("base", checkout, tmp_path, print, kernel=False).measure(trial, 3, quick=True)
    assert list(found) == [name for name, _ in names_and_units(trial)]
    assert all(value is not None and value > 0 for value in found.values())


def test_the_names_of_trials_and_measures_stay() -> None:
    expected = {"one-to-one": {"delivered", "cpu", "p50"}, "chain": {"delivered", "cpu"}}
    expected["two-peers"] = expected["one-to-one"]
    found = {trial: {measure.name for measure in measures} for trial, measures in MEASURES.items()}
    assert {trial: names for trial, names in found.items() if trial not in SCRIPTS} == expected
    assert {name.partition(",")[0] for name in found["sealed"]} == {
        *("pairing", "seal", "sign", "open", "verify", "size", "issue a credential"),
    }


def test_a_trial_that_measures_nothing_is_repeated_and_then_null(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def nothing(*arguments: object) -> None:
        calls.append(arguments)
        raise NothingMeasured("0 of 9 events arrived")

    monkeypatch.setattr(reference_trials, "running_chain", nothing)
    lines = printed_trial(capsys, "chain", status=1)[1:]
    assert [line["reached"] for line in lines] == [None, None]
    assert len(calls) == 2


def test_a_trial_has_no_section(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--trial", "chain", "--write"], ["--trial", "chain", "--only", "core"], ["--trial", "none"]):
        with pytest.raises(SystemExit) as stopped:
            bench.main(wrong)
        assert stopped.value.code == 2


# --- the verdict ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measure", "here", "holds"),
    [
        (DELIVERED, [97.0, 1.0, 200.0], True),
        (DELIVERED, [96.9, 1.0, 200.0], False),
        (P50, [103.0, 1.0, 200.0], True),
        (P50, [103.1, 1.0, 200.0], False),
        (CPU, [150.0, 150.0, 150.0], None),
        (DELIVERED, [120.0, 120.0, None], False),
        (DELIVERED, [None, None, None], False),
    ],
)
def test_the_ratio_of_medians_is_judged(measure: Measure, here: list[float | None], holds: bool | None) -> None:
    one = Comparison("chain", measure, [100.0, 50.0, 150.0], here)
    assert one.holds is holds
    assert json.loads(json.dumps(one.record()))["base"] == 100


def test_a_machine_that_slows_down_is_not_taken_for_slower_code() -> None:
    """Each value is judged as a multiple of its yardstick, which was measured in the same trial."""
    seal = next(measure for measure in MEASURES["sealed"] if measure.yardstick)
    pairing = Comparison("sealed", PAIRING, [1.0, 2.0, 1.0], [2.0, 2.0, 4.0])
    equal = Comparison("sealed", seal, [10.0, 20.0, 10.0], [20.0, 20.0, 40.0], pairing)
    assert (equal.ratio, equal.at_equal_speed, equal.holds) == (2.0, 1.0, True)
    slower = Comparison("sealed", seal, [10.0, 20.0, 10.0], [21.2, 21.2, 42.4], pairing)
    assert slower.at_equal_speed == pytest.approx(1.06)
    assert slower.holds is False
    assert json.loads(json.dumps(slower.record()))["at_equal_speed"] == slower.at_equal_speed
    lost = Comparison("sealed", seal, [10.0, None, 10.0], [20.0, 20.0, 40.0], pairing)
    assert (lost.at_equal_speed, lost.holds) == (1.0, False)


class Fake:
    """Source states whose trials all give the same figures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **here: float | None) -> None:
        self.turns: list[str] = []
        self.seeds: set[int] = set()
        self._here = here
        monkeypatch.setattr(source_state, "installed", lambda: None)
        monkeypatch.setattr(State, "measure", lambda state, trial, seed, quick: self.measure(state, trial, seed))

    def measure(self, state: State, trial: str, seed: int) -> dict[str, float | None]:
        self.turns.append(f"{trial} {state.name}")
        self.seeds.add(seed)
        factors = self._here if state.name == "here" else {}
        return {measure.name: factors.get(measure.name, 100.0) for measure in MEASURES[trial]}


def test_states_take_turns_and_each_round_swaps_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake(monkeypatch)
    assert compare.main([str(ROOT), "--only", "chain,two-peers", "--repeats", "2"]) == 0
    pairs = [("chain", "base"), ("chain", "here"), ("two-peers", "base"), ("two-peers", "here")]
    pairs += [("chain", "here"), ("chain", "base"), ("two-peers", "here"), ("two-peers", "base")]
    assert fake.turns == [" ".join(pair) for pair in pairs]
    assert len(fake.seeds) == 1
    output = capsys.readouterr()
    assert "| chain: delivered, /s     | 100  | 100  | 1.000     |                | >= 0.97 | yes   |" in output.out
    assert "| chain: cpu, us           | 100  | 100  | 1.000     |                |         |       |" in output.out
    assert "of the processors' time" in output.out
    assert output.err.count("round 2 of 2, base, chain: delivered 100, cpu 100") == 1


@pytest.mark.parametrize(
    "here", [{"delivered": 96.0}, {"p50": 104.0}, {"p50": None}, {"sign, 1 attribute of 16 values": 106.0}]
)
def test_a_measure_below_its_bar_gives_exit_code_1(
    here: dict[str, float | None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Fake(monkeypatch, **here)
    assert compare.main([str(ROOT), "--json", "--repeats", "1"]) == 1
    head, *records = map(json.loads, capsys.readouterr().out.splitlines())
    assert head["repeats"] == 1
    assert {record["measure"] for record in records if record["holds"] is False} == here.keys()


def test_wrong_use_and_interruption_have_their_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in ([], [str(tmp_path)], [str(ROOT), "--only", "chain,none"], [str(ROOT), "--repeats", "0"]):
        with pytest.raises(SystemExit) as stopped:
            compare.main(wrong)
        assert stopped.value.code == 2

    Fake(monkeypatch)
    for error, status, text in (
        (KeyboardInterrupt(), 130, "interrupted"),
        (Broken("base: too old"), 1, "base: too old"),
    ):

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(State, "measure", fail)
        assert compare.main([str(ROOT)]) == status
        assert text in capsys.readouterr().err


@pytest.mark.parametrize(("minutes", "turns"), [("1", 3), ("0", 2)], ids=["patient", "at once"])
def test_a_trial_that_others_disturb_is_repeated_while_patience_lasts(
    minutes: str, turns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake(monkeypatch)
    # before the trial twice; during it; before its repetition; during it; before and during the last
    shares = iter([0.9, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0] if minutes == "1" else [0.5, 0.0])
    monkeypatch.setattr(compare, "LOOK_S", 0.0)
    monkeypatch.setattr(OtherLoad, "share", lambda self: next(shares))
    options = ["--only", "chain", "--repeats", "1", *(["--wait", minutes] if minutes != "0" else [])]
    assert compare.main([str(ROOT), *options]) == 0
    assert len(fake.turns) == turns
    output = capsys.readouterr()
    assert ("chain, base: other processes used 50% of the processors' time; repeated" in output.err) == (turns == 3)
    assert ("so the ratios are uncertain" in output.out) == (turns == 2)
    assert not list(shares)


@pytest.mark.skipif(sys.platform != "linux", reason="the time of all processors is read from /proc")
def test_the_load_of_other_processes_is_a_share() -> None:
    assert 0 <= OtherLoad().share() <= 1.1
