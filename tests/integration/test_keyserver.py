"""The key server as its operator and its clients see it: processes, files, certificates, and rejected strangers."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import ssl
import stat
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from key_servers import PASSPHRASE, enrolled, key_server, realm_directory
from processes import broker_process, port_to_keep

from plait_core import parse
from plait_core.space import IntRange
from plait_crypto import Draft, KeyMissing, Keyring, Numbers, OneOf, Sealer, Unopenable
from plait_crypto.keyserver import Refusal
from plait_crypto.keyserver.limits import REQUEST_BYTES_MAX
from plait_keyserver import KeyClient, KeyDirectory, Membership
from plait_keyserver.certificates import CertificateAuthority, key_pem, new_key, request_for
from plait_keyserver.client import Identity, Unreachable
from plait_keyserver.commands.keys import keys

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
        with pytest.raises(Refusal, match="only holders with a certificate"):
            await stranger.realm()
        with pytest.raises(Refusal, match="only holders with a certificate"):
            await stranger.subscriber_keys(directory.open(PASSPHRASE).realm, parse("area < 8"), 0)
        await stranger.enrol(token)
        now = await stranger.realm()
        another = KeyClient([("127.0.0.1", port)], authority)
        with pytest.raises(Refusal):
            await another.enrol(token)
        assert await stranger.subscriber_keys(now.realm, parse("area < 8"), 0)


async def test_certificates_of_another_authority_are_refused_by_both_sides(directory: KeyDirectory) -> None:
    now_us = time.time_ns() // 1000
    others, key = CertificateAuthority.new(now_us), new_key()
    forged = Identity(key_pem(key), others.certify_holder("bob", request_for(key), now_us).certificate)
    async with key_server(directory) as port:
        authority = (directory.path / "authority.pem").read_text()
        with pytest.raises(Unreachable):
            await KeyClient([("127.0.0.1", port)], authority, forged).realm()
        with pytest.raises(Unreachable):
            await KeyClient([("127.0.0.1", port)], others.certificate).realm()
        assert await (await enrolled(directory, "bob", port)).realm(), "it serves on"


async def test_a_request_is_for_a_key_alone(directory: KeyDirectory) -> None:
    """A holder gets the name that its token was made for, not the name that it requests."""
    authority = CertificateAuthority.new(time.time_ns() // 1000)
    for request in ("", "nonsense", authority.certificate):
        with pytest.raises(Exception, match="no certificate request"):
            authority.certify_holder("bob", request, 0)


async def test_only_p256_keys_are_certified() -> None:
    authority = CertificateAuthority.new(time.time_ns() // 1000)
    for key in (ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP256K1())):
        with pytest.raises(Exception, match="no certificate request"):
            authority.certify_holder("bob", request_for(key), 0)
    assert authority.certify_holder("bob", request_for(new_key()), 0)


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


async def test_oversized_requests_and_lost_connections_do_no_harm(directory: KeyDirectory) -> None:
    async with key_server(directory) as port:
        context = ssl.create_default_context(cafile=str(directory.path / "authority.pem"))
        for sent in (b"x" * (2 * REQUEST_BYTES_MAX), b"", b"half a line"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(sent)
            if sent:
                await writer.drain()
            if len(sent) > REQUEST_BYTES_MAX:
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


async def test_keys_are_renewed_when_the_server_comes_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The key server is down when keys of the next epoch are due. Members retry until it answers, then read on."""
    directory = realm_directory(tmp_path / "one", TREES, POLICY, epoch_s=8.0, overlap_s=4.0)
    port = port_to_keep(random.SystemRandom())
    async with AsyncExitStack() as joined:
        async with key_server(directory, port):
            members = [
                await joined.enter_async_context(await Membership.join(await enrolled(directory, holder, port)))
                for holder in ("alice", "bob")
            ]
            sealing, opening = await members[0].publisher("area < 64"), await members[1].subscriber("area < 16")
            first = max(opening.epochs())
        async with asyncio.timeout(60):
            while "retrying" not in caplog.text:  # noqa: ASYNC110 - only the log shows it
                await asyncio.sleep(0.05)
        assert max(opening.epochs()) == first
        before = opening.deposit()
        told = asyncio.Event()
        opening.watchers.append(told.set)
        async with key_server(directory, port), asyncio.timeout(90):
            await told.wait()
            assert max(opening.epochs()) > first
            assert opening.deposit() not in (b"", before), "brokers are given the new keys' routing part"
            while True:
                try:
                    clear, payload = await sealing.seal(Draft({"area": 3}, b"again"))
                    opened = await opening.open(clear, payload)
                    if opened.epoch > first:
                        break
                except (KeyMissing, Unopenable):  # one of them has no keys of this epoch yet
                    pass
                await asyncio.sleep(0.05)
        assert opened.payload == b"again"
        assert not members[0].refused
        assert not members[1].refused


