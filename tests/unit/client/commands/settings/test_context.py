"""`plait context`: the saved file and its mode, and the broker that a command selects."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from plait.commands.connection.addressing import find_target, http_address
from plait.commands.root import plait
from plait.errors import AddressInvalid
from plait.options.target import Target

SECRET = "a-very-secret-token"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PLAIT_URL", raising=False)
    return tmp_path / "plait" / "contexts.json"


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(plait, ["context", *arguments], input=stdin)


def test_a_saved_context_is_used(home: Path) -> None:
    assert run("add", "lab", "plait://broker.lab:5000").exit_code == 0
    assert find_target(None).url == "plait://127.0.0.1:4680"
    assert run("use", "lab").exit_code == 0
    assert find_target(None) == Target.of("plait://broker.lab:5000", "context lab, in use")
    assert stat.S_IMODE(home.stat().st_mode) == 0o600
    assert run("remove", "lab").exit_code == 0
    assert find_target(None).source == "default"
    assert list(home.parent.iterdir()) == [home]


def test_option_before_variable_before_context_before_default(monkeypatch: pytest.MonkeyPatch) -> None:
    run("add", "lab", "plait://saved", "--use")
    monkeypatch.setenv("PLAIT_URL", "plait://variable")
    assert find_target("plait://option").url == "plait://option:4680"
    assert find_target(None).url == "plait://variable:4680"
    monkeypatch.setenv("PLAIT_URL", "")
    assert find_target(None).url == "plait://saved:4680"


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["plait://broker", "--token", SECRET], ""),
        (["plait://broker", "--token", "-"], f"{SECRET}\n"),
        ([f"plait://{SECRET}@broker"], ""),
    ],
)
def test_tokens_are_kept_and_never_printed(home: Path, arguments: list[str], stdin: str) -> None:
    ran = [run("add", "lab", *arguments, "--use", stdin=stdin), run("list"), run("list", "--json"), run("use", "lab")]
    assert [done.exit_code for done in ran] == [0] * 4
    assert not [done.output for done in ran if SECRET in done.output]
    target = find_target(None)
    assert target.token == SECRET
    assert SECRET not in repr(target)
    assert SECRET in home.read_text()


def test_list_in_json() -> None:
    run("add", "b", "plaits://broker.b", "--http", "broker.b:8080", "--use")
    run("add", "a", "plait://broker.a")
    assert [json.loads(line) for line in run("list", "--json").stdout.splitlines()] == [
        {"name": "a", "url": "plait://broker.a:4680", "http": None, "token": False, "in_use": False},
        {"name": "b", "url": "plaits://broker.b:4680", "http": "broker.b:8080", "token": False, "in_use": True},
    ]


@pytest.mark.parametrize(
    "arguments", [["add", "a b", "plait://x"], ["add", "x", "http://x"], ["use", "nobody"], ["remove", "nobody"]]
)
def test_wrong_use(arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.exit_code == 2
    assert ran.stderr.startswith("Error: ")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"contexts": {"a": {}}}', '{"contexts": {"a": {"url": 1}}}'])
def test_a_damaged_file_is_named(home: Path, text: str) -> None:
    home.parent.mkdir()
    home.write_text(text)
    ran = run("list")
    assert ran.exit_code == 1
    assert str(home) in ran.stderr


def test_http_is_one_port_above_the_url_by_default() -> None:
    assert http_address(Target.of("plait://127.0.0.1:4680", "default")) == "http://127.0.0.1:4681"
    assert http_address(Target.of("plait://[::1]:5000", "--url")) == "http://[::1]:5001"
    saved = replace(Target.of("plait://x:1", "context"), http="y:2")
    assert http_address(saved) == "http://y:2"
    assert http_address(saved, "https://z/") == "https://z"


def test_an_address_that_is_none() -> None:
    with pytest.raises(AddressInvalid):
        find_target("localhost")
