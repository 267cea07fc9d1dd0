"""Runs README's commands on a new machine that has only Debian, Python, Docker and a checkout.

The machine is a container made by debootstrap, so the test needs root. It uses this machine's Docker engine, and pip's
settings of this environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deployment import BROKERS, ROOT, docker, image

MACHINE = "plait-stranger:bookworm"
PACKAGES = ("python3", "python3-venv", "make", "docker.io", "docker-compose", "ca-certificates")
PROJECT = "plait-stranger"
PATIENCE_S = 900.0
SOCKET = Path("/var/run/docker.sock")

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return the files of a `git clone`, without build results."""
    place = tmp_path / "plait"
    place.mkdir()
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "--null", "-T", "-", "-cf", tmp_path / "tar"], cwd=ROOT, input=files, check=True)
    subprocess.run(["tar", "-xf", tmp_path / "tar"], cwd=place, check=True)
    if (ROOT / "docker/.env").is_file():  # without a registry, `make image-offline` lists the available images here
        shutil.copy(ROOT / "docker/.env", place / "docker/.env")
    return place


@pytest.fixture
def machine(checkout: Path) -> Iterator[str]:
    """Create a new machine with the checkout, at a path that the engine can mount, too."""
    if os.geteuid() or shutil.which("debootstrap") is None:
        pytest.skip("a machine of Debian alone is made by debootstrap, as root")
    subprocess.run(["sh", ROOT / "docker/base.sh", MACHINE, *PACKAGES], check=True)
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name == "SSL_CERT_FILE"}
    told = [word for name, value in settings.items() for word in ("-e", f"{name}={value}")]
    given = {value for value in settings.values() if Path(value).is_absolute() and Path(value).is_file()}
    mounts = [word for path in sorted(given) for word in ("-v", f"{path}:{path}:ro")]
    name = docker(
        "run", "--rm", "--detach", "--init", "--label", "plait.test", "-w", str(checkout),
        "-v", f"{checkout}:{checkout}", "-v", f"{SOCKET}:{SOCKET}", "-e", f"COMPOSE_PROJECT_NAME={PROJECT}",
        "-e", "PLAIT_BIND=127.0.46.81", *told, *mounts, MACHINE, "sleep", "infinity",
    ).strip()  # fmt: skip
    try:
        yield name
    finally:
        if (checkout / "docker/compose.yaml").exists():
            docker(
                "exec",
                name,
                "docker-compose",
                "-f",
                "docker/compose.yaml",
                "down",
                "--volumes",
                "--timeout",
                "2",
                check=False,
            )
        docker("kill", name, check=False)


def typed(machine: str, command: str) -> str:
    """Run a command of README in a shell of that machine."""
    done = subprocess.run(
        ["docker", "exec", machine, "sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert not done.returncode, f"{command}\n{done.stdout}{done.stderr}"
    print(f"--- {command}\n{done.stdout[-400:]}")
    return done.stdout


def test_readme_is_enough(machine: str) -> None:
    readme = (ROOT / "README.md").read_text()
    for command in ("make setup", ". .venv/bin/activate", "plait demo", "docker compose -f docker/compose.yaml up -d"):
        assert command in readme, "the commands are those of README"
    typed(machine, "make setup")
    typed(machine, ". .venv/bin/activate && plait demo --seconds 4")
    typed(
        machine, ". .venv/bin/activate && python tests/support/pages.py README.md"
    )  # its three terminals, its first program
    assert image() == "plait-broker:0.1.0", "the images are here, as by make image"
    typed(machine, "docker-compose -f docker/compose.yaml up -d")
    listing = "docker-compose -f docker/compose.yaml exec -T broker-1 plait ls brokers"
    typed(machine, f"until [ $({listing} | grep -c '^broker-[1-5] ') = {len(BROKERS)} ]; do sleep 1; done")  # a minute
    assert all(f"{broker} " in typed(machine, listing) for broker in BROKERS)
