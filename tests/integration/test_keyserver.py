"""The key server as its operator and its clients see it: processes, files, certificates, and what strangers get."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import stat
import time
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from key_servers import PASSPHRASE, enrolled, key_server, realm_directory

from plait_core import parse
from plait_core.space import IntRange
from plait_crypto import Draft, Keyring, Numbers, OneOf, Sealer, Unopenable
from plait_crypto.keyserver import Refusal
from plait_crypto.keyserver.limits import ASK_BYTES_MAX
from plait_keyserver import KeyClient, KeyDirectory
from plait_keyserver.certificates import CertificateAuthority, key_pem, new_key, request_for
from plait_keyserver.client import Identity, Unreachable
from plait_keyserver.commands import keys

TREES = {"area": Numbers(IntRange(0, 127)), "side": OneOf.of("buy", "sell")}
POLICY = """
[holders.alice]
publish = ["area < 64"]
[holders.bob]
subscribe = ["area < 16"]
"""


@pytest.fixture
def directory(tmp_path: Path) -> KeyDirectory:
    return realm_directory(tmp_path / "one", TREES, POLICY)


def audit(directory: KeyDirectory) -> list[dict[str, object]]:
    return [json.loads(line) for line in (directory.path / "audit.jsonl").read_text().splitlines()]


async def test_from_a_token_to_an_event_that_opens(directory: KeyDirectory) -> None:
    async with key_server(directory) as port:
        alice, bob = await enrolled(directory, "alice", port), await enrolled(directory, "bob", port)
        now = await alice.realm()
        publishing = await alice.publisher_keys(now.realm, parse("area < 32"), now.epochs[0], 1)
        reading = await bob.subscriber_keys(now.realm, parse("area < 8"), now.epochs[0])
        with pytest.raises(Refusal) as refused:
            await bob.subscriber_keys(now.realm, parse("area < 17"), now.epochs[0])
        assert refused.value.code == "denied"
    sealer, ring, chance = Sealer(now.realm, publishing.publisher), Keyring(now.realm), Random(1)
    sealer.add(publishing)
    ring.add(reading)
    for area, opens in ((7, True), (8, False)):
        draft = Draft({"area": area, "side": "buy"}, b"payload", area)
        sealed = sealer.seal(draft, now_us=now.now_us, randomness=chance)
        if opens:
            opened = ring.open(sealed.clear, sealed.envelope, now_us=now.now_us, randomness=chance)
            assert opened.payload == b"payload"
        else:
            with pytest.raises(Unopenable):
                ring.open(sealed.clear, sealed.envelope, now_us=now.now_us, randomness=chance)
    lines = audit(directory)
    assert [(each["holder"], each["asked"], each["outcome"]) for each in lines] == [
        ("alice", "Enrol", "granted"),
        ("bob", "Enrol", "granted"),
        ("alice", "ShowRealm", "granted"),
        ("alice", "IssueKeys", "granted"),
        ("bob", "IssueKeys", "granted"),
        ("bob", "IssueKeys", "denied"),
    ]
    assert lines[-1]["filter"] == "area < 17"


async def test_tokens_are_good_once_and_strangers_get_nothing(directory: KeyDirectory) -> None:
    async with key_server(directory) as port:
        authority = (directory.path / "authority.pem").read_text()
        token = directory.make_token("bob", time.time_ns() // 1000)
        assert token not in (directory.path / "enrolments.json").read_text()
        stranger = KeyClient([("127.0.0.1", port)], authority)
        now = await stranger.realm()
        with pytest.raises(Refusal):
            await stranger.subscriber_keys(now.realm, parse("area < 8"), 0)
        await stranger.enrol(token)
        another = KeyClient([("127.0.0.1", port)], authority)
        with pytest.raises(Refusal):
            await another.enrol(token)
        assert await stranger.subscriber_keys(now.realm, parse("area < 8"), 0)


async def test_certificates_of_another_authority_are_refused_by_both_sides(directory: KeyDirectory) -> None:
    now_us = time.time_ns() // 1000
    others, key = CertificateAuthority.new(now_us), new_key()
    forged = Identity(key_pem(key), others.certify_holder("bob", request_for(key), now_us))
    async with key_server(directory) as port:
        authority = (directory.path / "authority.pem").read_text()
        with pytest.raises(Unreachable):
            await KeyClient([("127.0.0.1", port)], authority, forged).realm()
        with pytest.raises(Unreachable):
            await KeyClient([("127.0.0.1", port)], others.certificate).realm()
        assert await KeyClient([("127.0.0.1", port)], authority).realm(), "it serves on"


async def test_a_request_is_for_a_key_alone(directory: KeyDirectory) -> None:
    """A holder gets the name that its token was made for, whatever it asks."""
    authority = CertificateAuthority.new(time.time_ns() // 1000)
    for request in ("", "nonsense", authority.certificate):
        with pytest.raises(Exception, match="no certificate request"):
            authority.certify_holder("bob", request, 0)


async def test_revocations_and_policies_count_from_the_next_request_on(directory: KeyDirectory) -> None:
    async with key_server(directory) as port:
        bob = await enrolled(directory, "bob", port)
        now = await bob.realm()
        with pytest.raises(Refusal):
            await bob.subscriber_keys(now.realm, parse("area >= 100"), 0)
        policy = directory.path / "policy.toml"
        policy.write_text(POLICY.replace("area < 16", "true"))
        assert await bob.subscriber_keys(now.realm, parse("area >= 100"), 0)
        policy.write_text("[holders")
        with pytest.raises(Unreachable):
            await bob.subscriber_keys(now.realm, parse("area >= 100"), 0)
        policy.write_text(POLICY)
        assert await bob.subscriber_keys(now.realm, parse("area < 16"), 0)
        assert CliRunner().invoke(keys, ["revoke", str(directory.path), "bob"]).exit_code == 0
        with pytest.raises(Refusal):
            await bob.subscriber_keys(now.realm, parse("area < 16"), 0)


async def test_replicas_issue_keys_of_one_realm(directory: KeyDirectory, tmp_path: Path) -> None:
    copy = tmp_path / "two"
    copy.mkdir()
    for name in ("vault.json", "policy.toml"):
        shutil.copy(directory.path / name, copy / name)
    async with key_server(KeyDirectory(copy)) as second:
        async with key_server(directory) as first:
            bob = await enrolled(directory, "bob", first, second)
            alice = await enrolled(directory, "alice", first, second)
            now = await bob.realm()
            reading = await bob.subscriber_keys(now.realm, parse("area < 8"), 0)
        publishing = await alice.publisher_keys(now.realm, parse("area < 8"), 0, 1)  # the first is gone
        assert (await alice.realm()).realm.digest == now.realm.digest
    sealer, ring = Sealer(now.realm, publishing.publisher), Keyring(now.realm)
    sealer.add(publishing)
    ring.add(reading)
    sealed = sealer.seal(Draft({"area": 3, "side": "buy"}, b"", 1), now_us=now.now_us, randomness=Random(1))
    assert ring.open(sealed.clear, sealed.envelope, now_us=now.now_us, randomness=Random(1))


async def test_connections_that_say_too_much_or_leave_are_no_harm(directory: KeyDirectory) -> None:
    async with key_server(directory) as port:
        context = ssl.create_default_context(cafile=str(directory.path / "authority.pem"))
        for sent in (b"x" * (2 * ASK_BYTES_MAX), b"", b"half a line"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(sent)
            if sent:
                await writer.drain()
            if len(sent) > ASK_BYTES_MAX:
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await asyncio.wait_for(reader.readexactly(1), 10)
            writer.transport.abort()
        bob = await enrolled(directory, "bob", port)
        assert await bob.realm()


def test_the_command_line_from_init_to_rotate(tmp_path: Path, directory: KeyDirectory) -> None:
    schema, word = tmp_path / "schema.json", tmp_path / "passphrase"
    schema.write_text(directory.open(PASSPHRASE).realm.schema.to_json())
    realm = tmp_path / "realm"

    def run(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(keys, list(arguments), env={"PLAIT_KEYS_PASSPHRASE": None})
        assert done.exit_code == code, done.output
        return done.output

    assert "no passphrase" in run("init", str(realm), "--schema", str(schema), code=2)
    run("init", str(realm), "--schema", str(schema), "--passphrase-file", str(word))
    assert "already" in run("init", str(realm), "--schema", str(schema), "--passphrase-file", str(word), code=1)
    assert stat.S_IMODE((realm / "vault.json").stat().st_mode) == 0o600
    before = json.loads(run("show", str(realm), "--passphrase-file", str(word)))
    assert (before["holders"], before["epoch"]) == ([], 0)
    assert "policy" in run("enrol", str(realm), "bob", code=1)
    (realm / "policy.toml").write_text(POLICY)
    assert len(run("enrol", str(realm), "bob").strip()) == 64
    run("revoke", str(realm), "bob")
    assert "revoked" in run("enrol", str(realm), "bob", code=1)
    new = tmp_path / "new"
    new.write_text("another passphrase")
    kept = ("rotate", str(realm), "--passphrase-only", "--passphrase-file", str(word))
    assert before["realm"][:16] in run(*kept, "--new-passphrase-file", str(new))
    assert "does not open" in run("show", str(realm), "--passphrase-file", str(word), code=1)
    run("rotate", str(realm), "--passphrase-file", str(new))
    after = json.loads(run("show", str(realm), "--passphrase-file", str(new)))
    assert after["realm"] != before["realm"]
    assert after["revoked"] == ["bob"]


async def test_keys_are_issued_at_the_prompt(directory: KeyDirectory, tmp_path: Path) -> None:
    token, identity, out = tmp_path / "token", tmp_path / "bob.pem", tmp_path / "bob.keys"
    token.write_text(directory.make_token("bob", time.time_ns() // 1000))

    def ask(filter: str, *more: str) -> tuple[int, str]:
        where = ["--server", f"localhost:{port}", "--ca", str(directory.path / "authority.pem"), "-i", str(identity)]
        done = CliRunner().invoke(keys, ["issue", filter, *where, "--out", str(out), *more])
        return done.exit_code, done.output

    async with key_server(directory) as port:
        code, said = await asyncio.to_thread(ask, "area < 8", "--token-file", str(token))
        assert (code, "subscriber keys" in said) == (0, True), said
        assert (await asyncio.to_thread(ask, "area < 4"))[0] == 0
        code, said = await asyncio.to_thread(ask, "area < 40")
        assert (code, "denied" in said) == (1, True)
    assert stat.S_IMODE(identity.stat().st_mode) == stat.S_IMODE(out.stat().st_mode) == 0o600
    shown = json.loads(CliRunner().invoke(keys, ["show", str(out)]).output)
    assert (shown["kind"], shown["epoch"]) == ("subscriber", 0)


def test_the_vault_and_its_folder_say_nothing_in_the_clear(directory: KeyDirectory) -> None:
    secrets = directory.open(PASSPHRASE)
    master = secrets.master.encode(secrets.realm.parameters.groups)
    for path in directory.path.iterdir():
        held = path.read_bytes()
        assert master not in held
        assert b"PRIVATE KEY" not in held
