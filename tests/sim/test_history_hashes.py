"""Recorded hashes of histories: a commit that only renames or moves code leaves all of them as they are.

`make test` plays a sample, `make nightly` the rest. `python -m plait_lab.simulation --check-hashes` plays all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait_broker.overlay.transport.control_unicast import ControlUnicast
from plait_core.wire.frame_types import frame_schema
from plait_lab.simulation import history_hashes
from plait_lab.simulation.__main__ import main
from plait_lab.simulation.history import CONTROL_BYTES, NOISE, History, Kind, frames_in, type_number
from plait_lab.simulation.history_hashes import GROUPS, HistoryGroup, hash_of, read
from plait_lab.simulation.one_broker.planted_bugs import PLANTED
from plait_lab.simulation.overlay.overlay_planted import PLANTED as OVERLAY_PLANTED
from plait_lab.simulation.overlay.random_histories import is_narrow
from plait_peer import Peer

SAMPLE = {"one-broker": range(10), "overlay": range(10), "peers": range(3), "hostile": (0, 8, 9)}
"""A few histories of each kind of world."""

SHARE = 10
REST = [(group, first) for group, terms in GROUPS.items() for first in range(0, terms.count, SHARE)]

EXPLAINED = "a commit that changes behaviour says which hashes change: python -m plait_lab.simulation --record-hashes"


@pytest.mark.parametrize("group", GROUPS)
def test_a_sample_of_histories_is_as_recorded(group: str) -> None:
    recorded = read()[group]
    assert {number: hash_of(group, number) for number in SAMPLE[group]} == {
        number: recorded[number] for number in SAMPLE[group]
    }, EXPLAINED


@pytest.mark.nightly
@pytest.mark.parametrize(("group", "first"), REST)
def test_all_histories_are_as_recorded(group: str, first: int) -> None:
    recorded = read()[group]
    numbers = range(first, min(first + SHARE, GROUPS[group].count))
    assert [hash_of(group, number) for number in numbers] == [recorded[number] for number in numbers], EXPLAINED


def test_every_history_has_a_recorded_hash_of_its_own() -> None:
    recorded = read()
    assert {group: list(hashes) for group, hashes in recorded.items()} == {
        group: list(range(terms.count)) for group, terms in GROUPS.items()
    }
    hashes = [hash for group in recorded.values() for hash in group.values()]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(("group", "number"), [(group, number) for group in GROUPS for number in SAMPLE[group][-3:]])
def test_the_same_history_has_the_same_hash_twice(group: str, number: int) -> None:
    assert hash_of(group, number) == hash_of(group, number)


@pytest.mark.parametrize(
    ("group", "number", "plant"),
    [
        ("one-broker", 0, lambda patch: PLANTED["swap_deliveries"].plant()),
        ("overlay", 2, lambda patch: OVERLAY_PLANTED["never_send_again"].plant()),
        ("peers", 1, lambda patch: patch.setattr(Peer, "_react", lambda self, now: None)),
        ("hostile", 0, lambda patch: patch.setattr(ControlUnicast, "send_along", lambda *_, **named: False)),
    ],
)
def test_another_behaviour_has_another_hash(
    group: str, number: int, plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = plant(monkeypatch)
    if planted is None:
        assert hash_of(group, number) != read()[group][number]
        return
    with planted:
        assert hash_of(group, number) != read()[group][number]


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rename every class and field of frames, and lengthen every hint. A listed frame has no names."""
    pack, unpack = frame_schema.pack, frame_schema.unpack_fields

    def pack_renamed(fields: dict[str, Any] | list[Any]) -> bytes:
        if isinstance(fields, list):
            return bytes(pack(fields))
        if fields.get("hint"):
            fields = fields | {"hint": fields["hint"] + ", in other words"}
        return bytes(pack({f"other_name_of_{name}": value for name, value in fields.items()}))

    def unpack_renamed(*arguments: Any) -> dict[str, Any]:
        return {name.removeprefix("other_name_of_"): value for name, value in unpack(*arguments).items()}

    monkeypatch.setattr(frame_schema, "pack", pack_renamed)
    monkeypatch.setattr(frame_schema, "unpack_fields", unpack_renamed)
    names = {one.frame: one.frame.__name__ for one in frame_schema.FRAME_SCHEMAS.values()}
    for frame, name in names.items():
        frame.__name__ = f"OtherNameOf{name}"
    yield
    for frame, name in names.items():
        frame.__name__ = name


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize("group", GROUPS)
def test_names_and_texts_are_no_part_of_a_history(group: str) -> None:
    """Where links have bandwidths, longer names take longer."""
    recorded = read()[group]
    for number in SAMPLE[group]:
        if group == "overlay" and is_narrow(number):
            continue
        assert hash_of(group, number) == recorded[number]


