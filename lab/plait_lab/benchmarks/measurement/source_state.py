"""A checkout in which trials are run: its packages, its native kernel and its entry points, in subprocesses.

The interpreter and the dependencies are those of this process. Its installed packages of Plait take no part.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

from ...reference_trials import MEASURES, SCRIPTS
from ..groups import ShowProgress
from .kernel_builds import NoKernel, installed, kernel_of

LONGEST_S: Final = 180.0
"""For one trial with a repetition: without a fault it takes ten seconds."""


class Broken(Exception):
    """The benchmarks of a state cannot be run. The text gives the reason."""


class State:
    """One state of the source."""

    def __init__(self, name: str, checkout: Path, place: Path, progress: ShowProgress, *, kernel: bool = True) -> None:
        """Prepare it, with its kernel if this interpreter uses one. Write its entry points below `place`."""
        self.name = name
        self.checkout = checkout
        self._progress = progress
        members = sorted(path.parent for path in checkout.glob("*/pyproject.toml"))
        folders = [place / name, *members]
        for member in members:
            _write_entry_points(member / "pyproject.toml", place / name)
        self._environment = dict(os.environ)
        if not kernel or installed() is None:
            self._environment["PLAIT_NATIVE"] = "off"
        else:
            progress(f"{name}: the native kernel of {checkout}, built if its source is new")
            folders.append(self._kernel())
        self._environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))

    def measure(self, trial: str, seed: int, *, quick: bool) -> dict[str, float | None]:
        """Run one trial. Return its measures by name, None for one that failed."""
        script = SCRIPTS.get(trial)
        program = ["-m", "plait_lab.bench", "--trial", trial] if script is None else [str(script)]
        command = [sys.executable, *program, "--seed", str(seed), "--json", *(["--quick"] if quick else [])]
        try:
            done = subprocess.run(
                command, cwd=self.checkout, env=self._environment, capture_output=True, text=True, timeout=LONGEST_S
            )
        except subprocess.TimeoutExpired:
            return {measure.name: None for measure in MEASURES[trial]}
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        reason = "".join(done.stderr.strip().splitlines()[-1:])
        if not lines:
            raise Broken(f"{self.name}: {self.checkout} cannot run the trial {trial}: {reason}")
        self._check(lines[0]["sources"])
        found = {line["measure"]: line["reached"] for line in lines[1:]}
        if done.returncode:
            self._progress(f"{self.name}, {trial}: {reason}")
        return {measure.name: found.get(measure.name) for measure in MEASURES[trial]}

    def _kernel(self) -> Path:
        try:
            return kernel_of(self.checkout)
        except NoKernel as error:
            raise Broken(f"{self.name}: {error}") from error

    def _check(self, sources: dict[str, str]) -> None:
        """Ensure that the state itself was measured, not what is installed."""
        for name, folder in sources.items():
            if not Path(folder).is_relative_to(self.checkout):
                raise Broken(f"{self.name}: {name} was imported from {folder}, not from {self.checkout}")


def _write_entry_points(project_file: Path, place: Path) -> None:
    """Write the metadata of a package as an installation would, so that its own entry points are found."""
    project = tomllib.loads(project_file.read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    folder = place / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = []
    for group, points in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{point} = {value}" for point, value in points.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
