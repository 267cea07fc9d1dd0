"""The brokers and credentials that the arguments, the environment and the saved contexts select."""

from __future__ import annotations

from pathlib import Path

import pytest

import plait
from plait.options.contexts import Context, Contexts, contexts_file, save_contexts
from plait.options.target import Target, select_target
from plait.options.trust import Trust

SECRET = "a-very-secret-token"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("PLAIT_URL", "PLAIT_CONTEXT", "PLAIT_TOKEN_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def save(in_use: str | None = None, **contexts: Context) -> None:
    save_contexts(Contexts(contexts, in_use))


def test_the_first_that_is_given_is_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def selected(*arguments: str | None) -> tuple[str, str]:
        target = select_target(*arguments, given_by="--url")
        return target.url.removeprefix("plait://"), target.source

    assert selected() == ("127.0.0.1:4680", "default")
    save("used", used=Context("plait://used"), named=Context("plait://named"), given=Context("plait://given"))
    assert selected() == ("used:4680", "context used, in use")
    monkeypatch.setenv("PLAIT_CONTEXT", "named")
    assert selected() == ("named:4680", "context named, by PLAIT_CONTEXT")
    monkeypatch.setenv("PLAIT_URL", "variable:1")
    assert selected() == ("variable:1", "PLAIT_URL")
    assert selected(None, "given") == ("given:4680", "context given")
    assert selected("plait://argument", "given") == ("argument:4680", "--url")


def test_the_first_that_is_given_is_the_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def selected(*arguments: str | None, authenticated: bool = False) -> tuple[str | None, str]:
        target = select_target(*arguments, authenticated=authenticated)
        return target.token, target.token_source

    assert selected() == (None, "")
    save("used", used=Context("plait://used", token="used's"), given=Context("plait://given", token="given's"))
    assert selected() == ("used's", "the context")
    (home / "token").write_text("the file's\n")
    monkeypatch.setenv("PLAIT_TOKEN_FILE", str(home / "token"))
    assert selected() == ("the file's", "PLAIT_TOKEN_FILE")
    assert selected(None, "given") == ("given's", "the context")
    assert selected("plait://argument", "given") == ("given's", "the context")
    assert selected("plait://argument") == ("the file's", "PLAIT_TOKEN_FILE")
    assert selected(authenticated=True) == (None, "auth=")
    assert selected("plait://its@argument", "given", authenticated=True) == ("its", "the URL")


def test_the_context_in_use_gives_its_token_to_no_other_address(monkeypatch: pytest.MonkeyPatch) -> None:
    save("used", used=Context("plaits://used", "used:99", SECRET, "ca.pem", "me.pem", "key.pem"))
    used = select_target()
    assert (used.token, used.http, used.trust) == (SECRET, "used:99", Trust("ca.pem", "me.pem", "key.pem"))
    assert select_target("plait://other") == Target.of("plait://other", "")
    monkeypatch.setenv("PLAIT_URL", "plait://other")
    assert select_target() == Target.of("plait://other", "PLAIT_URL")
    lent = select_target("plait://other", "used")
    assert (lent.token, lent.http, lent.trust) == (SECRET, None, used.trust), "asked for by name"


def test_contexts_and_token_files_are_read_only_if_they_decide(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts_file().parent.mkdir()
    contexts_file().write_text("{")
    monkeypatch.setenv("PLAIT_TOKEN_FILE", str(home / "missing"))
    assert select_target("plait://t@argument").token == "t"
    assert select_target("plait://argument", authenticated=True).token is None
    monkeypatch.setenv("PLAIT_URL", "plait://t@variable")
    assert select_target().token == "t"
    with pytest.raises(plait.ConfigurationInvalid, match="PLAIT_TOKEN_FILE: .*missing"):
        select_target("plait://argument")
    monkeypatch.delenv("PLAIT_URL")
    with pytest.raises(plait.ConfigurationInvalid, match="damaged"):
        select_target()


def test_what_is_not_usable_is_named_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_URL", "http://x")
    with pytest.raises(plait.AddressInvalid, match="^PLAIT_URL: 'http://x' starts with"):
        plait.connect()
    monkeypatch.delenv("PLAIT_URL")
    save(lab=Context("plait://lab"))
    monkeypatch.setenv("PLAIT_CONTEXT", "lba")
    with pytest.raises(plait.AddressInvalid, match=r"no context 'lba' \(from PLAIT_CONTEXT\)") as failed:
        plait.connect()
    assert failed.value.hint == "saved are: lab"
    with pytest.raises(plait.AddressInvalid, match=r"no context 'other' \(saved"):
        plait.connect(context="other")
    with pytest.raises(plait.Error, match="context=3"):
        plait.connect(context=3)  # type: ignore[arg-type]


def test_several_addresses_keep_their_tokens(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "token").write_text("the file's")
    monkeypatch.setenv("PLAIT_TOKEN_FILE", str(home / "token"))
    target = select_target(["plait://its@one", "plait://two"])
    assert [address.token for address in target.addresses] == ["its", None]
    assert target.token == "the file's"
    assert [target.token_origin(address) for address in target.addresses] == [
        " (the token is from the URL)",
        " (the token is from PLAIT_TOKEN_FILE)",
    ]


async def test_a_failed_connection_names_the_source_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_URL", "127.0.0.1:1")
    with pytest.raises(plait.ConnectionLost, match=r"127\.0\.0\.1:1.*\(from PLAIT_URL\)"):
        await plait.connect(reconnect=False)
    with pytest.raises(plait.ConnectionLost) as failed:
        await plait.connect("127.0.0.1:1", reconnect=False)
    assert "from" not in failed.value.message
