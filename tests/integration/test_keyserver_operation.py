"""A key server in operation: under load, after revocations, with epochs that end early and a rotated master secret."""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from key_servers import PASSPHRASE, enrolled, key_server, realm_directory
from processes import port_to_keep

from plait_core import parse
from plait_core.space import IntRange
from plait_crypto import Draft, Numbers, SealError, Unopenable
from plait_crypto.keyserver import Refusal
from plait_keyserver import Identity, KeyDirectory, KeyService, Membership
from plait_keyserver.commands.keys import keys
from plait_keyserver.folders import folder_client, make_folder
from plait_keyserver.server.service import CONNECTIONS_MAX, CONNECTIONS_PER_CALLER_MAX
from plait_lab.benchmarks.measurement.sealed.key_server_load import run_load

TREES = {"area": Numbers(IntRange(0, 127))}
POLICY = """
[holders.alice]
publish = ["true"]
[holders.bob]
subscribe = ["area < 16"]
[holders.mallory]
subscribe = ["area < 16"]
"""


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(keys, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


def audit(directory: KeyDirectory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory.path / "audit.jsonl").read_text().splitlines()]


# --- load -------------------------------------------------------------------------------------------------------------


async def test_strangers_that_take_all_connections_give_way(tmp_path: Path) -> None:
    """Eight addresses have as many connections as the server takes. A holder is served all the same."""
    directory = realm_directory(tmp_path / "realm", TREES, POLICY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    strangers: list[asyncio.StreamWriter] = []

    async def occupy(number: int) -> None:
        here = (f"127.0.0.{number}", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=here)
        strangers.append(writer)

    async with key_server(directory) as port:
        holder = await enrolled(directory, "bob", port)
        for number in range(2, 2 + CONNECTIONS_MAX // CONNECTIONS_PER_CALLER_MAX):
            for _ in range(CONNECTIONS_PER_CALLER_MAX // 16):
                await asyncio.gather(*(occupy(number) for _ in range(16)))
        assert len(strangers) == CONNECTIONS_MAX
        assert (await holder.realm()).realm
        for writer in strangers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in strangers), return_exceptions=True)


async def test_garbage_and_a_large_request_do_not_stop_other_holders() -> None:
    found = await run_load(2500, garbage_s=1.0)
    assert found.others_s
    assert max(found.others_s) < found.large_s / 2, "it is answered long before the large request"
    assert found.garbage > 500
    assert found.audit_lines < found.garbage / 10
    assert found.grown_bytes < 16 * 2**20


@asynccontextmanager
async def service_of(directory: KeyDirectory) -> AsyncIterator[KeyService]:
    """Serve a directory in this process."""
    service = KeyService(directory, directory.open(PASSPHRASE))
    await service.start("127.0.0.1", 0)
    try:
        yield service
    finally:
        await service.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - only the service's state shows it
            await asyncio.sleep(0.01)


async def test_an_abandoned_request_is_dropped_with_its_connection(tmp_path: Path) -> None:
    directory = realm_directory(tmp_path / "realm", TREES, POLICY.replace("area < 16", "true"))
    filter = parse(" or ".join(f"area == {each}" for each in range(0, 128, 2)))
    async with service_of(directory) as service:
        bob = await enrolled(directory, "bob", service.port)
        realm = (await bob.realm()).realm
        for _ in range(5):
            asking = asyncio.create_task(bob.subscriber_keys(realm, filter, 0))
            await until(lambda: len(service._turns) > 0)
            asking.cancel()
            await until(lambda: len(service._turns) == 0 and not service._connections)
        assert not service._open
        assert await bob.subscriber_keys(realm, parse("area < 8"), 0)
    outcomes = {line["outcome"]: line.get("count", 0) for line in audit(directory)}
    assert outcomes["abandoned"], "it is counted"


async def test_connections_of_one_address_are_bounded(tmp_path: Path) -> None:
    directory = realm_directory(tmp_path / "realm", TREES, POLICY)
    async with service_of(directory) as service, AsyncExitStack() as open_ones:
        bob = await enrolled(directory, "bob", service.port)
        context = ssl.create_default_context(cafile=str(directory.path / "authority.pem"))
        for _ in range(CONNECTIONS_PER_CALLER_MAX + 5):
            _, writer = await asyncio.open_connection("127.0.0.1", service.port, ssl=context)
            open_ones.callback(writer.close)
        await until(lambda: len(service._connections) == CONNECTIONS_PER_CALLER_MAX)
        assert await bob.realm()


# --- revocation -------------------------------------------------------------------------------------------------------


async def test_an_earlier_certificate_is_revoked_alone(tmp_path: Path) -> None:
    directory = realm_directory(tmp_path / "realm", TREES, POLICY)
    async with key_server(directory) as port:
        stolen, present = await enrolled(directory, "bob", port), await enrolled(directory, "bob", port)
        serials = [line["certificate"] for line in audit(directory) if line["asked"] == "Enrol"]
        assert len(set(serials)) == 2
        run("revoke", str(directory.path), "bob", "--certificate", serials[0])
        with pytest.raises(Refusal, match="bob is revoked, or not in the policy"):
            await stolen.realm()
        assert await present.subscriber_keys((await present.realm()).realm, parse("area < 8"), 0)
        assert await enrolled(directory, "bob", port), "its name stays good"
    assert audit(directory)[-1]["holder"] == "bob"
    assert "its certificate is revoked" in {line.get("why") for line in audit(directory)}
    assert "no serial number" in run("revoke", str(directory.path), "bob", "--certificate", "xyz", code=1)
    whole = json.loads(run("audit", "verify", str(directory.path), "--json"))
    assert whole["ok"]
    assert whole["head"] in run("audit", "verify", str(directory.path), "--head", whole["head"])
    text = (directory.path / "audit.jsonl").read_text()
    (directory.path / "audit.jsonl").write_text(text.replace("granted", "refused", 1))
    assert "line 2 does not continue line 1" in run("audit", "verify", str(directory.path), code=1)
    broken = json.loads(run("audit", "verify", str(directory.path), "--json", code=1))
    assert (broken["ok"], "line 2" in broken["error"]) == (False, True)


async def test_an_early_end_of_the_epoch_stops_a_revoked_holder(tmp_path: Path) -> None:
    """An epoch has an hour. The revoked holder reads for one overlap of some seconds."""
    directory = realm_directory(tmp_path / "realm", TREES, POLICY, epoch_s=3600.0, overlap_s=4.0)
    async with key_server(directory) as port, AsyncExitStack() as joined:
        alice, bob, mallory = [
            await joined.enter_async_context(await Membership.join(await enrolled(directory, holder, port)))
            for holder in ("alice", "bob", "mallory")
        ]
        sealing = await alice.publisher("true")
        opening, reading = await bob.subscriber("area < 16"), await mallory.subscriber("area < 16")

        async def opens(number: int) -> list[str]:
            clear, payload = await sealing.seal(Draft({"area": 3}, b"event %d" % number))
            reasons = []
            for ring in (opening, reading):
                try:
                    await ring.open(clear, payload)
                    reasons.append("")
                except Unopenable as error:
                    reasons.append(error.why)
            return reasons

        assert await opens(0) == ["", ""]
        run("revoke", str(directory.path), "mallory")
        run("epoch", "end", str(directory.path))
        number, found = 0, ["", ""]
        async with asyncio.timeout(60):
            while found[1] == "":
                number += 1
                found = await opens(number)
                assert found[0] == "", "the others lose nothing"
                await asyncio.sleep(0.05)
        assert found[1] == "stale_epoch", "it is not told of the end"
        assert opening.epochs() == {0, 1}
        assert reading.epochs() == {0}
        async with asyncio.timeout(60):
            while not mallory.refused:  # noqa: ASYNC110 - a task of the membership sets it
                await asyncio.sleep(0.05)


# --- rotation ---------------------------------------------------------------------------------------------------------


async def test_members_follow_a_rotation_and_lose_nothing(tmp_path: Path) -> None:
    directory = realm_directory(tmp_path / "realm", TREES, POLICY, epoch_s=3600.0, overlap_s=6.0)
    word, port = str(tmp_path / "passphrase"), port_to_keep(random.SystemRandom())
    async with AsyncExitStack() as joined:
        async with key_server(directory, port):
            alice, bob = [
                await joined.enter_async_context(await Membership.join(await enrolled(directory, holder, port)))
                for holder in ("alice", "bob")
            ]
            sealing, opening = await alice.publisher("true"), await bob.subscriber("area < 16")
            old = sealing.realm
        run("rotate", str(directory.path), "--passphrase-file", word)
        assert "not over" in run("rotate", str(directory.path), "--passphrase-file", word, code=1)
        async with key_server(directory, port):
            number, realms = 0, []
            async with asyncio.timeout(90):
                while opening.realms[0].digest == old.digest:
                    number += 1
                    clear, payload = await sealing.seal(Draft({"area": 3}, b"event %d" % number))
                    realms.append(sealing.realm)
                    opened = await opening.open(clear, payload)
                    assert opened.payload == b"event %d" % number
                    await asyncio.sleep(0.05)
            assert [realm is old for realm in realms] == sorted((realm is old for realm in realms), reverse=True)
            assert opening.realms == (bob.realm,)
            assert bob.realm.digest == alice.realm.digest != old.digest
            assert bob.realm.digest == directory.open(PASSPHRASE).realm.digest
            late = await joined.enter_async_context(await Membership.join(await enrolled(directory, "mallory", port)))
            clear, payload = await sealing.seal(Draft({"area": 3}, b"the last"))
            assert (await (await late.subscriber("area < 16")).open(clear, payload)).payload == b"the last"


def test_a_directory_shows_early_ends_and_rotations(tmp_path: Path) -> None:
    directory, word = realm_directory(tmp_path / "realm", TREES, POLICY), str(tmp_path / "passphrase")

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run("show", str(directory.path), "--passphrase-file", word))
        return found

    before = shown()
    assert "former" not in before
    run("epoch", "end", str(directory.path))
    ended = shown()
    assert (ended["epoch"], ended["epoch_ends_us"] < before["epoch_ends_us"]) == (before["epoch"], True)
    run("rotate", str(directory.path), "--passphrase-file", word)
    after = shown()
    assert (after["former"], after["realm"] != before["realm"]) == (before["realm"], True)
    assert after["epoch_ends_us"] == before["epoch_ends_us"], "the new realm's epochs do not end early"


