"""`plait up -n` with real processes: the others survive a dead broker, it returns, and no process outlives Ctrl-C."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import port_to_keep

PLAIT = [sys.executable, "-m", "plait"]
LIMIT_S = 30
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("PLAIT_")},
    "XDG_CONFIG_HOME": "/nonexistent",
    "PYTHONUNBUFFERED": "1",
}


def run(*arguments: str, code: int = 0) -> str:
    """Run a command. Return its stdout, or its stderr if it must fail."""
    ran = subprocess.run([*PLAIT, *arguments], capture_output=True, text=True, timeout=LIMIT_S, env=ENVIRONMENT)
    assert ran.returncode == code, ran.stderr
    return ran.stderr if code else ran.stdout


class Overlay:
    """`plait up` with five brokers of unique names, in a graph that no single loss splits."""

    def __init__(self, home: Path) -> None:
        self.names = [f"up-{os.getpid()}-{number}" for number in range(1, 6)]
        links = [(near, near + far) for near in range(5) for far in (1, 2) if near + far < 5]
        (home / "graph").write_text("".join(f"{self.names[near]} {self.names[far]}\n" for near, far in links))
        self._said = home / "stderr"
        port = port_to_keep(random.Random(f"{os.getpid()} {home}"))
        options = ["--topology", str(home / "graph"), "--data", str(home / "data"), "--json"]
        options += ["--listen", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{port + 1}"]
        with self._said.open("w") as stderr:
            self.process = subprocess.Popen(
                [*PLAIT, "up", *options], stdout=subprocess.PIPE, stderr=stderr, text=True, env=ENVIRONMENT
            )
        assert self.process.stdout is not None
        ready = [json.loads(self.process.stdout.readline()) for _ in self.names]
        self.urls = {one["name"]: f"plait://{one['listen']}" for one in ready}
        self.http = ready[0]["http"]

    @property
    def lines(self) -> list[str]:
        """Lines that `plait up` itself printed on stderr."""
        return [line for line in self._said.read_text().splitlines() if re.match(r"up-|Error", line)]

    def tells(self, line: str) -> None:
        """Wait until `plait up` has printed a line."""
        wait_for(lambda: line in self.lines, lambda: self._said.read_text())

    def reachable(self) -> set[str]:
        """Return the names of the brokers that `plait topo` lists as reachable."""
        listed = run("topo", "--http", self.http).splitlines()
        return {line.split()[0] for line in listed if "─" not in line and "out of reach" not in line}

    def sees(self, *names: str) -> None:
        """Wait until exactly these brokers are reachable."""
        wait_for(lambda: self.reachable() == set(names), lambda: run("topo", "--http", self.http))

    def processes(self) -> list[str]:
        """Return the command lines of its brokers and placeholders."""
        words = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words.append(entry.read_text(errors="replace").replace("\0", " "))
            except OSError:  # gone meanwhile
                continue
        return [line for line in words if f"--name up-{os.getpid()}-" in line]


def wait_for(right: Callable[[], bool], seen: Callable[[], str]) -> None:
    end = time.monotonic() + LIMIT_S
    while not right():
        assert time.monotonic() < end, seen()
        time.sleep(0.1)


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Overlay]:
    started = Overlay(tmp_path)
    try:
        started.sees(*started.names)
        yield started
    finally:
        started.process.terminate()
        started.process.communicate(timeout=LIMIT_S)


def test_one_dies_the_others_go_on_and_it_comes_back(overlay: Overlay) -> None:
    first, _, middle, _, last = overlay.names
    listening = overlay.urls[middle]
    assert middle in run("chaos", "start", middle, code=1), "it has not ended"
    run("chaos", "kill", middle)
    overlay.tells(f"{middle} was ended by SIGKILL; `plait chaos start {middle}` starts it again")
    assert "has ended" in run("chaos", "kill", middle, code=1)
    overlay.sees(*(name for name in overlay.names if name != middle))
    assert overlay.process.poll() is None
    passes(overlay.urls[first], overlay.urls[last])

    run("chaos", "start", middle)
    overlay.tells(f"{middle} is back")
    overlay.sees(*overlay.names)
    passes(listening, overlay.urls[last])
    assert len(overlay.lines) == 2
    run("chaos", "kill", middle)
    wait_for(lambda: len(overlay.lines) == 3, lambda: str(overlay.lines))


def test_doctor_names_what_would_split_the_overlay(overlay: Overlay) -> None:
    first, second, middle, fourth, last = overlay.names
    assert overlay_finding(overlay) == ("ok", "5 brokers, 7 links", "")
    run("chaos", "kill", middle)
    overlay.sees(first, second, fourth, last)
    state, found, hint = overlay_finding(overlay)
    assert state == "warn"
    assert f"4 brokers, 3 links; out of reach: {middle}; single points of failure: brokers {second}, {fourth}" in found
    assert f"add link {first} - {last}" in hint


def overlay_finding(overlay: Overlay) -> tuple[str, str, str]:
    arguments = [*PLAIT, "doctor", "--json", "--http", overlay.http]
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT_S, env=ENVIRONMENT)
    findings = {finding["check"]: finding for finding in map(json.loads, ran.stdout.splitlines())}
    return findings["overlay"]["state"], findings["overlay"]["found"], findings["overlay"]["hint"]


def passes(near: str, far: str) -> None:
    """Check that an event from one broker arrives at another."""
    with subprocess.Popen(
        [*PLAIT, "sub", "x > 0", "--count", "1", "--json", "--url", far],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    ) as sub:  # fmt: skip
        try:
            assert sub.stderr is not None
            assert sub.stderr.readline() == "subscribed\n"
            run("pub", "x=1", "--confirm", "subscribers", "--url", near)
            assert sub.stdout is not None
            assert json.loads(sub.stdout.readline())["attributes"] == {"x": 1}
            assert sub.wait(LIMIT_S) == 0
        finally:
            sub.kill()


def test_no_process_survives_ctrl_c_with_one_paused_and_one_dead(overlay: Overlay) -> None:
    _, dead, _, paused, _ = overlay.names
    run("chaos", "kill", dead)
    overlay.tells(f"{dead} was ended by SIGKILL; `plait chaos start {dead}` starts it again")
    run("chaos", "pause", paused)
    assert len(overlay.processes()) == 5
    overlay.process.send_signal(signal.SIGINT)
    assert overlay.process.wait(LIMIT_S) == 130
    assert overlay.processes() == []
    assert len(overlay.lines) == 1, "brokers that the command stops itself are not reported"


def test_no_broker_survives_a_killed_overlay_command(overlay: Overlay) -> None:
    run("chaos", "kill", overlay.names[2])
    wait_for(lambda: len(overlay.lines) == 1, lambda: str(overlay.lines))
    overlay.process.kill()
    wait_for(lambda: not overlay.processes(), lambda: str(overlay.processes()))


def test_a_start_that_fails_may_be_tried_again(overlay: Overlay) -> None:
    name = overlay.names[4]
    again = f"`plait chaos start {name}` starts it again"
    run("chaos", "kill", name)
    overlay.tells(f"{name} was ended by SIGKILL; {again}")
    host, _, port = overlay.urls[name].removeprefix("plait://").rpartition(":")
    with socket.create_server((host, int(port))):
        run("chaos", "start", name)
        overlay.tells(f"{name}: the broker did not start (exit code 1)")
        overlay.tells(f"{name} ended with exit code 1; {again}")
    run("chaos", "start", name)
    overlay.tells(f"{name} is back")
    overlay.sees(*overlay.names)


def test_the_overlay_command_ends_with_its_last_broker(overlay: Overlay) -> None:
    for number, name in enumerate(overlay.names, 1):
        assert overlay.process.poll() is None
        run("chaos", "kill", name)
        wait_for(lambda told=number: len(overlay.lines) >= told, lambda: str(overlay.lines))  # type: ignore[misc]
    assert overlay.process.wait(LIMIT_S) == 1
    assert overlay.lines[4:] == [f"{overlay.names[4]} was ended by SIGKILL", "Error: all brokers have ended"]
    assert overlay.processes() == []


def test_a_broker_that_cannot_start_ends_the_overlay_at_once(tmp_path: Path) -> None:
    (tmp_path / "graph").write_text(f"up-{os.getpid()}-a up-{os.getpid()}-b\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / f"up-{os.getpid()}-b").write_text("no folder")
    options = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    assert "did not start" in run("up", "--topology", str(tmp_path / "graph"), *options, code=1)
