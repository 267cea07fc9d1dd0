"""`plait broker` as its operator sees it: a process, its ready line, its log, its signals and its exit codes."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import sys
from pathlib import Path

import pytest
from processes import broker_process
from scripted import ScriptedClient

from plait_core.wire import Close, Confirm
from plait_core.wire.frame_types.session_frames import Code, Receipt

ANY = ("--listen", "127.0.0.1:0", "--http", "off")
CANARY = "canary-0123456789-secret"

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])  # the loop under test is the child's


async def test_ready_then_sigterm_then_zero(tmp_path: Path) -> None:
    async with broker_process(*ANY, "--name", "north", "--data", tmp_path / "log") as broker:
        await broker.ready()
        assert (broker.name, broker.http) == ("north", "off")
        async with await ScriptedClient.connect(broker.port) as client:
            await client.hello()
            await client.subscribe("true")
            await client.publish({"n": 1}, confirm=Confirm.BROKER)
            assert {type(await client.next_frame()) for _ in range(2)} >= {Receipt}
            broker.signal(signal.SIGTERM)
            closed = await client.expect(Close)
            assert (closed.code, closed.retryable) == (Code.DRAINING, True)
        code, out, err = await broker.ended()
    assert (code, out) == (0, "")
    assert "SIGTERM: stopping" in err
    assert "Traceback" not in err
    for line in err.splitlines():
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (INFO|WARNING|ERROR) \w+: ", line), line


async def test_a_later_second_signal_ends_it_at_once() -> None:
    async with broker_process(*ANY) as broker:
        await broker.ready()
        async with await ScriptedClient.connect(broker.port) as deaf:
            await leave_unread(deaf)
            broker.signal(signal.SIGINT)
            await broker.says("SIGINT: stopping")
            async with asyncio.timeout(60):
                while broker.process.returncode is None:
                    broker.signal(signal.SIGINT)
                    await asyncio.sleep(0.1)
            code, _, err = await broker.ended()
    assert code == 1
    assert "second stop signal" in err


async def test_a_signal_that_is_sent_twice_counts_once() -> None:
    """`timeout` signals the process, and then its group."""
    async with broker_process(*ANY) as broker:
        await broker.ready()
        async with await ScriptedClient.connect(broker.port) as slow:
            await leave_unread(slow)
            broker.signal(signal.SIGTERM)
            await broker.says("SIGTERM: stopping")
            broker.signal(signal.SIGTERM)
            assert len(await slow.hung_up()) > 1000 * 10_000, "the queue is delivered before the end"
        code, _, err = await broker.ended()
    assert code == 0
    assert "second stop signal" not in err


async def leave_unread(client: ScriptedClient) -> None:
    """Give the broker more to deliver than a socket takes, so that it cannot stop before the client reads."""
    await client.hello()
    await client.subscribe("true")
    for n in range(1000):
        await client.publish({"n": n}, bytes(10_000))


async def test_sighup_reads_the_configuration_again_and_keeps_the_old_one_when_it_is_bad(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("[access]\ntoken = 'first-first'")
    async with broker_process(*ANY, "--config", file) as broker:
        await broker.ready()

        async def lets_in(token: str) -> bool:
            async with await ScriptedClient.connect(broker.port) as client:
                await client.say_hello(token=token)
                return not isinstance(await client.next_frame(), Close)

        async def reloaded(said: str) -> None:
            broker.signal(signal.SIGHUP)
            assert broker.process.stderr is not None
            async with asyncio.timeout(10):
                while said not in (await broker.process.stderr.readline()).decode():
                    pass

        assert await lets_in("first-first")
        file.write_text("[access]\ntoken = 'second-second'\nlisten = 3")
        await reloaded("the configuration is unchanged")
        assert await lets_in("first-first")
        file.write_text("[access]\ntoken = 'second-second'")
        await reloaded("the configuration was reloaded")
        assert await lets_in("second-second")
        assert not await lets_in("first-first")
        broker.signal(signal.SIGTERM)
        code, _, err = await broker.ended()
    assert code == 0
    assert "second-second" not in err


async def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with broker_process("--listen", f"127.0.0.1:{port}", "--http", "off") as broker:
            code, out, err = await broker.ended()
    assert (code, out) == (1, "")
    assert err == (
        f"plait broker: cannot listen on 127.0.0.1:{port}: Address already in use "
        "(another program listens there, perhaps another broker: choose another port, or 0 for any)\n"
    )


async def test_a_data_directory_in_use(tmp_path: Path) -> None:
    async with broker_process(*ANY, "--data", tmp_path) as first:
        await first.ready()
        async with broker_process(*ANY, "--data", tmp_path) as second:
            code, out, err = await second.ended()
    assert (code, out) == (1, "")
    assert "in use by another broker" in err
    assert "Traceback" not in err


async def test_wrong_use_is_exit_code_2(tmp_path: Path) -> None:
    cases: list[tuple[list[str | Path], str]] = [
        (["--listen", "nowhere"], "plait broker: --listen: listen: is written HOST:PORT"),
        (["--config", tmp_path / "none.toml"], "No such file"),
        (["--token-file", "/dev/null"], "plait broker: --token-file: access.token_file: a token is 8 to"),
        (["--link", "h"], "plait broker: --link: overlay.links: is written HOST:PORT"),
        (["--no-such"], "No such option"),
    ]
    for arguments, text in cases:
        async with broker_process(*arguments) as broker:
            code, out, err = await broker.ended()
        assert (code, out) == (2, ""), err
        assert text in err


async def test_a_generated_token_is_printed_once_on_stderr() -> None:
    async with broker_process("--listen", "0.0.0.0:0", "--http", "off") as broker:
        await broker.ready()
        async with await ScriptedClient.connect(broker.port) as stranger:
            await stranger.say_hello()
            assert (await stranger.refused()).code == Code.AUTH
        broker.signal(signal.SIGHUP)
        assert broker.process.stderr is not None
        heard = ""
        async with asyncio.timeout(10):
            while "was reloaded" not in heard:
                heard += (await broker.process.stderr.readline()).decode()
        (token,) = re.findall(r"^    (\S+)$", heard, re.MULTILINE)
        assert token not in broker.ready_line
        async with await ScriptedClient.connect(broker.port) as friend:
            await friend.hello(token=token)
        broker.signal(signal.SIGTERM)
        code, out, err = await broker.ended()
    assert code == 0
    shown = [line for line in heard.splitlines() if token in line]
    assert len(shown) == 3, "alone, in how to connect, in how to ask by HTTP"
    assert not any(re.match(r"\d{4}-", line) for line in shown), "the log does not have it"
    assert token not in out + err


async def test_json_for_programs() -> None:
    async with broker_process(*ANY, "--json") as broker:
        assert broker.process.stdout is not None
        line = await asyncio.wait_for(broker.process.stdout.readline(), 20)
        ready = json.loads(line)
        assert (ready["ready"], ready["name"], ready["http"]) == (True, "broker", "off")
        broker.signal(signal.SIGTERM)
        code, _, err = await broker.ended()
    assert code == 0
    assert {json.loads(line)["level"] for line in err.splitlines()} == {"info"}


async def test_secrets_and_hostile_names_stay_out_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(CANARY)
    async with broker_process(*ANY, "--token-file", tmp_path / "token", "--log-level", "debug") as broker:
        await broker.ready()
        async with await ScriptedClient.connect(broker.port) as client:
            await client.hello("evil\n2026-01-01 00:00:00.000 INFO server: all is well", token=CANARY)
            await client.send(Close("bye\nFORGED line\x1b[2J"))
            await client.hung_up()
        async with await ScriptedClient.connect(broker.port) as stranger:
            await stranger.say_hello(token=f"{CANARY}-wrong")
            await stranger.refused()
        broker.signal(signal.SIGTERM)
        code, out, err = await broker.ended()
        arguments = Path(f"/proc/{broker.process.pid}/cmdline")
        assert not arguments.exists() or CANARY not in arguments.read_text()
    assert code == 0
    assert CANARY not in out + err
    assert "\x1b" not in err
    assert all(re.match(r"\d{4}-\d\d-\d\d ", line) for line in err.splitlines())
    assert not any(line.startswith("FORGED") or "all is well" in line for line in err.splitlines())


FEW_FILES = """
import os, resource
import plait_broker.command as command, plait_broker.server.server as server
command._raise_open_files = lambda: None
server.DESCRIPTORS_RESERVED = -1000          # let the kernel refuse, not the doorkeeper
n = len(os.listdir('/proc/self/fd')) + 40
resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_without_file_descriptors_it_goes_on_for_those_who_are_there(loop: str) -> None:
    prelude = FEW_FILES + ("" if loop == "uvloop" else "command._loop_factory = lambda: None\n")
    async with broker_process("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", prelude=prelude) as broker:
        await broker.ready()
        async with await ScriptedClient.connect(broker.port) as honest:
            await honest.hello("honest", 7)
            await honest.subscribe("true")
            crowd = [await ScriptedClient.connect(broker.port) for _ in range(80)]
            last = crowd[-1]
            refused = await last.refused()
            assert (refused.code, refused.retryable) == (Code.LIMIT, True)
            assert "file descriptors" in refused.message
            await honest.publish({"n": 1})
            assert await honest.delivered() == {"n": 1}
            for client in crowd:
                async with client:
                    pass
            async with asyncio.timeout(10):
                while True:
                    async with await ScriptedClient.connect(broker.port) as late:
                        await late.say_hello("late", 8)
                        if not isinstance(await late.next_frame(), Close):
                            break
                    await asyncio.sleep(0.1)
            await honest.publish({"n": 2})
            assert await honest.delivered() == {"n": 2}
        broker.signal(signal.SIGTERM)
        code, _, err = await broker.ended()
    assert code == 0
    said = [line for line in err.splitlines() if "cannot accept connections" in line]
    assert 1 <= len(said) <= 20, "it logs the failure a limited number of times"
    assert "ulimit -n" in said[0]


async def test_a_low_limit_of_open_files_is_reported_at_startup() -> None:
    prelude = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"
    async with broker_process(*ANY, prelude=prelude) as broker:
        await broker.ready()
        broker.signal(signal.SIGTERM)
        _, _, err = await broker.ended()
    assert "12000 connections are allowed, but open files only for 136 (ulimit -n 200)" in err


async def test_the_module_is_the_command() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plait_broker", "--check-config", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode().startswith("the configuration is valid: name=broker")
