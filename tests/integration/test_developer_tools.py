"""Scripts of developers on a machine that lacks something: each names the missing tool and its package."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 120.0
AS_IT_IS = ("--assume-old", ".venv/.ready")  # a test sets nothing up anew


def path_without(place: Path, *absent: str) -> str:
    """Make a directory of links to all programs of this machine except these. Return it as a PATH."""
    place.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in directory.iterdir() if directory.is_dir() else ():
            link = place / program.name
            if program.name not in absent and not link.is_symlink():
                link.symlink_to(program)
    return str(place)


def ran(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "absent", "sentence"),
    [
        ("sh docker/base.sh none:bookworm", "docker", "docker is not installed: apt-get install docker.io"),
        ("make image", "docker", "docker is not installed: apt-get install docker.io"),
        ("sh docker/base.sh none:bookworm", "debootstrap", "debootstrap is not installed: apt-get install debootstrap"),
        ("sh scripts/setup.sh core", "python3", "python3 is not installed: apt-get install python3 python3-venv"),
        ("sh scripts/setup.sh --kernel", "cargo", "cargo is not installed"),
        ("make lock", "uv", "uv is not installed"),
    ],
)
def test_a_missing_tool_is_named_in_a_sentence(command: str, absent: str, sentence: str, tmp_path: Path) -> None:
    if absent == "debootstrap" and (os.geteuid() or shutil.which("docker") is None):
        pytest.skip("debootstrap comes after root and docker")
    found = ran(*command.split(), PATH=path_without(tmp_path / "bin", absent), XDG_CACHE_HOME=str(tmp_path))
    assert found.returncode == 1 or (command.startswith("make") and found.returncode == 2)
    assert re.search(f"^[a-z]+: {re.escape(sentence)}", found.stderr, re.MULTILINE), found.stderr
    assert "not found" not in found.stderr


def test_wheels_name_the_version_of_python_whose_pip_is_missing() -> None:
    found = ran("sh", "docker/wheels.sh", "build/none", "broker", PYTHON_OF_IMAGE="3.1")
    assert found.returncode == 1
    assert found.stderr == "wheels: pip is not installed for Python 3.1: apt-get install python3-pip\n"


def test_a_deployment_that_cannot_run_is_an_error(tmp_path: Path) -> None:
    """`make e2e` without Docker ran nothing and succeeded."""
    found = ran("make", *AS_IT_IS, "e2e", PATH=path_without(tmp_path / "bin", "docker"))
    assert found.returncode
    assert "ERROR: docker is not installed: apt-get install docker.io" in found.stderr


FEW = ("ARGS=-n 0 -p no:cacheprovider tests/unit/analytics/test_cluster.py", "WITHOUT_KERNEL=-n 0 tests/test_names.py")


def test_without_java_the_last_line_names_the_skipped_tests() -> None:
    found = ran("make", *AS_IT_IS, "test", *FEW, JAVA_HOME="/nowhere", CI="")
    assert found.returncode == 0, found.stdout
    last = [line for line in found.stdout.splitlines() if not line.startswith("make[")][-1]  # of a make in a make
    assert last.startswith(
        "test: the tests of Spark were skipped: Spark needs Java, and /nowhere/bin/java does not run"
    )
    assert "apt-get install" in last


def test_continuous_integration_does_not_go_on_without_java() -> None:
    found = ran("make", *AS_IT_IS, "test", *FEW, JAVA_HOME="/nowhere", CI="true")
    assert found.returncode
    assert "Spark needs Java" in found.stderr
    assert "CI=true does not let them be skipped" in found.stderr
    assert "collected" not in found.stdout, "it is known before the tests"


def marked(run: str) -> list[int]:
    """Return the processes that a run of .ci/run started."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PLAIT_CI_RUN={run}.".encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
        except OSError:
            continue  # it has just ended
    return found


@pytest.fixture
def linting() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        ["bash", ".ci/run", "lint"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_an_interrupted_run_leaves_no_process(linting: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(marked(str(linting.pid))) < 2:  # make, and what it runs
        assert linting.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    linting.send_signal(signal.SIGTERM)
    said, _ = linting.communicate(timeout=PATIENCE_S)
    assert linting.returncode == 128 + signal.SIGTERM
    assert re.search(r"^ci: failed in \d+ s$", said, re.MULTILINE)
    assert not marked(str(linting.pid))


def test_a_run_goes_on_without_docker(tmp_path: Path) -> None:
    found = ran("bash", ".ci/run", "images", "deployment", PATH=path_without(tmp_path / "bin", "docker"))
    assert found.returncode == 0, found.stderr
    why = "docker is not installed: apt-get install docker.io"
    said = found.stdout.splitlines()
    assert said[0] == f"ci: no images are built and no deployment is run: {why}"
    assert [re.sub(r"\d+", "N", line) for line in said[1:5]] == [
        "ci: images", "ci: images took N s", "ci: deployment", "ci: deployment took N s",
    ]  # fmt: skip
    assert said[5] == f"ci: left out: images and deployment, for {why}"
