"""`plait chaos`: the options for a link's shape, a relay controlled by another process, brokers found by name."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import pytest
from click.testing import CliRunner

from plait.commands.chaos.processes import send_signal
from plait.commands.chaos.shapes import ShapeText, requested_changes
from plait.commands.root import plait
from plait.commands.terminal.failures import Failure, WrongUse


@pytest.mark.parametrize(
    ("written", "changes"),
    [
        ("delay=20ms", {"delay": 0.02}),
        ("delay=0", {"delay": 0.0}),
        ("delay=1.5s, jitter=300us", {"delay": 1.5, "jitter": 3e-4}),
        ("loss=1%", {"loss": 0.01}),
        ("loss=0.25,flow=frozen", {"loss": 0.25, "flow": "frozen"}),
        ("bandwidth=10mbit", {"bandwidth": 10e6}),
        ("bandwidth=2.5Gbit/s", {"bandwidth": 2.5e9}),
    ],
)
def test_a_shape_in_one_word(written: str, changes: dict[str, Any]) -> None:
    assert ShapeText().convert(written, None, None) == changes


@pytest.mark.parametrize(
    "written", ["", "delay", "delay=", "delay=-1s", "speed=3", "loss=100%", "loss=x", "bandwidth=10", "flow=sideways"]
)
def test_invalid_shapes_are_reported(written: str) -> None:
    with pytest.raises(click.BadParameter):
        ShapeText().convert(written, None, None)


def test_a_bandwidth_may_be_taken_back() -> None:
    said = {"bandwidth": 0.0, "delay": None, "forth": {"bandwidth": 0.0}, "back": None}
    assert requested_changes(said) == {"both": {"bandwidth_bit_s": None}, "forth": {"bandwidth_bit_s": None}}


@contextmanager
def relay_process(*options: str) -> Iterator[tuple[str, str]]:
    """Run a relay. Yield its address and its control address."""
    command = [sys.executable, "-m", "plait", "chaos", "relay", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            ready = re.fullmatch(r"ready listen=(\S+) to=\S+ control=(\S+)\n", line)
            assert ready is not None, line
            yield ready[1], ready[2]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130


def ran(*arguments: str, code: int = 0) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "plait", "chaos", *arguments], capture_output=True, text=True, timeout=20
    )
    assert result.returncode == code, result.stderr
    return result.stdout if not code else result.stderr


def test_a_relay_is_started_changed_and_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        to = f"127.0.0.1:{server.getsockname()[1]}"
        with relay_process("--to", to, "--delay", "10ms", "--back", "loss=2%,bandwidth=1mbit") as (listen, control):
            host, _, port = listen.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=10) as near:
                far, _ = server.accept()
                with far:
                    near.sendall(b"hello")
                    assert far.recv(5, socket.MSG_WAITALL) == b"hello"
                    state = json.loads(ran("show", control, "--json"))
                    assert (state["to"], state["connections"]) == (to, 1)
                    assert state["forth"] | {"delay_ms": 10.0, "loss": 0.0, "carried_bytes": 5} == state["forth"]
                    back = {"delay_ms": 10.0, "loss": 0.02, "bandwidth_bit_s": 1e6}
                    assert state["back"] | back == state["back"]
                    told = ran("set", control, "--delay", "0", "--forth", "flow=frozen", "--bandwidth", "none", "--cut")
                    assert "frozen" in told
                    assert "cut" in told
                    assert "Mbit" not in told
        assert "nothing to change" in ran("set", control, code=2)
        assert "no relay answers" in ran("show", control, code=1)


@pytest.mark.parametrize(
    "place", ["", "nowhere", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "a b:1", "me@a:1", ":1"]
)
@pytest.mark.parametrize("option", ["--to", "--listen", "--control"])
def test_invalid_addresses_are_reported_before_listening(option: str, place: str) -> None:
    options = {"--to": "127.0.0.1:4680"} | {option: place}
    shown = CliRunner().invoke(plait, ["chaos", "relay", *(part for pair in options.items() for part in pair)])
    assert shown.exit_code == 2
    assert shown.stdout == ""
    assert shown.stderr == f"Error: {place!r} is no HOST:PORT\nHint: like 127.0.0.1:4680\n"


def test_port_zero_is_for_who_listens() -> None:
    for arguments in (["relay", "--to", "127.0.0.1:0"], ["show", "127.0.0.1:0"]):
        shown = CliRunner().invoke(plait, ["chaos", *arguments])
        assert shown.exit_code == 2
        assert "names no port" in shown.stderr


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"\x00\x00\x00^\x00\x12\x00\x00\x83\xa4code", "the answer is not a relay's"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the answer is not a relay's"),
        (b"\xff" * 100_000, "the answer is not a relay's"),
        (b"[]\n", "the answer is not a relay's"),
        (b'{"listen": 1}\n', "the answer is not a relay's"),
        (b"", "the connection was closed"),
    ],
)
@pytest.mark.parametrize("command", [["show"], ["set", "--cut"]])
def test_a_missing_relay_is_reported_in_one_line(command: list[str], answer: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"

        def serve() -> None:
            near, _ = server.accept()
            with near:
                near.recv(100)
                near.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        shown = CliRunner().invoke(plait, ["chaos", command[0], place, *command[1:]])
        serving.join()
    assert shown.exit_code == 1
    assert shown.stdout == ""
    message, hint = shown.stderr.splitlines()
    assert message == f"Error: no relay answers at {place}: {why}"
    assert hint.startswith("Hint: ")


def test_a_foreign_http_server_is_reported_in_one_line() -> None:
    """A broker's port for clients answers a request with a frame."""
    command = [sys.executable, "-m", "plait", "broker", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.search(r"listen=(\S+) ", process.stdout.readline())
            assert ready is not None
            shown = CliRunner().invoke(plait, ["topo", "--http", ready[1]])
        finally:
            process.kill()
    assert shown.exit_code == 1
    message, hint = shown.stderr.splitlines()
    assert message == f"Error: what answers at http://{ready[1]} does not speak HTTP"
    assert hint == "Hint: a broker's HTTP port is not its clients' port, but usually the next one"


def test_a_broker_is_found_by_its_name_and_by_its_id() -> None:
    name = f"nobody-else-{os.getpid()}"
    command = [sys.executable, "-m", "plait", "broker", "--name", name, "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(f"ready name={name}")
            assert send_signal(name, signal.SIGSTOP) == f"{name}, process {process.pid}"
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            assert send_signal(str(process.pid), signal.SIGCONT) == f"process {process.pid}"
            _, status = os.waitpid(process.pid, os.WCONTINUED)
            assert os.WIFCONTINUED(status)
            shown = CliRunner().invoke(plait, ["chaos", "kill", name])
            assert shown.exit_code == 0
            assert process.wait(10) == -signal.SIGKILL
        finally:
            process.kill()
    with pytest.raises(Failure, match="no broker"):
        send_signal(name, signal.SIGCONT)


def test_processes_that_are_no_brokers_get_no_signal() -> None:
    with pytest.raises(WrongUse, match="no Plait broker"):
        send_signal("1", signal.SIGCONT)
