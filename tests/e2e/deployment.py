"""Helpers for tests of a whole deployment: start it, inject faults, repair them, inspect it, stop it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from plait.relay.control import ask_control

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 180.0
BROKERS = tuple(f"broker-{number}" for number in range(1, 6))
BIND = "127.0.46.80"
"""Address of this machine at which nothing else is published."""


def missing() -> str:
    """Return the reason why no deployment can run here, with a remedy. Empty if one can."""
    if shutil.which("docker") is None:
        return "docker is not installed: apt-get install docker.io"
    if subprocess.run(["docker", "info"], capture_output=True).returncode:
        return "no Docker engine answers: start it, as by systemctl start docker"
    if not _compose_command():
        return "docker-compose is not installed: apt-get install docker-compose"
    if not docker("images", "--quiet", image()).strip():
        return f"there is no image {image()}: make image, or make image-offline"
    return ""


def image() -> str:
    return os.environ.get("PLAIT_IMAGE") or "plait-broker:0.1.0"


def docker(*arguments: str, given: str | None = None, check: bool = True) -> str:
    """Run a docker command and return its output."""
    done = subprocess.run(["docker", *arguments], input=given, capture_output=True, text=True, timeout=120, check=False)
    if check and done.returncode:
        raise AssertionError(f"docker {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _compose_command() -> list[str]:
    if shutil.which("docker") and not subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        return ["docker", "compose"]
    found = shutil.which("docker-compose")
    return [found] if found else []


def until(true: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end, f"not within {patience_s:g} s: {what}"
        time.sleep(0.5)


class Deployment:
    """One running project of Compose."""

    def __init__(self, project: str, files: Sequence[Path], variables: Mapping[str, str]) -> None:
        self.project = project
        self._command = [*_compose_command(), "-p", project, *(part for file in files for part in ("-f", str(file)))]
        self._variables = {**os.environ, "PLAIT_BIND": BIND, **variables}
        self.services: dict[str, str] = {}
        """Containers by the service that they run."""
        self._token = ""

    def compose(self, *arguments: str) -> None:
        done = subprocess.run(
            [*self._command, *arguments], env=self._variables, capture_output=True, text=True, timeout=300, check=False
        )
        assert not done.returncode, f"compose {' '.join(arguments)}: {done.stdout}{done.stderr}"

    def up(self, *services: str) -> None:
        """Start services and record their containers."""
        self.compose("up", "--detach", "--no-build", *services)
        listed = docker("ps", "--all", "--filter", f"label=com.docker.compose.project={self.project}", "--format",
                        '{{.Names}} {{.Label "com.docker.compose.service"}}')  # fmt: skip
        self.services = {service: name for name, service in map(str.split, listed.splitlines())}

    def down(self) -> None:
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "2")

    # --- harm and healing ---------------------------------------------------------------------------------------------

    def kill(self, *services: str) -> None:
        """Kill services, as a power failure would."""
        docker("kill", *(self.services[service] for service in services))

    def start(self, *services: str) -> None:
        docker("start", *(self.services[service] for service in services))

    def restart(self, service: str) -> None:
        """Restart a service as an operator does. It drains first."""
        docker("restart", "--time", "30", self.services[service])

    def pause(self, service: str) -> None:
        """Pause a service. Retry if the kernel refuses while a process, such as a health check, starts in it."""

        def paused() -> bool:
            docker("pause", self.services[service], check=False)
            return bool(json.loads(docker("inspect", self.services[service]))[0]["State"]["Paused"])

        until(paused, f"{service} is paused")

    def resume(self, service: str) -> None:
        docker("unpause", self.services[service])

    def networks(self, service: str) -> list[str]:
        found = json.loads(docker("inspect", self.services[service]))[0]["NetworkSettings"]["Networks"]
        return sorted(found)

    def disconnect(self, service: str, network: str) -> None:
        docker("network", "disconnect", network, self.services[service])

    def connect(self, service: str, network: str) -> None:
        docker("network", "connect", "--alias", service, network, self.services[service])

    def shape(self, link: str, **how: Mapping[str, object]) -> None:
        """Change the shape of a link in both of its relays."""
        for port in (4698, 4699):
            asyncio.run(ask_control(f"{self.address(link)}:{port}", dict(how)))

    # --- looking ------------------------------------------------------------------------------------------------------

    def links(self) -> list[str]:
        return sorted(service for service in self.services if service.startswith("link-"))

    def run(self, service: str, *command: str, given: str | None = None) -> str:
        return docker("exec", *(["-i"] if given is not None else []), self.services[service], *command, given=given)

    def health(self, service: str) -> str:
        state = json.loads(docker("inspect", self.services[service]))[0]["State"]
        return str(state.get("Health", {}).get("Status", state["Status"]))

    def wait_healthy(self, *services: str) -> None:
        """Wait until Docker reports the services healthy. It checks every few seconds."""
        for service in services:
            until(lambda: self.health(service) == "healthy", f"{service} is healthy")  # noqa: B023

    def wait_ready(self, *brokers: str) -> None:
        """Wait until the brokers report themselves ready."""
        for broker in brokers:
            until(lambda: self.asked(broker, "/readyz") is not None, f"{broker} is ready")  # noqa: B023

    def wait_whole(self, *brokers: str) -> None:
        """Wait until every broker knows all brokers."""

        def whole(broker: str) -> bool:
            found = self.asked(broker, "/api/v1/topology")
            return found is not None and len(found["brokers"]) == len(brokers)

        for broker in brokers:
            until(lambda: whole(broker), f"{broker} knows the others")  # noqa: B023

    def address(self, service: str) -> str:
        """Return a current address of a service. Empty if it has none."""
        networks = json.loads(docker("inspect", self.services[service]))[0]["NetworkSettings"]["Networks"]
        return next((each["IPAddress"] for each in networks.values() if each["IPAddress"]), "")

    def asked(self, broker: str, path: str) -> Any:
        """Return a broker's HTTP answer, or None if there is none or it is an error."""
        if not self._token:
            self._token = self.run("keyserver", "python3", "-c", "print(open('/run/plait/token').read())").strip()
        asking = Request(
            f"http://{self.address(broker)}:4681{path}", headers={"Authorization": f"Bearer {self._token}"}
        )
        try:
            with urlopen(asking, timeout=10) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None


@contextmanager
def deployed(project: str, *files: Path, **variables: str) -> Iterator[Deployment]:
    """Run a deployment. Remove it with all its data at the end, also if the test fails."""
    found = Deployment(project, files, variables)
    found.down()  # of a run that was cut short
    try:
        yield found
    finally:
        found.down()
