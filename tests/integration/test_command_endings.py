"""Exit codes and messages of commands under faults: full disks, closed pipes, no permission, Ctrl-C at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from processes import BrokerProcess, broker_process

PLAIT = [sys.executable, "-m", "plait"]
LIMIT_S = 30

RIGHTS = """
listen = "127.0.0.1:0"
http = "0.0.0.0:0"
[[access.principals]]
name = "reader"
token = "reading-only"
publish = { allow = [] }
subscribe = { allow = ["symbol == 'IBM'"] }
"""


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    (tmp_path / "broker.toml").write_text(RIGHTS)
    async with broker_process("--config", tmp_path / "broker.toml") as process:
        await process.ready()
        yield process


def environment(broker: BrokerProcess | None = None) -> dict[str, str]:
    url = f"plait://reading-only@{broker.listen}" if broker is not None else "plait://127.0.0.1:1"
    return {**os.environ, "PLAIT_URL": url, "XDG_CONFIG_HOME": "/nonexistent"}


def run(*arguments: str, broker: BrokerProcess | None = None, shell: str = "") -> tuple[int, str, str]:
    """Run a command, or a shell line in which $PLAIT is the program."""
    program = ["bash", "-c", shell.replace("$PLAIT", " ".join(PLAIT))] if shell else [*PLAIT, *arguments]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=LIMIT_S, env=environment(broker))
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.returncode, ran.stdout, ran.stderr


async def test_commands_without_permission_fail(broker: BrokerProcess) -> None:
    code, _, said = run("pub", "symbol=IBM", "--count", "3", broker=broker)
    assert (code, "may not publish" in said, "refused 3 events" in said) == (1, True, True)
    code, _, said = run("pub", "symbol=IBM", "--confirm", "broker", broker=broker)
    assert (code, "may not publish" in said) == (1, True)
    for command in (["sub", "symbol == 'MSFT'"], ["adv", "symbol == 'IBM'"]):
        code, _, said = run(*command, broker=broker)
        assert (code, "no rule permits" in said) == (1, True)


async def test_a_token_that_may_not_look(broker: BrokerProcess) -> None:
    http = broker.http.replace("0.0.0.0", "127.0.0.1")
    code, _, said = run("ls", "subs", "--http", http, broker=broker)
    assert (code, "401" in said, "http_token" in said) == (1, True, True)
    code, _, said = run("ls", "subs", "--http", http, "--url", f"plait://{broker.listen}", broker=broker)
    assert (code, "401" in said, "TOKEN@HOST" in said) == (1, True, True)


async def test_the_other_port(broker: BrokerProcess) -> None:
    code, _, said = run("ls", "subs", "--http", broker.listen, broker=broker)
    assert code == 1
    assert all(character.isprintable() for character in said.replace("\n", ""))
    code, _, said = run("pub", "x=1", "--url", f"plait://127.0.0.1:{broker.http.rpartition(':')[2]}")
    assert (code, "no Plait broker" in said) == (1, True)


@pytest.mark.parametrize("address", ["foo:bar", "127.0.0.1:99999", "ftp://x", ":4681", "http://"])
def test_http_addresses_that_are_none(address: str) -> None:
    code, _, said = run("ls", "subs", "--http", address)
    assert (code, "is no HTTP address" in said) == (2, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("command", ["filter check 'x == 1'", "version", "--help", "completion bash"])
def test_a_full_disk(command: str) -> None:
    assert run(shell=f"$PLAIT {command} > /dev/full")[::2] == (
        1, "Error: standard output cannot be written: No space left on device\n",
    )  # fmt: skip


@pytest.mark.parametrize("command", ["filter check 'x == 1'", "version", "--help"])
def test_a_reader_that_has_enough(command: str) -> None:
    assert run(shell=f"$PLAIT {command} | head -0; exit ${{PIPESTATUS[0]}}") == (0, "", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
async def test_closed_streams(broker: BrokerProcess, closed: str) -> None:
    """A socket must not get the descriptor of a closed stream: output would go to the broker, and uvloop aborts."""
    assert run(shell=f"$PLAIT filter check 'x == 1' {closed}")[0] == 0
    assert run(shell=f"$PLAIT sub \"symbol == 'IBM'\" --wait 0.2 {closed}", broker=broker)[0] == 1


@pytest.mark.parametrize("command", [["sub", "true"], ["ls", "subs"], ["filter", "check", "x == 1"], ["demo"]])
def test_an_interrupt_during_startup_prints_nothing(command: list[str]) -> None:
    """Interrupt the program after its first step, because the interpreter's start is not under test."""
    program = "import plait.__main__ as m, os; m._have_standard_streams = lambda: os.write(1, b'.'); m.main()"
    for wait_s in (0.0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08):
        process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.argv[1:] = {command!r}; sys.argv[0] = 'plait'\n{program}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(1) == b"."
        time.sleep(wait_s)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode in (-signal.SIGINT, 130, 0, 1), "interrupted, or it had ended by itself"
        assert b"Traceback" not in said, said.decode()
