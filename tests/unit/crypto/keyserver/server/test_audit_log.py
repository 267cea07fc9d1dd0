"""The audit log: changed, removed and cut lines are found, also across files and after a crash."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from plait_keyserver.server.audit_log import AUDIT, HEAD, NOTHING, AuditBroken, AuditLog


def written(path: Path, lines: int = 9, file_bytes_max: int = 10**6) -> AuditLog:
    log = AuditLog(path, file_bytes_max)
    for number in range(lines):
        log.append([{"number": number, "outcome": "granted"}])
    return log


def change(path: Path, how: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(how(path.read_bytes().splitlines(keepends=True))))


def test_a_log_is_whole_and_private(tmp_path: Path) -> None:
    log = written(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / AUDIT).read_text().splitlines()]
    assert [line["number"] for line in lines] == list(range(9))
    assert lines[0]["prev"] == NOTHING
    found = log.verify()
    assert (found.lines, found.files, found.archived) == (9, 1, 0)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_several_lines_at_once_are_a_chain(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    assert log.verify().lines == 0
    log.append([])
    log.append([{"number": 1}, {"number": 2}])
    assert log.verify().lines == 2


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda lines: [*lines[:3], lines[3].replace(b"granted", b"denied"), *lines[4:]], "line 5 does not continue"),
        (lambda lines: [*lines[:3], *lines[4:]], "line 4 does not continue line 3"),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "line 4 does not continue line 3"),
        (lambda lines: [*lines[:3], b"nonsense\n", *lines[4:]], "line 4 cannot be read"),
        (lambda lines: lines[:-1], "its last line is not the one that was written last, line 9"),
        (lambda lines: [*lines[:-1], lines[-1].replace(b"granted", b"denied!")], "its last line is not the one"),
        (lambda lines: lines[:-3], "its last line is not the one that was written last, line 9"),
        (lambda lines: [], "its last line is not the one that was written last, line 9"),
    ],
)
def test_the_first_broken_line_is_named(
    tmp_path: Path, how: Callable[[list[bytes]], list[bytes]], message: str
) -> None:
    log = written(tmp_path)
    change(tmp_path / AUDIT, how)
    with pytest.raises(AuditBroken, match=message) as broken:
        log.verify()
    assert broken.value.hint


def test_a_cut_is_still_seen_when_the_log_goes_on(tmp_path: Path) -> None:
    log = written(tmp_path)
    change(tmp_path / AUDIT, lambda lines: lines[:-2])
    log.append([{"number": 9}])
    with pytest.raises(AuditBroken, match="line 8 does not continue line 7"):
        log.verify()


def test_files_are_bounded_and_the_chain_goes_on(tmp_path: Path) -> None:
    log = written(tmp_path, 40, file_bytes_max=1000)
    files = sorted(path.name for path in tmp_path.glob("audit-*.jsonl"))
    assert files[:2] == ["audit-000001.jsonl", "audit-000002.jsonl"]
    assert all(path.stat().st_size < 1200 for path in tmp_path.glob("*.jsonl"))
    found = log.verify()
    assert (found.lines, found.files) == (40, len(files) + 1)
    (tmp_path / files[0]).unlink()
    archived = log.verify()
    assert archived.lines + archived.archived == 40, "earlier files may be archived elsewhere"
    (tmp_path / files[1]).rename(tmp_path / "elsewhere")
    (tmp_path / files[2]).write_bytes((tmp_path / "elsewhere").read_bytes())
    with pytest.raises(AuditBroken, match="line 1 does not continue the end of the file before"):
        log.verify()


def test_a_head_that_was_noted_shows_a_log_that_was_written_anew(tmp_path: Path) -> None:
    noted = written(tmp_path).verify().head
    AuditLog(tmp_path).append([{"number": 9}])
    assert AuditLog(tmp_path).verify(noted).lines == 10
    for path in list(tmp_path.iterdir()):
        path.unlink()
    AuditLog(tmp_path).append([{"number": "another"}])
    anew = written(tmp_path)
    assert anew.verify().lines == 10
    with pytest.raises(AuditBroken, match=f"no line has the digest {noted}"):
        anew.verify(noted)


def test_a_crash_between_a_line_and_its_head_is_no_break(tmp_path: Path) -> None:
    log = written(tmp_path)
    before = (tmp_path / HEAD).read_bytes()
    log.append([{"number": 9}])
    (tmp_path / HEAD).write_bytes(before)
    assert log.verify().lines == 10
    with open(tmp_path / AUDIT, "ab") as file:
        file.write(b'{"prev": "half a li')
    log.append([{"number": 10}])
    assert log.verify().lines == 11


def test_a_crash_between_two_files_is_no_break(tmp_path: Path) -> None:
    log = written(tmp_path, 9, file_bytes_max=1000)
    (tmp_path / AUDIT).rename(tmp_path / "audit-000099.jsonl")
    log.append([{"number": 9}])
    assert log.verify().lines == 10


def test_a_missing_head_is_named(tmp_path: Path) -> None:
    log = written(tmp_path)
    (tmp_path / HEAD).unlink()
    with pytest.raises(AuditBroken, match=r"audit\.head is missing"):
        log.verify()
    (tmp_path / HEAD).write_text("nonsense")
    with pytest.raises(AuditBroken, match=r"audit\.head cannot be read"):
        log.append([{"number": 9}])