@pytest.mark.parametrize("history", ["one-broker/9", "overlay/9", "peers/1", "hostile/0"])
def test_a_hash_depends_neither_on_the_process_nor_on_the_native_kernel(history: str) -> None:
    group, number = history.split("/")
    line = [sys.executable, "-m", "plait_lab.simulation", "--history", history]
    for salt, native in (("1", "on"), ("2", "off")):
        changed = os.environ | {"PYTHONHASHSEED": salt, "PLAIT_NATIVE": native}
        printed = subprocess.run(line, env=changed, capture_output=True, text=True, check=True).stdout
        assert printed.splitlines()[-1] == f"hash {read()[group][int(number)]}"


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few histories, played in this process."""
    monkeypatch.setattr(history_hashes, "GROUPS", {name: HistoryGroup(2, group.play) for name, group in GROUPS.items()})
    monkeypatch.setattr(history_hashes.os, "cpu_count", lambda: 1)


@pytest.mark.usefixtures("few")
def test_the_command_names_the_histories_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hashes.json"
    assert main(["--record-hashes", str(file)]) == 0
    assert main(["--check-hashes", str(file)]) == 0
    capsys.readouterr()
    file.write_text(file.read_text().replace(hash_of("peers", 1), "0123456789abcdef"))
    assert main(["--check-hashes", str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "one-broker     2 of   2 unchanged",
        "overlay        2 of   2 unchanged",
        "peers          1 of   2 unchanged; the others: 1",
        "hostile        2 of   2 unchanged",
    ]


@pytest.mark.usefixtures("few")
def test_a_hash_that_was_never_recorded_differs(tmp_path: Path) -> None:
    file = tmp_path / "hashes.json"
    file.write_text("{}")
    assert main(["--check-hashes", str(file)]) == 1


@pytest.mark.usefixtures("few")
def test_a_history_that_breaks_differs_and_is_not_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hashes.json"
    main(["--record-hashes", str(file)])
    before = file.read_text()
    monkeypatch.setattr(Peer, "receive", lambda *_: 1 / 0)
    assert main(["--check-hashes", str(file)]) == 1
    assert main(["--record-hashes", str(file)]) == 1
    printed = capsys.readouterr()
    assert "peers          0 of   2 unchanged; the others: 0, 1" in printed.out
    assert "peers/1: ZeroDivisionError" in printed.err
    assert file.read_text() == before


@pytest.mark.parametrize("arguments", [["--history", "peers/50"], ["--history", "ships/1"], ["--check-hashes", "none"]])
def test_what_there_is_not_cannot_be_played(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


# --- a history --------------------------------------------------------------------------------------------------------


def test_a_history_is_hashed_alike_whenever_its_lines_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def history() -> str:
        found = History()
        for number in range(100):
            found.add(Kind.FRAME, number / 10, number, 2**64 - 1)
        return found.hash()

    at_the_end = history()
    monkeypatch.setattr(History, "held_max", 16)
    assert history() == at_the_end


def test_lines_are_not_mistaken_for_each_other() -> None:
    one, other = History(), History()
    one.add(Kind.FRAME, 1.0, 1, 2)
    other.add(Kind.FRAME, 1.0, 1)
    other.add(Kind.FRAME, 1.0, 2)
    assert one.hash() != other.hash()
    assert list(one.lines()) == ["    1.000000 frame      1 2"]


def test_frames_are_weighed_by_what_events_they_carry_alone() -> None:
    from plait_core import Event
    from plait_core.wire import Ping, encode_frame, encode_publish

    ping, event = encode_frame(Ping(1)), encode_publish(Event({"x": 1}, b"payload", 1, 1))
    assert list(frames_in(ping + event + b"noise")) == [
        (0x13, len(ping), CONTROL_BYTES),
        (0x01, len(event), len(event)),
        (NOISE, 5, 5),
    ]
    assert type_number(Ping(1)) == type_number(ping) == 0x13
    assert type_number(event) == 0x01