def test_a_rotation_at_once_drops_the_old_secret(tmp_path: Path) -> None:
    directory = realm_directory(tmp_path / "realm", TREES, POLICY)
    before, word = directory.open(PASSPHRASE), str(tmp_path / "passphrase")
    run("rotate", str(directory.path), "--passphrase-file", word)
    kept = directory.open(PASSPHRASE)
    assert kept.former is not None
    assert kept.former.realm.digest == before.realm.digest
    assert [served.begins_us for served in kept.served()] == [0, kept.begins_us]
    assert directory.change_passphrase(PASSPHRASE, PASSPHRASE, kept.former.ends_us - 1).former is not None
    assert directory.change_passphrase(PASSPHRASE, PASSPHRASE, kept.former.ends_us).former is None
    assert directory.open(PASSPHRASE).realm.digest == kept.realm.digest
    run("rotate", str(directory.path), "--passphrase-file", word, "--at-once")
    assert directory.open(PASSPHRASE).former is None


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def wide_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.usefixtures("wide_umask")
async def test_files_with_secrets_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    directory = realm_directory(tmp_path / "realm", TREES, "")
    (directory.path / "policy.toml").unlink()
    directory._write("policy.toml", POLICY)
    run("enrol", str(directory.path), "bob", "--out", str(tmp_path / "bob.token"))
    run("revoke", str(directory.path), "mallory")
    run("epoch", "end", str(directory.path))
    directory.audit({"number": 1})
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    assert {name: mode for name, mode in modes(directory.path).items() if mode != 0o600} == {"authority.pem": 0o644}
    folder = tmp_path / "bob"
    make_folder(folder, [("localhost", 1)], "authority", Identity("key", "-----BEGIN CERTIFICATE-----"))
    assert set(modes(folder).values()) == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    existing = tmp_path / "identity.pem"
    existing.write_text("")
    existing.chmod(0o666)
    Identity("key", "-----BEGIN CERTIFICATE-----").save(existing)
    assert {modes(tmp_path)[name] for name in ("identity.pem", "bob.token")} == {0o600}
    assert Identity.load(existing).key == "key"


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    directory = realm_directory(tmp_path / "realm", TREES, POLICY)
    folder = tmp_path / "bob"
    make_folder(folder, [("localhost", 1)], "authority", Identity("key", "-----BEGIN CERTIFICATE-----"))
    for path in (directory.path, folder):
        path.chmod(0o770)
    with pytest.raises(SealError, match="others may write"):
        directory.open(PASSPHRASE)
    with pytest.raises(SealError, match="others may write"):
        folder_client(folder)
    with pytest.raises(SealError, match="others may write"):
        make_folder(folder, [("localhost", 1)], "authority", Identity("key", "-----BEGIN CERTIFICATE-----"))
