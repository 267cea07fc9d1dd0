"""The command that runs whole overlays: prints, writes, and refuses wrong use."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait_lab import wide_overlay
from plait_lab.experiments.peers.drawing import read_lines


def test_a_small_overlay_gets_all_events_and_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["events", "--brokers", "8", "--events", "40", "--seed", "3", "--into", str(tmp_path)]
    assert wide_overlay.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "1 -> 8 brokers, 40 events, 1 of 24 links cut meanwhile: lost 0, repeated 0, out of order 0" in printed
    (row,) = read_lines(tmp_path / "wide-overlay-events.csv")
    assert (row["deliveries"], row["lost"]) == (320, 0)


def test_a_small_overlay_agrees_and_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["start", "--quick", "--brokers", "8", "--churn", "30", "--seed", "3", "--into", str(tmp_path)]
    assert wide_overlay.main(arguments) == 0
    assert "seed 3" in capsys.readouterr().out
    (row,) = read_lines(tmp_path / "wide-overlay-start.csv")
    assert (row["brokers"], row["faults"]) == (8, 3)


@pytest.mark.parametrize(
    "arguments", [["events", "--brokers", "4"], ["start", "--seed", "x"], ["start", "--into", "/nowhere/at/all"], []]
)
def test_wrong_use_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        wide_overlay.main(arguments)
    assert left.value.code == 2


def test_an_interruption_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(wide_overlay, "measure_deliveries", interrupted)
    assert wide_overlay.main(["events", "--quick"]) == 130
    assert "interrupted" in capsys.readouterr().err