async def test_a_membership_closes_in_the_turn_in_which_its_realm_changes(directory: KeyDirectory) -> None:
    """A renewal that is woken and cancelled in one turn must not go on."""
    async with key_server(directory) as port:
        for turns in range(4):
            member = await Membership.join(await enrolled(directory, "bob", port))
            await member.subscriber("area < 16")
            await asyncio.sleep(0)
            changed, member._changed = member._changed, asyncio.Event()
            changed.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(20):
                await member.close()


async def test_sealed_events_at_the_prompt(directory: KeyDirectory, tmp_path: Path) -> None:
    """`plait keys join`, then `plait sub --unseal` and `plait pub --seal`, over a real broker."""

    async def plait(*arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "plait", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )

    async def join(holder: str) -> str:
        token, folder = tmp_path / f"{holder}.token", str(tmp_path / holder)
        token.write_text(directory.make_token(holder, time.time_ns() // 1000))
        where = ["--server", f"localhost:{port}", "--ca", str(directory.path / "authority.pem")]
        done = await asyncio.to_thread(CliRunner().invoke, keys, ["join", folder, *where, "--token-file", str(token)])
        assert done.exit_code == 0, done.output
        return folder

    async with key_server(directory) as port, broker_process("--listen", "127.0.0.1:0", "--http", "off") as broker:
        await broker.ready()
        alice, bob = await join("alice"), await join("bob")
        at = ("--url", f"plait://127.0.0.1:{broker.port}")
        hearing = await plait("sub", "area < 8", "--unseal", bob, "--count", "2", "--wait", "60", "--json", *at)
        assert hearing.stderr is not None
        assert await asyncio.wait_for(hearing.stderr.readline(), 60) == b"subscribed\n"
        for area, more in (("9", ()), ("3", ()), ("4", ("--no-session",))):
            what = (f"area={area}", "--payload", f"secret {area}", *more)
            publishing = await plait("pub", *what, "--seal", alice, "--grant", "area < 64", *at)
            _, err = await asyncio.wait_for(publishing.communicate(), 60)
            assert publishing.returncode == 0, err
        out, err = await asyncio.wait_for(hearing.communicate(), 90)
        assert hearing.returncode == 0, err
        heard = [json.loads(line) for line in out.splitlines()]
        assert [(each["attributes"], each["payload"]) for each in heard] == [
            ({"area": 3}, "secret 3"),
            ({"area": 4}, "secret 4"),
        ]
        assert all(int(each["sealed_by"], 16) for each in heard)
        refused = await plait("sub", "area < 8", "--unseal", str(tmp_path), *at)
        _, err = await refused.communicate()
        assert (refused.returncode, b"is not a member's folder" in err) == (1, True)


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
        assert (code, "no filter under 'subscribe' of bob" in said) == (1, True), said
        code, said = await asyncio.to_thread(ask, "area < 8", "--token-file", str(token))
        assert (code, "the token is unknown, used or too old" in said) == (1, True), said
        code, said = await asyncio.to_thread(ask, "area <")
        assert (code, "^" in said) == (2, True), "wrong use, shown where"
    assert stat.S_IMODE(identity.stat().st_mode) == stat.S_IMODE(out.stat().st_mode) == 0o600
    shown = json.loads(CliRunner().invoke(keys, ["show", str(out)]).output)
    assert (shown["kind"], shown["epoch"]) == ("subscriber", 0)


def test_the_vault_and_its_folder_contain_no_plain_text(directory: KeyDirectory) -> None:
    secrets = directory.open(PASSPHRASE)
    master = secrets.master.encode()
    for path in directory.path.iterdir():
        held = path.read_bytes()
        assert master not in held
        assert b"PRIVATE KEY" not in held
