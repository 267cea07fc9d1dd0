"""A checkout whose own benchmarks are run: its packages, its kernel, its entry points, and what can go wrong."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

import pytest

from plait_lab.benchmarks.measurement import kernel_builds, source_state
from plait_lab.benchmarks.measurement.kernel_builds import NoKernel, kernel_of
from plait_lab.benchmarks.measurement.source_state import Broken, State

PROJECT = """
[project]
name = "plait-lab"
version = "7.0"
[project.entry-points."plait.tests"]
peer = "plait_lab.somewhere:peer"
"""

MEASURED = """
import importlib.metadata, json, os, pathlib, sys
assert sys.argv[1:] == ["--trial", "chain", "--seed", "3", "--json"], sys.argv
print(json.dumps({"sources": {"plait_lab": str(pathlib.Path(__file__).parents[1])}}))
(peer,) = importlib.metadata.entry_points(group="plait.tests", name="peer")
print(json.dumps({"measure": peer.value, "reached": 1.0}))
print(json.dumps({"measure": "delivered", "reached": 7.0 if os.environ["PLAIT_NATIVE"] == "off" else 8.0}))
"""


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine without the native kernel."""
    monkeypatch.setattr(source_state, "installed", lambda: None)


def state(place: Path, program: str, told: list[str]) -> State:
    """A checkout whose benchmarks are this program."""
    package = place / "checkout" / "lab" / "plait_lab"
    package.mkdir(parents=True)
    (package.parent / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").touch()
    (package / "bench.py").write_text(program)
    return State("base", place / "checkout", place / "metadata", told.append)


# --- a state ----------------------------------------------------------------------------------------------------------


def test_a_state_is_measured_by_its_own_benchmarks(tmp_path: Path, told: list[str], plain: None) -> None:
    assert state(tmp_path, MEASURED, told).measure("chain", 3, quick=False) == {"delivered": 7, "cpu": None}
    (found,) = importlib.metadata.distributions(path=[str(tmp_path / "metadata" / "base")])
    assert (found.name, found.version) == ("plait-lab", "7.0")
    assert [point.value for point in found.entry_points] == ["plait_lab.somewhere:peer"]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit('unrecognized arguments')", "cannot run the trial chain: unrecognized arguments"),
        ('print(\'{"sources": {"plait": "/elsewhere"}}\')', "plait was imported from /elsewhere, not from"),
    ],
    ids=["too old", "another source"],
)
def test_a_state_that_cannot_be_measured_ends_the_run(
    tmp_path: Path, told: list[str], plain: None, program: str, reason: str
) -> None:
    with pytest.raises(Broken, match=reason):
        state(tmp_path, program, told).measure("chain", 3, quick=False)


def test_a_trial_that_fails_is_reported_with_its_reason(tmp_path: Path, told: list[str], plain: None) -> None:
    program = "import sys; print('{\"sources\": {}}'); sys.exit('Plait, chain: 0 of 9 events arrived; failed')"
    assert state(tmp_path, program, told).measure("chain", 3, quick=False) == {"delivered": None, "cpu": None}
    assert told == ["base, chain: Plait, chain: 0 of 9 events arrived; failed"]


def test_a_trial_that_does_not_end_has_failed(
    tmp_path: Path, told: list[str], plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_state, "LONGEST_S", 0.2)
    found = state(tmp_path, "import time; time.sleep(60)", told).measure("chain", 3, quick=False)
    assert found == {"delivered": None, "cpu": None}


# --- its kernel -------------------------------------------------------------------------------------------------------


class Cargo:
    """A substitute for cargo that counts builds and makes libraries."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.builds = 0
        self.status = 0
        self.checkout = place / "checkout"
        monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        monkeypatch.setattr(kernel_builds.subprocess, "run", self.run)
        for name in ("Cargo.toml", "binding/src/lib.rs", "plait_kernel/__init__.py", "target/old.rs"):
            path = self.checkout / "core" / "kernel" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def run(self, command: list[str], env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        self.builds += 1
        release = Path(env["CARGO_TARGET_DIR"]) / "release"
        release.mkdir(parents=True)
        (release / "lib_kernel.so").write_text(f"build {self.builds}")
        return subprocess.CompletedProcess(command, self.status, "", "error: no such crate")


@pytest.fixture
def cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cargo:
    return Cargo(tmp_path, monkeypatch)


def test_a_kernel_is_built_once_for_each_source(cargo: Cargo) -> None:
    first = kernel_of(cargo.checkout)
    assert (first / "plait_kernel" / "_kernel.abi3.so").read_text() == "build 1"
    assert (first / "plait_kernel" / "__init__.py").exists()
    (cargo.checkout / "core" / "kernel" / "target" / "old.rs").write_text("// built before")
    assert kernel_of(cargo.checkout) == first
    (cargo.checkout / "core" / "kernel" / "binding" / "src" / "lib.rs").write_text("// another source")
    second = kernel_of(cargo.checkout)
    assert (second / "plait_kernel" / "_kernel.abi3.so").read_text() == "build 2"
    assert sorted(path.name for path in first.parent.iterdir()) == sorted([first.name, second.name])


def test_a_kernel_that_cannot_be_built_leaves_nothing(
    cargo: Cargo, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cargo.status = 1
    with pytest.raises(NoKernel, match="cannot be built:\nerror: no such crate"):
        kernel_of(cargo.checkout)
    with pytest.raises(NoKernel, match="there is no kernel in"):
        kernel_of(tmp_path / "elsewhere")
    assert not list((tmp_path / "cache" / "plait" / "kernels").iterdir())
    monkeypatch.setattr(source_state, "installed", lambda: tmp_path)
    with pytest.raises(Broken, match="base: the kernel of"):
        State("base", cargo.checkout, tmp_path / "metadata", told.append)


def test_the_python_index_needs_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_NATIVE", "off")
    assert kernel_builds.installed() is None
