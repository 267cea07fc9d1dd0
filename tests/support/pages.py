"""Executes the documentation: runs the commands of a page and compares their output with the page.

    python tests/support/pages.py docs/tutorial.md          executes one page

    ```console                   `$ command`, or `north$ command`, and its output. … stands for any text, on a line of
                                 its own for any lines. The exit code is 0, and the lines appear in this order.
    ```console exit=2            a command with this exit code
    ```console background=sub    a command in the background. Its name is that of the prompt, if there is one.
                                 ```text from=sub is its output since. <!-- stop sub --> is Ctrl-C, <!-- kill sub -->
                                 is kill -9.
    ```python later              a program that needs a later block: it runs last, and again if the machine was busy
    ```python                    a program. ```text after it is its output. file=NAME saves it.
    ```toml file=NAME            another language: a file, if it has a name
    ```console needs=prometheus  skipped without Prometheus. needs=docker runs in the checkout, in this network, as a
                                 separate project, with docker-compose where `docker compose` is missing.

Each page runs in an empty directory, where it can be in a network of its own, so that addresses are as printed.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_S = 120.0
"""Timeout of one command, or of its expected output, on a busy machine."""

ADDRESSES = [f"10.0.0.{host}" for host in range(1, 7)]
"""Addresses of a page's network besides loopback: the hosts of examples."""

