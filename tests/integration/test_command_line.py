"""The command line as people and programs use it: real processes, a real broker, formats and exit codes."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

PLAIT = [sys.executable, "-m", "plait"]
EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 30


@dataclass
class Shell:
    """Runs commands against one broker. Ends all of them afterwards."""

    home: Path
    stack: ExitStack
    url: str = "plait://127.0.0.1:1"
    http: str = ""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PLAIT_")}
        return kept | {"PLAIT_URL": self.url, "XDG_CONFIG_HOME": str(self.home), "PYTHONUNBUFFERED": "1"}

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PLAIT, *arguments], input=stdin, capture_output=True, text=True, env=self.environment, timeout=LIMIT_S
        )

    def start(self, *arguments: str, until: str, program: list[str] = PLAIT) -> subprocess.Popen[str]:
        """Start a command and wait for its first line, which must begin with `until`."""
        process = subprocess.Popen(
            [*program, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment,
        )  # fmt: skip
        self.stack.callback(ended, process)
        stream = process.stdout if until.startswith(("ready", "Plait", "{")) else process.stderr
        assert stream is not None
        said = stream.readline()
        assert said.startswith(until), said + (process.stderr.read() if process.stderr and not said else "")
        process.said = said  # type: ignore[attr-defined]
        return process


def ended(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with ExitStack() as stack:
        yield Shell(tmp_path, stack)


@pytest.fixture
def broker(shell: Shell) -> subprocess.Popen[str]:
    process = shell.start(
        "broker", "--name", "one", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "error",
        "--data", str(shell.home / "data"), until="ready",
    )  # fmt: skip
    ready = re.fullmatch(r"ready name=one listen=(\S+) http=(\S+)\n", process.said)  # type: ignore[attr-defined]
    assert ready, process.said  # type: ignore[attr-defined]
    shell.url, shell.http = f"plait://{ready[1]}", ready[2]
    return process


def test_three_terminals(shell: Shell, broker: subprocess.Popen[str]) -> None:
    sub = shell.start("sub", "symbol == 'IBM' and price < 120", "--json", until="subscribed\n")
    for arguments in (["symbol=IBM", "price=99.5"], ["symbol=IBM", "price=130"], ["symbol=MSFT", "price=99.5"]):
        published = shell.run("pub", *arguments)
        assert re.fullmatch(r"published [0-9a-f]{16}-1\n", published.stdout), published
        assert (published.returncode, published.stderr) == (0, "")
    assert shell.run("pub", "symbol=IBM", "price=7", "--payload", "last").returncode == 0
    assert sub.stdout is not None
    first, second = json.loads(sub.stdout.readline()), json.loads(sub.stdout.readline())
    assert list(first) == ["id", "publisher", "seq", "attributes", "payload", "delay_ms", "hops", "path"]
    assert first["attributes"] == {"symbol": "IBM", "price": 99.5}
    assert (first["id"], first["seq"]) == (f"{first['publisher']}-1", 1)
    assert (first["payload"], first["hops"], first["path"]) == ("", 0, ["one"])
    assert 0 <= first["delay_ms"] < 5000
    assert (second["attributes"]["price"], second["payload"]) == (7, "last")
    sub.send_signal(signal.SIGINT)
    assert sub.wait(LIMIT_S) == 130
    assert sub.stdout.read() == ""
    assert sub.stderr is not None
    assert sub.stderr.read().strip() == ""
    broker.send_signal(signal.SIGTERM)
    assert broker.wait(LIMIT_S) == 0


def test_values_are_json_scalars_where_they_parse_as_such(shell: Shell, broker: subprocess.Popen[str]) -> None:
    sub = shell.start("sub", "has(int)", "--json", "--count", "1", until="subscribed\n")
    values = [
        "int=7",
        "float=1e3",
        "yes=true",
        "null=null",
        'quoted="7"',
        "text=a b",
        "octal=007",
        "nan=NaN",
        "list=[1]",
    ]
    assert shell.run("pub", *values, "empty=", "equals=a=b").returncode == 0
    out, _ = sub.communicate(timeout=LIMIT_S)
    assert sub.returncode == 0
    assert json.loads(out)["attributes"] == {
        "int": 7, "float": 1000.0, "yes": True, "null": None, "quoted": "7", "text": "a b", "octal": "007",
        "nan": "NaN", "list": "[1]", "empty": "", "equals": "a=b",
    }  # fmt: skip


def test_count_and_wait(shell: Shell, broker: subprocess.Popen[str]) -> None:
    sub = shell.start("sub", "x > 0", "--count", "2", "--wait", "20", until="subscribed\n")
    sent = shell.run("pub", "x=1", "--count", "3", "--json", "--confirm", "broker")
    receipt = json.loads(sent.stdout)
    assert {key: receipt[key] for key in ("published", "confirmed", "confirm")} == {
        "published": 3, "confirmed": 3, "confirm": "broker",
    }  # fmt: skip
    out, _ = sub.communicate(timeout=LIMIT_S)
    assert (sub.returncode, len(out.splitlines())) == (0, 2)
    assert "x=1" in out
    nothing = shell.run("sub", "x > 0", "--wait", "0.2", "--json")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (1, "", "subscribed\n")


def test_a_file_of_events(shell: Shell, broker: subprocess.Popen[str]) -> None:
    sub = shell.start("sub", "has(n)", "--json", "--count", "5", until="subscribed\n")
    file = shell.home / "events.jsonl"
    file.write_text('{"n": 1}\n{"n": 2, "text": "ü"}')
    assert shell.run("pub", "--file", str(file), "--count", "2").returncode == 0
    assert shell.run("pub", "--file", "-", stdin='{"n": 3}\n').returncode == 0
    out, _ = sub.communicate(timeout=LIMIT_S)
    assert [json.loads(line)["attributes"]["n"] for line in out.splitlines()] == [1, 2, 1, 2, 3]


@pytest.mark.parametrize("bad", ['{"n": ', "[]", "", "7", '{"n": 1, "n": 2}', '{"n": NaN}', '{"a b": 1}'])
def test_a_bad_line_is_named_and_nothing_is_published(shell: Shell, broker: subprocess.Popen[str], bad: str) -> None:
    file = shell.home / "events.jsonl"
    file.write_text(f'{{"n": 1}}\n{bad}\n{{"n": 3}}\n')
    done = shell.run("pub", "--file", str(file), "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {file}, line 2: ")
    piped = shell.run("pub", "--file", "-", stdin=file.read_text())
    assert piped.returncode == 2
    assert "standard input, line 2: " in piped.stderr


def test_a_durable_subscription_keeps_its_place(shell: Shell, broker: subprocess.Popen[str]) -> None:
    durable = ["sub", "has(n)", "--durable", "books", "--json"]
    sub = shell.start(*durable, "--count", "1", until="subscribed\n")
    shell.run("pub", "n=1", "--confirm", "broker")
    sub.communicate(timeout=LIMIT_S)
    for n in (2, 3):
        shell.run("pub", f"n={n}", "--confirm", "broker")
    seen = [shell.run(*durable, "--count", "2", *ack, "--wait", "20") for ack in (["--ack", "manual"], [])]
    for done in seen:
        assert [json.loads(line)["attributes"]["n"] for line in done.stdout.splitlines()] == [2, 3]
    assert shell.run(*durable, "--wait", "0.3").stdout == ""


def test_an_advertisement_sees_who_listens(shell: Shell, broker: subprocess.Popen[str]) -> None:
    adv = shell.start("adv", "x > 0", "--json", until="advertised\n")
    assert adv.stdout is not None
    assert json.loads(adv.stdout.readline()) == {"matching": False}
    sub = shell.start("sub", "x > 5", until="subscribed\n")
    assert json.loads(adv.stdout.readline()) == {"matching": True}
    listed = {what: shell.run("ls", what, "--json", "--http", shell.http) for what in ("subs", "advs", "clients")}
    assert json.loads(listed["subs"].stdout)["filter"] == "x > 5"
    assert json.loads(listed["advs"].stdout)["filter"] == "x > 0"
    assert len(listed["clients"].stdout.splitlines()) == 2
    assert json.loads(shell.run("ls", "brokers", "--json", "--http", shell.http).stdout)["name"] == "one"
    assert "FILTER" in shell.run("ls", "subs", "--http", shell.http).stdout
    sub.send_signal(signal.SIGINT)
    sub.wait(LIMIT_S)
    assert json.loads(adv.stdout.readline()) == {"matching": False}
    adv.send_signal(signal.SIGINT)
    assert adv.wait(LIMIT_S) == 130


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.mark.parametrize("command", [["sub", "x > 0"], ["pub", "x=1"], ["adv", "x > 0"], ["ls", "subs"]])
def test_no_broker_is_a_clear_failure(shell: Shell, command: list[str]) -> None:
    shell.url = f"plait://127.0.0.1:{free_port()}"
    done = shell.run(*command)
    assert (done.returncode, done.stdout) == (1, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith(("Error: no broker at plait://127.0.0.1:", "Error: no answer from http://127.0.0.1:"))
    assert "plait up" in hint


@pytest.mark.parametrize(
    "command",
    [
        ["sub", "price <"], ["sub"], ["sub", "x > 0", "--within", "fast"], ["sub", "x > 0", "--start", "all"],
        ["adv", "price <"], ["pub"], ["pub", "price"], ["pub", "1x=1"], ["pub", "x=1", "x=2"],
        ["pub", "x=1", "--file", "-"],
        ["pub", "x=1", "--priority", "10"], ["pub", "--file", "/no/such/file"], ["ls", "everything"],
        ["sub", "x > 0", "--url", "http://localhost"], ["up", "-n", "99"],
        ["up", "-n", "20", "--topology", "mesh"], ["up", "--topology", "tree"], ["bench", "pub", "--own"],
        ["no-such-command"],
    ],
)  # fmt: skip
def test_wrong_use_ends_with_2(shell: Shell, command: list[str]) -> None:
    done = shell.run(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_enough(shell: Shell, broker: subprocess.Popen[str]) -> None:
    sub = shell.start("sub", "x > 0", until="subscribed\n")
    assert sub.stdout is not None
    sub.stdout.close()
    shell.run("pub", "x=1", "--count", "3")
    assert sub.wait(LIMIT_S) == 0
    assert sub.stderr is not None
    assert "Traceback" not in sub.stderr.read()
    sub.stderr.close()
    sub.stdout = sub.stderr = None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_leaves_nothing_behind(shell: Shell, number: signal.Signals) -> None:
    up = shell.start("up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", until="Plait is up at plait://")
    found = re.search(r"plait://127\.0\.0\.1:(\d+)", up.said)  # type: ignore[attr-defined]
    assert found
    shell.url = found[0]
    assert shell.run("pub", "x=1").returncode == 0
    up.send_signal(number)
    assert up.wait(LIMIT_S) == 128 + number
    assert shell.run("pub", "x=1").returncode == 1


def test_up_with_several_is_an_overlay(shell: Shell) -> None:
    up = shell.start(
        "up", "-n", "4", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", until="Plait is up at plait://"
    )
    assert up.stdout is not None
    said = "".join(iter(up.stdout.readline, "Ctrl-C ends it.\n"))
    addresses = re.findall(r"local-\d +plait://(\S+)", said)
    assert len(addresses) == 4
    assert f"plait topo --url {addresses[0]}\n" in said
    any_broker = ("--url", addresses[1])
    drawn = wait_for(lambda: shell.run("topo", *any_broker).stdout, lambda drawn: drawn.count("─") == 8)
    assert {line.split()[0] for line in drawn.splitlines() if "─" not in line} == {f"local-{n}" for n in range(1, 5)}
    kinds = [set(json.loads(line)) for line in shell.run("topo", *any_broker, "--json").stdout.splitlines()]
    assert sum("from" in kind for kind in kinds) == 8
    listed = shell.run("ls", "brokers", *any_broker).stdout
    assert all(f"local-{n}" in listed for n in range(1, 5))
    sub = shell.start(
        "sub", "x > 0", "--count", "1", "--json", "--url", f"plait://{addresses[2]}", until="subscribed\n"
    )
    assert shell.run("pub", "x=1", "--confirm", "subscribers", "--url", f"plait://{addresses[0]}").returncode == 0
    assert sub.wait(LIMIT_S) == 0
    assert sub.stdout is not None
    event = json.loads(sub.stdout.readline())
    assert (event["hops"], len(event["path"])) == (2, 3)
    assert (event["path"][0], event["path"][2]) == ("local-1", "local-3")
    up.send_signal(signal.SIGINT)
    assert up.wait(LIMIT_S) == 130


def test_up_takes_any_graph_from_a_file(shell: Shell, tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    graph.write_text("north east  # a hill between\neast south\n")
    up = shell.start(
        "up",
        "--topology",
        str(graph),
        "--listen",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        until="Plait is up at plait://",
    )
    assert up.stdout is not None
    page = re.search(r"plait topo --url (\S+)", "".join(iter(up.stdout.readline, "Ctrl-C ends it.\n")))
    assert page
    drawn = wait_for(lambda: shell.run("topo", "--url", page[1]).stdout, lambda drawn: drawn.count("─") == 4)
    assert {line.split()[0] for line in drawn.splitlines() if "─" not in line} == {"north", "east", "south"}
    up.send_signal(signal.SIGTERM)
    up.wait(LIMIT_S)


def wait_for(look: Callable[[], str], right: Callable[[str], bool]) -> str:
    """Poll until an observation is right, and return it."""
    end = time.monotonic() + LIMIT_S
    while not right(seen := look()):
        assert time.monotonic() < end, seen
    return seen


def test_up_when_killed_takes_its_children_along(shell: Shell) -> None:
    up = shell.start("up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", until="Plait is up at plait://")
    children = Path(f"/proc/{up.pid}/task/{up.pid}/children").read_text().split()
    assert len(children) == 2, "a broker, and the analysis of its telemetry"
    with ExitStack() as stack:
        opened = [stack.enter_context(os.fdopen(os.pidfd_open(int(child)))) for child in children]
        up.kill()
        up.wait(LIMIT_S)
        for child in opened:
            assert select.select([child], [], [], LIMIT_S)[0], "a child outlived `plait up`"


def test_bench_measures_and_loses_nothing(shell: Shell) -> None:
    done = shell.run("bench", "latency", "--own", "--rate", "500", "--count", "300", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["mode"], result["lost"], result["subscribers"][0]["received"]) == ("latency", 0, 300)
    assert 0 < result["subscribers"][0]["latency_us"]["p50"] <= result["subscribers"][0]["latency_us"]["p99"]


def test_doctor_prints_ok_warn_or_fail(shell: Shell) -> None:
    done = shell.run("doctor", "--json")
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert {finding["state"] for finding in findings} <= {"ok", "warn", "fail"}
    assert done.returncode == int(any(finding["state"] == "fail" for finding in findings))
    assert {"python", "index", "multicast", "clock", "sqlite", "port 4680"} <= {f["check"] for f in findings}


@pytest.mark.parametrize(
    ("example", "output"),
    [("request_reply", "12 squared is 144\n"), ("typed_events", "boiler-2 in the cellar: 84.0 °C\n")],
)
def test_examples(shell: Shell, broker: subprocess.Popen[str], example: str, output: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{example}.py"],
        capture_output=True, text=True, env=shell.environment, timeout=LIMIT_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


def test_the_first_steps_are_those_of_the_readme() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    assert (EXAMPLES / "first_steps.py").read_text() in readme
