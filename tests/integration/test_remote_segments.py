"""A broker's segments over HTTP: latest, read, commit, and `plait analyze` with its address."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from scripted import client_of, running

from plait_analytics import take_inventory
from plait_analytics.commands.analyze import analyze
from plait_analytics.records import remote
from plait_analytics.records.remote import Copy, RemoteError, Source, pulling
from plait_broker.clients.access import Keyring, Principal
from plait_broker.server.config.configuration import Access, Configuration
from plait_broker.server.endpoints import Endpoint
from plait_broker.server.server import BrokerServer
from plait_broker.settings import BrokerSettings
from plait_core.telemetry import RECORD_BYTES, parse_segment_name
from plait_telemetry.readers import AWAY_S_MAX, READERS_MAX, ReaderError, Readers
from plait_telemetry.recording import TelemetryConfig
from plait_telemetry.writer import SegmentLimits, SegmentWriter

ANY = Endpoint("127.0.0.1", 0)
EVENTS = 200


def configured(directory: Path, **limits: float) -> Configuration:
    place = TelemetryConfig(directory, limits=SegmentLimits(**limits))  # type: ignore[arg-type]
    return Configuration(BrokerSettings(name="north"), ANY, ANY, telemetry=place)


@asynccontextmanager
async def busy(configuration: Configuration, events: int = EVENTS) -> AsyncIterator[tuple[BrokerServer, str]]:
    """Run a broker that has delivered a number of events."""
    async with running(configuration) as server:
        await deliver(server, events)
        yield server, f"http://127.0.0.1:{server.http_port}"


async def deliver(server: BrokerServer, events: int, publisher: int = 2) -> None:
    async with (
        client_of(server, "subscriber", publisher + 100) as subscriber,
        client_of(server, "publisher", publisher) as source,
    ):
        await subscriber.subscribe("n >= 0", 1)
        await source.send_bytes(b"".join(source.published({"n": n}) for n in range(events)))
        for _ in range(events):
            await subscriber.delivered()


def same(there: Path, here: Path) -> bool:
    """Return whether a copy is complete."""
    names = {path.name for path in there.iterdir() if path.suffix in (".seg", ".jsonl")}
    return bool(names) and all((here / name).exists() and (here / name).read_bytes() == (there / name).read_bytes()
                               for name in names)  # fmt: skip


async def until_same(server: BrokerServer, there: Path, copy: Copy) -> None:
    """Pull until all current records are copied. The writer's thread may lag."""
    records = server.facts()["telemetry"]["records"]
    async with asyncio.timeout(60):
        while not same(there, copy.directory) or recorded(there) < records:
            await asyncio.to_thread(copy.pull)


def recorded(directory: Path) -> int:
    """Return the number of records of a broker's newest incarnation."""
    segments = take_inventory([directory]).segments
    return sum(each.records for each in segments if each.header.started_us == segments[-1].header.started_us)


