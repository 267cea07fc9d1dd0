"""The growth of a broker's costs: measured at small sizes, printed, written, drawn again, and refused when wrong."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from plait_lab import wide
from plait_lab.benchmarks.wide import root_memory
from plait_lab.benchmarks.wide.growth import PLOTS, Growth
from plait_lab.experiments.peers.drawing import read_lines


def test_small_overlays_are_measured_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert wide.main(["--quick", "--json", "--seed", "3", "--into", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    head, *lines = [json.loads(line) for line in printed.out.splitlines()]
    assert (head["seed"], head["quick"]) == (3, True)
    rows = [Growth(**line) for line in lines]
    assert [row.brokers for row in rows] == list(wide.QUICK)
    assert all(value > 0 for row in rows for value in asdict(row).values())
    assert rows[0].single_bytes < rows[1].single_bytes
    assert all(row.group_bytes < row.single_bytes for row in rows)
    assert "20 brokers: memory" in printed.err
    table = read_lines(tmp_path / wide.TABLE)
    assert [set(row) for row in table] == [set(line) for line in lines]
    assert wide.main(["--draw", "--into", str(tmp_path)]) == 0


def test_each_measure_has_a_line_in_a_plot() -> None:
    drawn = [column for plot in PLOTS.values() for panel in plot.panels for column in panel.columns.values()]
    assert sorted([*drawn, "brokers", "links"]) == sorted(Growth.__slots__)


def test_a_quick_run_prints_a_table_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(wide, "RESULTS", tmp_path)
    assert wide.main(["--quick", "--brokers", "10"]) == 0
    printed = capsys.readouterr().out
    assert "the figures mean nothing" in printed
    assert "memory of the overlay, with a stream group: MB" in printed
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments", [["--brokers", "9"], ["--brokers", "30,2000"], ["--into", "/no/such"], ["--draw", "--quick"]]
)
def test_wrong_use_has_an_exit_code(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        wide.main(arguments)
    assert exited.value.code == 2


def test_a_failure_and_an_interruption_have_exit_codes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert wide.main(["--draw", "--into", str(tmp_path)]) == 1, "there is no table"
    for error, code in ((KeyboardInterrupt(), 130), (subprocess.CalledProcessError(1, "root_memory"), 1)):

        def fail(*arguments: object, error: BaseException = error) -> Growth:
            raise error

        monkeypatch.setattr(wide, "measure_growth", fail)
        assert wide.main(["--quick"]) == code


def test_the_memory_of_a_small_overlay_is_measured_in_its_own_process() -> None:
    found = {kind: root_memory.measure_root(kind, 10, 3) for kind in root_memory.KINDS}
    assert all(0.01 < mb < 10 for mb in found.values())
