"""`make dist`: builds a release into dist/ and checks it.

Builds wheels of every member and of the kernel, and checks them with twine. Installs them into an empty environment and
runs the quick start there. Writes a bill of materials of that environment. CHANGELOG.md must have a section for the
version.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
MEMBERS = ("core", "crypto", "client", "broker", "peer", "analytics", "lab", "core/kernel")
PORTABLE = {"MATURIN_PEP517_ARGS": "--compatibility pypi"}
"""Tags the kernel's wheel with the oldest C library that it runs on, instead of this machine's."""
INSTALLED = ("plait_core", "plait_crypto", "plait", "plait_broker", "plait_peer", "plait_kernel")
TOOLS = ("twine==7.0.0", "cyclonedx-bom==7.5.0")
READY = re.compile(r"ready name=\S+ listen=(\S+) http=\S+\n")


def main() -> None:
    version = _version()
    _check_changelog(version)
    if "--check" not in sys.argv:  # checks the existing wheels
        _build()
    _check(version)
    _write_sums()
    print(*sorted(path.name for path in DIST.iterdir()), sep="\n")


def _build() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    if shutil.which("cargo") is None:
        sys.exit("dist: a release includes the kernel, and cargo is not installed")
    for member in MEMBERS:
        _log(f"wheel of {member}")
        build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", DIST, f"./{member}")
        _run(*build, also=PORTABLE)


def _check(version: str) -> None:
    wheels = sorted(DIST.glob("*.whl"))
    assert len(wheels) == len(MEMBERS), wheels
    assert not any("-linux_" in wheel.name for wheel in wheels), "wheels are for other machines, too"
    with tempfile.TemporaryDirectory(prefix="plait-dist-") as scratch:
        tools, empty = Path(scratch, "tools"), Path(scratch, "empty")
        for environment in (tools, empty):
            venv.create(environment, with_pip=True)
        _log("twine check")
        _run(tools / "bin/python", "-m", "pip", "install", "--quiet", *TOOLS)
        _run(tools / "bin/twine", "check", *wheels)
        _log("into an empty environment")
        pip = (empty / "bin/python", "-m", "pip", "install", "--quiet")
        _run(*pip, "--require-hashes", "-r", ROOT / "docker/requirements.lock")
        chosen = [wheel for wheel in wheels if wheel.name.partition("-")[0] in INSTALLED]
        _run(*pip, "--no-deps", *chosen)
        _run(empty / "bin/python", "-m", "pip", "check")
        _log("the quick start")
        _quick_start(empty / "bin/plait", Path(scratch))
        _log("bill of materials")
        _run(empty / "bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
        bill = DIST / f"plait-{version}.cdx.json"
        command = ("environment", "--output-reproducible", "--output-file", bill, empty / "bin/python")
        _run(tools / "bin/cyclonedx-py", *command)


def _version() -> str:
    """Return the version of all members."""
    found = {
        member: re.search(r'^version = "(.+)"', (ROOT / member / "pyproject.toml").read_text(), re.MULTILINE)
        for member in MEMBERS
    }
    versions = {match[1] for match in found.values() if match}
    assert len(versions) == 1, f"members differ in version: {versions}"
    return versions.pop()


def _check_changelog(version: str) -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(
        rf"^## (?:{re.escape(version)}\b.*|Unreleased)$\n+(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert section is not None, f"CHANGELOG.md has no section {version}, nor Unreleased"
    assert "- " in section[1], "the section of CHANGELOG.md is empty"


def _quick_start(plait: Path, scratch: Path) -> None:
    """Run the README's first program against a broker of that environment, then the demo and the doctor."""
    program = re.search(r"```python[^\n]*\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert program is not None
    with subprocess.Popen(
        [plait, "broker", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", scratch / "data"],
        stdout=subprocess.PIPE, text=True, cwd=scratch, env=_bare(), stderr=subprocess.DEVNULL,
    ) as broker:  # fmt: skip
        try:
            assert broker.stdout is not None
            ready = READY.match(broker.stdout.readline())
            assert ready, "the broker prints its ready line"
            code = program[1].replace("localhost:4680", ready[1])
            output = _run(plait.with_name("python"), "-c", code, cwd=scratch)
            assert output.startswith("IBM "), output
        finally:
            broker.terminate()
        assert broker.wait(30) == 0, "the broker stops cleanly"
    _run(plait, "demo", "--seconds", "5", cwd=scratch)
    assert not re.search(r"^fail", _run(plait, "doctor", cwd=scratch), re.MULTILINE)


def _write_sums() -> None:
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(lines))


def _bare() -> dict[str, str]:
    """Return the environment variables without those that point to this repository."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PLAIT_", "PYTHON", "VIRTUAL_ENV"))
    }


def _run(*command: str | Path, cwd: Path = ROOT, also: Mapping[str, str] = MappingProxyType({})) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**_bare(), **also}, capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"dist: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def _log(step: str) -> None:
    print(f"dist: {step}", flush=True)


if __name__ == "__main__":
    main()