async def test_a_copy_follows_a_broker_and_its_next_life(tmp_path: Path) -> None:
    there = tmp_path / "there" / "broker-north"
    async with busy(configured(tmp_path / "there", bytes_max=1 << 16)) as (server, address):
        copy = Copy(Source.parse(address), tmp_path / "cache", "night")
        assert await asyncio.to_thread(copy.pull) > 0
        await deliver(server, EVENTS, 3)
        await until_same(server, there, copy)
        place = await asyncio.to_thread(lambda: json.loads((there / "readers.json").read_text())["night"])
        newest = max(path.name for path in there.glob("*.seg"))
        assert place[:2] == [newest, (there / newest).stat().st_size // RECORD_BYTES - 1]
        torn = copy.directory / newest
        os.truncate(torn, torn.stat().st_size - 100)  # killed while it wrote
        anew = Copy(Source.parse(address), tmp_path / "cache", "night")
        await until_same(server, there, anew)
        records = take_inventory([anew.directory]).records
    async with busy(configured(tmp_path / "there")) as (server, address):
        again = Copy(replace(Source.parse(address), address=address), tmp_path / "cache", "")
        again.directory = anew.directory  # its port is another now
        await until_same(server, there, again)
    assert take_inventory([again.directory]).records > records


async def test_a_segment_that_has_just_begun_is_committed_as_empty(tmp_path: Path) -> None:
    there = tmp_path / "there" / "broker-north"
    async with busy(configured(tmp_path / "there")) as (_, address):
        begun = there / f"{time.time_ns() // 1000 + 10**9:016}-000000.seg"
        begun.touch()
        copy = Copy(Source.parse(address), tmp_path / "cache", "night")
        assert await asyncio.to_thread(copy.pull) > 0
        place = await asyncio.to_thread(lambda: json.loads((there / "readers.json").read_text())["night"])
    assert place[:2] == [begun.name, 0]


async def test_tables_of_a_broker_elsewhere_are_those_of_its_directory(tmp_path: Path) -> None:
    there = tmp_path / "there" / "broker-north"
    async with busy(configured(tmp_path / "there")) as (server, address):
        await until_same(
            server, there, Copy(Source.parse(address), tmp_path / "cache", "")
        )  # all events are there by now
        arguments = [address, "--cache", str(tmp_path / "cache"), "--json"]
        said = await asyncio.to_thread(CliRunner().invoke, analyze, arguments)
        assert said.exit_code == 0, said.output
    here = json.loads(said.stdout)
    itself = json.loads(CliRunner().invoke(analyze, [str(tmp_path / "there"), "--json"]).stdout)
    assert (here["deliveries"], here["audited"], here["missing"]) == (EVENTS, EVENTS, 0)
    assert {key: here[key] for key in ("events", "deliveries", "dropped", "audited", "accounted", "missing")} == {
        key: itself[key] for key in ("events", "deliveries", "dropped", "audited", "accounted", "missing")
    }
    lost = CliRunner().invoke(analyze, arguments)
    assert lost.exit_code == 1
    assert "no answer from" in lost.output


async def test_a_thread_follows_the_segments_and_reports_a_failure_once(tmp_path: Path) -> None:
    told: list[str] = []
    there = tmp_path / "there" / "broker-north"
    async with busy(configured(tmp_path / "there"), 10) as (server, address):
        copy = Copy(Source.parse(address), tmp_path / "cache", "live")
        with pulling([copy], 0.05, told.append):
            await deliver(server, EVENTS, 3)
            async with asyncio.timeout(60):
                while not same(there, copy.directory):  # noqa: ASYNC110 - files cannot be awaited
                    await asyncio.sleep(0.02)
            await server.stop()
            async with asyncio.timeout(60):
                while not told:  # noqa: ASYNC110 - nor do threads
                    await asyncio.sleep(0.02)
    assert len(told) == 1
    assert "no answer from" in told[0]


async def test_reading_segments_needs_the_right_to_all_events(tmp_path: Path) -> None:
    keyring = Keyring.of_tokens([("let-me-in", Principal("all"))])
    everywhere = Endpoint("0.0.0.0", 0)
    configuration = replace(configured(tmp_path), http=everywhere, access=Access(keyring))
    async with running(configuration) as server:
        address = f"http://127.0.0.1:{server.http_port}"
        with pytest.raises(RemoteError, match="401"):
            await asyncio.to_thread(Copy(Source.parse(address), tmp_path / "cache", "").pull)
        named = Source.parse(address.replace("//", "//let-me-in@"))
        assert named == Source.parse(address, "let-me-in")
        assert "let-me-in" not in repr(named)
        await asyncio.to_thread(Copy(named, tmp_path / "cache", "r").pull)


async def test_only_telemetry_files_are_served(tmp_path: Path) -> None:
    there = tmp_path / "broker-north"
    async with (
        busy(configured(tmp_path), 3) as (_, address),
        httpx.AsyncClient(base_url=address, trust_env=False) as browser,
    ):
        (there / "secret.txt").write_text("secret")
        (there / "1111111111111111-000001.seg").symlink_to(there / "secret.txt")
        for name in ("secret.txt", "readers.json", "..%2fsecret", "1111111111111111-000001.seg", "%00.seg", "x" * 3000):
            assert (await browser.get(f"/api/v1/telemetry/{name}")).status_code == 404, name
        segments: list[str] = []
        async with asyncio.timeout(60):  # the writer's thread has its own pace
            while not segments:
                listed = (await browser.get("/api/v1/telemetry")).json()["files"]
                segments = [name for name in listed if parse_segment_name(name) and not name.startswith("1111")]
        assert "schema-1.json" in listed
        segment = max(segments)
        whole = (await browser.get(f"/api/v1/telemetry/{segment}")).content
        part = (await browser.get(f"/api/v1/telemetry/{segment}", params={"offset": 64, "limit": 64})).content
        assert whole[64:128] == part
        assert (await browser.get(f"/api/v1/telemetry/{segment}", params={"offset": 2**40})).content == b""
        for wrong in ({"offset": "-1"}, {"limit": str((4 << 20) + 1)}, {"offset": "x"}):
            assert (await browser.get(f"/api/v1/telemetry/{segment}", params=wrong)).status_code == 400
        good = {"reader": "r", "segment": segment, "records": "1"}
        for wrong in ({"reader": "../x"}, {"reader": ""}, {"segment": "x"}, {"records": "-1"}):
            assert (await browser.post("/api/v1/telemetry/commit", params=good | wrong)).status_code == 400
        assert (await browser.get("/api/v1/telemetry/commit", params=good)).status_code in (404, 405)
        assert (await browser.post("/api/v1/telemetry/commit", params=good)).json() == {
            "segment": segment,
            "records": 1,
        }
        page = await browser.post("/api/v1/telemetry/commit", params=good, headers={"origin": "https://elsewhere"})
        assert page.status_code == 403
        back = await browser.post("/api/v1/telemetry/commit", params=good | {"records": "0"})
        assert back.json()["records"] == 1, "a reader never goes back"
        assert (await browser.get("/api/v1/telemetry")).json()["readers"] == {"r": {"segment": segment, "records": 1}}


async def test_a_broker_without_telemetry_refuses_with_the_reason(tmp_path: Path) -> None:
    configuration = replace(configured(tmp_path), telemetry=None)
    async with running(configuration) as server:
        with pytest.raises(RemoteError, match="--telemetry DIR"):
            await asyncio.to_thread(Copy(Source.parse(f"http://127.0.0.1:{server.http_port}"), tmp_path, "").pull)


@pytest.mark.parametrize("text", ["http://", "http://h:99999", "http://h:0", "http://h/path", "https://h?x=1"])
def test_invalid_addresses_are_refused(text: str) -> None:
    assert remote.is_remote(text)
    with pytest.raises(RemoteError):
        Source.parse(text)


def test_addresses_are_read() -> None:
    assert Source.parse("http://north") == Source("http://north:4681")
    assert Source.parse("https://[::1]:80/", "t") == Source("https://[::1]:80", "t")
    assert Source.parse("http://a%40b@h:1").token == "a@b"
    assert Source.parse("http://h:1").folder == "h-1"


# --- what is kept for whom --------------------------------------------------------------------------------------------


def segments_of(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.seg"))


def test_read_segments_are_deleted_first_and_unread_ones_are_counted(tmp_path: Path) -> None:
    readers = Readers(tmp_path)
    (tmp_path / "0000000000000001-000000.seg").write_bytes(bytes(6 * RECORD_BYTES))  # of an earlier life
    readers.commit("a", "0000000000000001-000000.seg", 1)
    limits = SegmentLimits(bytes_max=6 * RECORD_BYTES, budget_bytes=20 * RECORD_BYTES)
    segments = SegmentWriter(tmp_path, 1, 2, limits, readers)
    segments.open()

    def fill(count: int) -> None:
        for _ in range(count):
            segments.write([memoryview(bytes(5 * RECORD_BYTES))], 0.0)

    fill(2)  # each with header and seal is seven records long
    assert len(segments_of(tmp_path)) == 3
    fill(1)
    assert segments_of(tmp_path)[0] == "0000000000000002-000001.seg", "the budget holds"
    assert readers.unread_deleted == 2
    readers.commit("a", segments_of(tmp_path)[-1], 0)
    fill(1)
    assert readers.unread_deleted == 2


def test_readers_are_remembered_and_few(tmp_path: Path) -> None:
    now = 1000.0
    name = "0000000000000001-00000{}.seg".format
    readers = Readers(tmp_path, lambda: now)
    for number in range(READERS_MAX + 3):
        now += 1
        readers.commit(f"r{number}", name(5), 1)
    again = Readers(tmp_path, lambda: now)
    assert sorted(again.positions()) == sorted(f"r{number}" for number in range(3, READERS_MAX + 3))
    assert not again.read_by_all(name(5))
    assert again.read_by_all(name(4))
    now += AWAY_S_MAX + 1
    assert again.positions() == {}, "no segment waits for an absent reader"
    assert again.read_by_all(name(9))
    with pytest.raises(ReaderError):
        again.commit("x", "../../etc/passwd", 0)
    (tmp_path / "readers.json").write_text('{"a": 1}')
    assert Readers(tmp_path).positions() == {}


def test_a_copy_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"0000000000000001-{number:06d}.seg": 1000 for number in range(10)}
    monkeypatch.setattr(Copy, "_json", lambda self, path: {"files": files | {"../x": 5, "a.seg": "no"}})
    monkeypatch.setattr(Copy, "_request", lambda self, path, method="GET": bytes(1000))
    copy = Copy(Source("http://h:1"), tmp_path, "", bytes_max=3500)
    assert copy.pull() == 3000
    assert segments_of(copy.directory) == sorted(files)[-3:]
    files["0000000000000001-000010.seg"] = 1000
    assert copy.pull() == 1000
    assert segments_of(copy.directory) == sorted(files)[-3:]
    assert copy.pull() == 0
