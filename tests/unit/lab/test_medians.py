"""The record of medians: made from what the benchmarks print, a group at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plait_lab import bench, medians
from plait_lab.benchmarks.groups import Group, Session
from plait_lab.benchmarks.reports import Figure

FIGURES = [
    Figure("1->1: delivered", 337_987.1678, "/s", None, {"another": 400_000.0, "a third": None}),
    Figure("lost", 0, "events"),
    Figure("taken part: Plait", 16, "trials"),
]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what the benchmarks print for these figures."""

    def run(name: str, figures: list[Figure], *options: str) -> str:
        def group(session: Session) -> Iterator[Figure]:
            yield from figures

        monkeypatch.setattr(bench, "find_groups", lambda progress: [Group(name, "", group)])
        bench.main(["--seed", "5", "--json", *options])
        return capsys.readouterr().out

    return run


def recorded(tmp_path: Path, text: str) -> int:
    (tmp_path / "printed").write_text(text)
    return medians.main([str(tmp_path / "printed"), "--out", str(tmp_path / "out.json")])


def test_a_group_is_recorded_with_its_run_and_replaced_alone(tmp_path: Path, printed: Callable[..., str]) -> None:
    assert recorded(tmp_path, printed("brokers", FIGURES) + printed("peers", FIGURES[1:])) == 0
    first = json.loads((tmp_path / "out.json").read_text())
    assert list(first) == ["brokers", "peers"]
    assert first["brokers"].keys() == {"machine", "date", "commit", "seed", "figures"}
    assert first["brokers"]["seed"] == 5
    assert "commit" not in first["brokers"]["machine"]
    assert first["brokers"]["figures"] == {
        "1->1: delivered": {"value": 337_987, "unit": "/s", "beside": {"another": 400_000, "a third": None}},
        "lost": {"value": 0, "unit": "events"},
    }
    assert recorded(tmp_path, printed("peers", FIGURES[:1])) == 0
    second = json.loads((tmp_path / "out.json").read_text())
    assert second["brokers"] == first["brokers"]
    assert list(second["peers"]["figures"]) == ["1->1: delivered"]


def test_meaningless_figures_are_not_recorded(
    tmp_path: Path, printed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    for text, reason in (
        (printed("brokers", FIGURES, "--quick"), "--quick figures mean nothing"),
        (printed("brokers", [Figure("1->1: delivered", None, "/s")]), "brokers: 1->1: delivered failed"),
        (printed("brokers", FIGURES).partition("\n")[2], "does not begin with the line that names the machine"),
        (printed("brokers", []), "the input has no figures"),
        ("a table\n", "Expecting value"),
    ):
        assert recorded(tmp_path, text) == 1
        assert reason in capsys.readouterr().err
    assert medians.main([str(tmp_path / "nothing"), "--out", str(tmp_path / "out.json")]) == 1
    assert not (tmp_path / "out.json").exists()


def test_the_record_of_the_repository_has_the_figures_that_are_kept() -> None:
    record = json.loads(medians.RECORD.read_text(encoding="utf-8"))
    for group, measure, unit in (
        ("brokers", "1->1: delivered", "/s"),
        ("brokers", "delay at 1,000/s: p50", "us"),
        ("overlay", "chain of 3: delivered", "/s"),
        ("peers", "two peers, events of 128 bytes, the best of three", "/s"),
        ("peers", "two peers at 1,000/s, delay p50", "us"),
    ):
        figure = record[group]["figures"][measure]
        assert figure["unit"] == unit
        assert figure["value"] > 0