CHECKOUT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w+)?([^\n]*)\n(.*?)^```$|^<!-- (stop|kill) (\w+) -->$", re.MULTILINE | re.DOTALL)
_LOOK = re.compile(r"(docker compose .*)?plait (ls|topo|route|why)\b")
_PROMPT = re.compile(r"([a-z0-9-]*)\$ (.*)")


class Wrong(AssertionError):
    """A page shows output that differs from the actual output."""


@dataclass(frozen=True)
class Block:
    """A part of a page to execute."""

    line: int
    language: str
    text: str
    options: dict[str, str]

    @property
    def needs(self) -> str:
        return self.options.get("needs", "")


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks and directives of a page in order."""
    text = page.read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found[4]:
            yield Block(line, found[4], found[5], {})
            continue
        options = dict(option.partition("=")[::2] for option in (found[2] or "").split())
        yield Block(line, found[1] or "", found[3], options)


def typed(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the commands of a console block: host, command, expected lines."""
    commands: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        found = _PROMPT.match(line)
        if commands and commands[-1][1].endswith("\\") and not commands[-1][2]:
            host, command, shown = commands[-1]
            commands[-1] = (host, command[:-1] + " " + line.strip(), shown)
        elif found is not None:
            commands.append((found[1], found[2], []))
        elif commands:
            commands[-1][2].append(line)
        else:
            raise Wrong(f"a console block begins with {line!r}, and no command")
    return iter(commands)


def unseen(shown: list[str], lines: list[str]) -> list[str]:
    """Return the expected lines that are not printed in this order. … stands for anything."""
    at, loose = 0, True
    for number, expected in enumerate(shown):
        if expected.strip() in ("…", ""):
            loose = True
            continue
        pattern = ".*".join(re.escape(part) for part in re.split(r" ?… ?", _even(expected)))
        here = range(at, len(lines) if loose else min(at + 1, len(lines)))
        found = next((place for place in here if re.fullmatch(pattern, _even(lines[place]))), None)
        if found is None:
            return shown[number:]
        at, loose = found + 1, False
    return []


def _even(line: str) -> str:
    """Replace runs of spaces by one, because the width of a table's columns varies."""
    return re.sub(r"\s+", " ", line).strip()


@dataclass
class Going:
    """A command in the background."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    read: int = 0

    def __post_init__(self) -> None:
        self.collector = threading.Thread(target=self._collect, daemon=True)
        self.collector.start()

    def prints(self, shown: list[str]) -> None:
        """Wait until it has printed the expected lines."""
        until = time.monotonic() + PATIENCE_S
        while rest := unseen(shown, self.lines[self.read :]):
            if time.monotonic() > until or not self.collector.is_alive():
                if not unseen(shown, self.lines[self.read :]):
                    break
                raise Wrong(f"does not print {rest[0]!r}, but\n" + "\n".join(self.lines[self.read :]))
            time.sleep(0.02)
        self.read = len(self.lines)

    def _collect(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))


class Reader:
    """Executes a page."""

    def __init__(self, page: Path, home: Path, need: str) -> None:
        self.page = page
        self.home = home
        self.need = need
        self.going: dict[str, Going] = {}
        self.printed: list[str] = []
        """Output of the previous program."""
        (home / "bin").mkdir()
        for name, module in (("plait", "-m plait "), ("python", ""), ("python3", "")):
            script = home / "bin" / name
            script.write_text(f'#!/bin/sh\nexec {sys.executable} {module}"$@"\n')
            script.chmod(0o755)
        (home / "work").mkdir()
        self.place = CHECKOUT if need == "docker" else home / "work"
        self.environment = {
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": str(home), "COLUMNS": "110", "NO_COLOR": "1",
            "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        if need == "docker":
            self._take_docker()

    def read(self) -> None:
        """Execute all blocks of the page."""
        try:
            for block in sorted(blocks(self.page), key=lambda block: "later" in block.options):
                if block.needs == self.need or (not block.needs and self.need != "docker"):
                    try:
                        self._do(block)
                    except (Wrong, subprocess.TimeoutExpired) as error:
                        raise Wrong(f"{self.page.name}:{block.line}: {error}") from None
            for name in list(self.going):
                self._stop(name)
        finally:
            for left in self.going.values():
                os.killpg(left.process.pid, signal.SIGKILL)
                left.process.wait()

    def _take_docker(self) -> None:
        """Set a separate Compose project and address, and find the Compose command of this machine."""
        self.environment |= {"COMPOSE_PROJECT_NAME": "plait-pages", "PLAIT_BIND": "127.0.46.82"}
        docker, old = shutil.which("docker"), shutil.which("docker-compose")
        if (
            docker is None
            or old is None
            or not subprocess.run([docker, "compose", "version"], capture_output=True).returncode
        ):
            return
        script = self.home / "bin" / "docker"
        script.write_text(f'#!/bin/sh\n[ "$1" != compose ] || {{ shift; exec {old} "$@"; }}\nexec {docker} "$@"\n')
        script.chmod(0o755)

    def _do(self, block: Block) -> None:
        if block.language in ("stop", "kill"):
            self._stop(block.text, signal.SIGKILL if block.language == "kill" else signal.SIGINT)
        elif "background" in block.options:
            self._start(block)
        elif block.language == "console":
            for _, command, shown in typed(block.text):
                (self._look if _LOOK.match(command) else self._type)(
                    command, shown, int(block.options.get("exit", "0"))
                )
        elif block.language == "python":
            name = block.options.get("file", "program.py")
            (self.home / "work" / name).write_text(block.text)
            self._run(f"python {name}", int(block.options.get("exit", "0")), "later" in block.options)
        elif block.language == "text" and "from" in block.options:
            self._named(block.options["from"]).prints(block.text.splitlines())
        elif block.language == "text" and "drawn" not in block.options:
            rest = unseen(block.text.splitlines(), self.printed)
            if rest:
                raise Wrong(f"the program does not print {rest[0]!r}, but\n" + "\n".join(self.printed))
        elif "file" in block.options:
            (self.home / "work" / block.options["file"]).write_text(block.text)

    def _run(self, command: str, code: int, again: bool) -> None:
        for patience_s in (5.0, 10.0, 20.0) if again else ():
            try:
                return self._type(command, [], code, patience_s)
            except subprocess.TimeoutExpired:
                continue
        return self._type(command, [], code)

    def _look(self, command: str, shown: list[str], code: int) -> None:
        """Repeat a command that only displays state until it prints the expected lines. Discovery takes a moment."""
        deadline = time.monotonic() + PATIENCE_S / (1 if self.need == "docker" else 4)
        while True:
            try:
                return self._type(command, shown, code)
            except Wrong:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _type(self, command: str, shown: list[str], code: int, patience_s: float = PATIENCE_S) -> None:
        with self._begun(command, self.place) as process:
            try:
                out, _ = process.communicate(timeout=patience_s)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        self.printed = out.splitlines()
        if process.returncode != code:
            raise Wrong(f"{command}\nends with {process.returncode}, not {code}:\n{out}")
        rest = unseen(shown, self.printed)
        if rest:
            raise Wrong(f"{command}\ndoes not print {rest[0]!r}, but\n{out}")

    def _begun(self, command: str, place: Path) -> subprocess.Popen[str]:
        """Start a command in its own session, so that all of its processes can be ended."""
        return subprocess.Popen(
            ["sh", "-c", command], cwd=place, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def _start(self, block: Block) -> None:
        started: list[tuple[Going, str, list[str]]] = []
        for host, command, shown in typed(block.text):
            process = self._begun(f"exec {command}", self.home / "work")
            going = self.going[host or block.options["background"]] = Going(process)
            started.append((going, command, shown))
        for going, command, shown in started:
            try:
                going.prints(shown)
            except Wrong as error:
                raise Wrong(f"{command}\n{error}") from None

    def _stop(self, name: str, with_what: signal.Signals = signal.SIGINT) -> None:
        going = self._named(name)
        os.killpg(going.process.pid, with_what)
        code = going.process.wait(PATIENCE_S)
        del self.going[name]
        if with_what is signal.SIGINT and code not in (0, 130, -signal.SIGINT):
            raise Wrong(f"{name}, interrupted, ends with {code}:\n" + "\n".join(going.lines))

    def _named(self, name: str) -> Going:
        if name not in self.going:
            raise Wrong(f"nothing called {name} goes on")
        return self.going[name]


# --- a network of its own ---------------------------------------------------------------------------------------------


def networks_can_be_made() -> bool:
    """Return whether this user may create network namespaces."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    return not subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode


def alone(command: list[str]) -> list[str]:
    """Return the command with a prefix that runs it in its own network namespace."""
    return ["unshare", "-rn", *command]


def plug_in() -> None:
    """Set up the loopback and the example hosts' addresses of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for number, address in enumerate(["127.0.0.1", *ADDRESSES]):
            name = f"lo:{number}".encode() if number else b"lo"
            place = struct.pack("16sH2s4s8x", name, socket.AF_INET, b"", socket.inet_aton(address))
            fcntl.ioctl(any_socket, 0x8916, place)  # SIOCSIFADDR
            fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", name, 0x1 | 0x40 | 0x1000))  # SIOCSIFFLAGS: up


@contextmanager
def dying_with_parent() -> Iterator[None]:
    """End the executing process when its test is cancelled."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    yield


def main(page: str, need: str = "") -> None:
    if "PLAIT_PAGE_ALONE" in os.environ:
        plug_in()
    with dying_with_parent(), tempfile.TemporaryDirectory() as home:
        try:
            Reader(Path(page), Path(home), need).read()
        except Wrong as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
