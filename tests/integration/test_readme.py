"""The README's programs and commands run as printed; only the port is another, so that tests share a machine."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.partition("#") for line in re.findall(r"^plait .*$", README, re.MULTILINE)]


@pytest.fixture
def broker() -> Iterator[str]:
    """The URL of a real broker, started by the README's own command."""
    command, _, shown = COMMANDS[0]
    assert shown.strip().startswith("ready name=broker listen=127.0.0.1:4680")
    with subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command), "--listen", "127.0.0.1:0", "--http", "off"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        found = re.fullmatch(r"ready name=broker listen=(\S+) http=\S+\n", ready)
        assert found, ready
        yield f"plait://{found[1]}"
        process.terminate()
        assert process.wait(20) == 0


def test_the_first_program_prints_what_it_received(broker: str) -> None:
    program = PROGRAMS[0].replace("plait://localhost:4680", broker)
    assert program != PROGRAMS[0]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert re.fullmatch(r"IBM \d\.\S+ \('broker',\)\n", done.stdout)


def test_the_filter_program_prints_what_it_says() -> None:
    program = PROGRAMS[1]
    expected = "".join(line.removeprefix("# ") + "\n" for line in program.splitlines() if line.startswith("# "))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == expected


def test_the_three_terminals(broker: str) -> None:
    (subscribe, _, told), (publish, _, _) = COMMANDS[1:3]
    listening = [sys.executable, "-m", *shlex.split(subscribe), "--count", "1", "--url", broker]
    with subprocess.Popen(listening, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as subscriber:
        assert subscriber.stderr is not None
        assert subscriber.stderr.readline().strip() == told.strip() == "subscribed"
        subprocess.run([sys.executable, "-m", *shlex.split(publish), "--url", broker], timeout=60, check=True)
        out, _ = subscriber.communicate(timeout=60)
    assert '"attributes": {"symbol": "IBM", "price": 99.5}' in out
    assert subscriber.returncode == 0


def test_the_first_program_is_the_example() -> None:
    assert (ROOT / "examples" / "first_steps.py").read_text() == PROGRAMS[0]
