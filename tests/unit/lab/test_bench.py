"""The benchmark driver: tables, the document's sections, the command, and a quick run of the core group."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait_lab import bench
from plait_lab.benchmarks import core_bench
from plait_lab.benchmarks.groups import Group, Session, find_groups
from plait_lab.benchmarks.measurement.baselines import WrongAnswer
from plait_lab.benchmarks.measurement.cpu_time import spent_s
from plait_lab.benchmarks.measures import Stopwatch, microseconds, quartiles, resident_mb, time_in_turn
from plait_lab.benchmarks.reports import Figure, Target, figure_table, machine, number_text, replace_section, table

FIGURES = [
    Figure("match p50", 22.57, "us", Target("<=", 60), {"dense scan": 35.1, "by hand": 0.0821}),
    Figure("decode", 1_200_000.4, "/s", Target(">=", 2_000_000)),
    Figure("ids an event", 0.1, ""),
]


def one_group(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    monkeypatch.setattr(bench, "find_groups", lambda progress: [Group("toys", "Some toys", run)])  # type: ignore[arg-type]


def test_a_table_is_aligned_and_shows_the_results() -> None:
    assert figure_table(FIGURES).splitlines() == [
        "| measure      | reached      | target          | met | beside it                       |",
        "|--------------|--------------|-----------------|-----|---------------------------------|",
        "| match p50    | 22.6 us      | <= 60 us        | yes | dense scan 35.1; by hand 0.0821 |",
        "| decode       | 1,200,000 /s | >= 2,000,000 /s | NO  |                                 |",
        "| ids an event | 0.1          |                 |     |                                 |",
    ]


def test_a_cell_cannot_break_its_table() -> None:
    assert table(("a",), [("x | y",)]).splitlines()[2] == "| x \\| y |"


@pytest.mark.parametrize(
    ("number", "text"), [(0.0, "0"), (0.14567, "0.146"), (99.94, "99.9"), (100.4, "100"), (1234567.8, "1,234,568")]
)
def test_numbers_have_three_digits_that_matter(number: float, text: str) -> None:
    assert number_text(number) == text


def test_a_section_is_replaced_and_nothing_else() -> None:
    document = "before\n<!-- bench:a -->\nold\n<!-- /bench:a -->\nbetween\n<!-- bench:b -->\nkept\n<!-- /bench:b -->\n"
    once = replace_section(document, "a", "new\n")
    assert once == document.replace("old", "new")
    assert replace_section(once, "a", "new") == once


def test_a_new_section_goes_to_the_end() -> None:
    assert replace_section("# Title\n", "c", "x") == "# Title\n\n<!-- bench:c -->\nx\n<!-- /bench:c -->\n"


def test_a_section_that_never_closes_is_refused() -> None:
    with pytest.raises(ValueError, match="never closed"):
        replace_section("<!-- bench:a -->\nold", "a", "new")


def test_the_document_of_the_repository_has_the_section_of_every_group() -> None:
    text = bench.DOCUMENT.read_text(encoding="utf-8")
    assert "<!-- bench:core -->" in text
    assert "<!-- /bench:core -->" in text


def test_percentiles_are_times_that_were_measured() -> None:
    found = quartiles([1000 * n for n in range(1, 1001)])
    assert (found.count, found.mean, found.p50, found.p99, found.p999, found.longest) == (
        1000,
        500.5,
        501,
        991,
        1000,
        1000,
    )


def test_contenders_take_turns_and_warm_up_uncounted() -> None:
    calls: list[str] = []
    times = time_in_turn({"a": lambda n: calls.append(f"a{n}"), "b": lambda n: calls.append(f"b{n}")}, range(120), 10)
    assert {name: found.count for name, found in times.items()} == {"a": 110, "b": 110}
    assert calls[:4] == ["a0", "b0", "a1", "b1"]
    assert calls[20:22] == ["a10", "a11"]
    assert calls[70:72] == ["b10", "b11"]
    assert sorted(calls) == sorted(f"{name}{n}" for name in "ab" for n in range(120))


def test_small_things_are_measured() -> None:
    watch = Stopwatch()
    assert watch(max, 1, 2) == 2
    assert watch.spread().count == 1
    assert microseconds({"nothing": lambda: None}, 1, 3)["nothing"] >= 0
    assert resident_mb() > 1
    assert machine().cores >= 1


def test_quick_core_figures_come_with_everything_asked_for() -> None:
    steps: list[str] = []
    figures = list(core_bench.core_figures(Session(7, True, steps.append)))
    measures = " / ".join(figure.measure for figure in figures)
    for asked in ("four atoms", "parse a filter", "W1, ", "W3, ", "dense scan's", "amortised", "growth over", "p99.9"):
        assert asked in measures
    assert all(figure.reached == figure.reached for figure in figures)
    assert steps


def test_every_group_is_found() -> None:
    assert "core" in [group.name for group in find_groups(lambda step: None)]


def test_the_command_writes_its_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one_group(monkeypatch, lambda session: FIGURES)
    document = tmp_path / "BENCHMARKS.md"
    assert bench.main(["--seed", "5", "--write", str(document)]) == 0
    text = document.read_text(encoding="utf-8")
    assert "## Some toys" in text
    assert "--only toys --seed 5 --write" in text
    assert figure_table(FIGURES) in text
    assert figure_table(FIGURES) in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["BENCHMARKS.md"]


def test_json_is_one_object_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one_group(monkeypatch, lambda session: FIGURES)
    assert bench.main(["--seed", "5", "--json"]) == 0
    head, *records = map(json.loads, capsys.readouterr().out.splitlines())
    assert head["seed"] == 5
    assert [record["met"] for record in records] == [True, False, None]
    assert records[0]["target"] == {"sense": "<=", "value": 60}
    assert records[0]["group"] == "toys"


def test_a_failed_figure_makes_the_exit_code_1_after_all_groups(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = Group("first", "", lambda session: [Figure("delivered", None, "/s", Target(">=", 1))])
    monkeypatch.setattr(bench, "find_groups", lambda progress: [failed, Group("second", "", lambda session: FIGURES)])
    assert bench.main(["--json"]) == 1
    _, first, *others = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["reached"], first["met"]) == (None, False)
    assert [record["group"] for record in others] == ["second"] * 3


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (WrongAnswer("3 for 4"), 1), (ZeroDivisionError("a rate"), 1)]
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_group_that_dies_loses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    as_json: bool,
) -> None:
    document = tmp_path / "BENCHMARKS.md"
    seen: list[str] = []

    def run(session: Session) -> Iterator[Figure]:
        yield FIGURES[0]
        seen.append(document.read_text(encoding="utf-8"))
        seen.append(capsys.readouterr().out)
        raise error

    one_group(monkeypatch, run)
    assert bench.main(["--write", str(document), *["--json"] * as_json]) == code
    for text in (seen[0], document.read_text(encoding="utf-8")):
        assert "| match p50 | 22.6 us" in text
        assert "Incomplete" in text
    out = seen[1] + capsys.readouterr().out
    assert out.count("match p50") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["BENCHMARKS.md"]


def test_the_groups_after_one_that_dies_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(session: Session) -> Iterator[Figure]:
        yield FIGURES[0]
        raise OSError("no such server")

    groups = [Group("first", "", run), Group("second", "", lambda session: FIGURES)]
    monkeypatch.setattr(bench, "find_groups", lambda progress: groups)
    document = tmp_path / "BENCHMARKS.md"
    assert bench.main(["--write", str(document)]) == 1
    shown = capsys.readouterr()
    assert "no such server" in shown.err
    assert "first: ended with an error after 1 figures" in shown.err
    assert document.read_text(encoding="utf-8").count("match p50") == 2
    assert document.read_text(encoding="utf-8").count("Incomplete") == 1


def test_a_figure_is_shown_when_it_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(session: Session) -> Iterator[Figure]:
        yield FIGURES[0]
        assert "match p50: 22.6 us" in capsys.readouterr().err
        yield FIGURES[1]

    one_group(monkeypatch, run)
    assert bench.main([]) == 0


def test_a_wrong_answer_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(session: Session) -> Iterator[Figure]:
        raise WrongAnswer("3 ids for 4")
        yield

    one_group(monkeypatch, run)
    assert bench.main(["--seed", "9"]) == 1
    assert "WRONG ANSWER with seed 9: 3 ids for 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [["--only", "nothing"], ["--seed", "-1"], ["--quick", "--write"], ["--write", "/no/such/folder/x"]]
)
def test_wrong_use_is_reported(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        bench.main(wrong)
    assert stopped.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_quick_figures_are_not_judged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one_group(monkeypatch, lambda session: FIGURES)
    assert bench.main(["--quick"]) == 0
    out = capsys.readouterr().out
    assert "NO" not in out
    assert "figures mean nothing" in out


def test_processor_time_is_that_of_all_that_was_started() -> None:
    burn = "import sys, time\nwhile time.process_time() < 0.5: pass\nprint(1, flush=True); sys.stdin.read()"
    before = spent_s()
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
        running = spent_s() - before
        child.communicate()
    assert running >= 0.4
    assert spent_s() - before >= 0.4, "of those that have ended as well"
