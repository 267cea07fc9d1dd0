"""A real Prometheus scrapes real brokers with the configuration of `plait gen prometheus`.

Every query of rules, alerts and dashboards finds series, and alerts fire when they should.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from processes import BrokerProcess, broker_process, port_to_keep, put_away

import plait
from plait.commands.gen.dashboards import DASHBOARDS
from plait.commands.gen.rules import ALERTS, RECORDINGS

pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="prometheus is not installed: apt-get install prometheus",
)
PATIENCE_S = 60.0
NAMES = ("north", "east", "south")


def queries() -> dict[str, str]:
    """Return all queries, as Grafana sends them for all brokers."""
    panels = {
        f"{page.name}: {panel.title}: {legend}": query.replace("$broker", ".*").replace("$__rate_interval", "1m")
        for page in DASHBOARDS
        for panel in page.panels
        for query, legend in panel.queries
    }
    recorded = {record.name: record.name for record in RECORDINGS}
    return panels | recorded | {alert.name: alert.query for alert in ALERTS}


@asynccontextmanager
async def ring(home: Path) -> AsyncIterator[list[BrokerProcess]]:
    """Run three brokers in a ring, with logs and telemetry."""
    chance = random.SystemRandom()
    ports = [port_to_keep(chance) for _ in NAMES]
    async with AsyncExitStack() as running:
        brokers = [
            await running.enter_async_context(
                broker_process(
                    "--name", name, "--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0",
                    "--data", home / name, "--telemetry", home / "telemetry",
                    *(part for other in ports if other != port for part in ("--link", f"127.0.0.1:{other}")),
                )
            )
            for name, port in zip(NAMES, ports, strict=True)
        ]  # fmt: skip
        for broker in brokers:
            await broker.ready()
        yield brokers


@asynccontextmanager
async def prometheus(directory: Path) -> AsyncIterator[str]:
    """Run Prometheus with this configuration. Yield its address."""
    address = f"127.0.0.1:{port_to_keep(random.SystemRandom())}"
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/tsdb",
            f"--web.listen-address={address}",
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        yield address
    finally:
        process.terminate()
        await process.wait()
        await put_away(process)


def asked(address: str, path: str, **parameters: str) -> list[dict[str, object]]:
    query = urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/{path}?{query}", timeout=PATIENCE_S) as answer:
            data = json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{parameters}: {error.read().decode()}") from None
    except (OSError, ValueError):
        return []  # it starts
    return data["groups"] if path == "rules" else data["result"]


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


def ran(*command: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE_S, check=False)


async def traffic(brokers: list[BrokerProcess], stop: asyncio.Event) -> None:
    """Publish at one broker, with a durable and a delay-bounded subscriber at others."""
    async with (
        plait.connect(f"plait://{brokers[0].listen}", timeout=PATIENCE_S) as publisher,
        plait.connect(f"plait://{brokers[1].listen}", timeout=PATIENCE_S) as near,
        plait.connect(f"plait://{brokers[2].listen}", timeout=PATIENCE_S) as far,
        near.subscribe("n >= 0", within=PATIENCE_S) as bounded,
        far.subscribe("n >= 0", durable="all") as durable,
    ):
        n = 0
        while not stop.is_set():
            await publisher.publish({"n": n}, confirm="broker")
            assert (await anext(bounded))["n"] == n
            assert (await anext(durable))["n"] == n
            n += 1
            await asyncio.sleep(0.02)


@pytest.mark.timeout(180)
async def test_every_query_finds_something(tmp_path: Path) -> None:
    stop = asyncio.Event()
    async with ring(tmp_path) as brokers, asyncio.TaskGroup() as tasks:
        tasks.create_task(traffic(brokers, stop))
        targets = [part for broker in brokers for part in ("--target", f"{broker.name}={broker.http}")]
        home = tmp_path / "prometheus"
        configuration = home / "prometheus.yml"
        writing = [sys.executable, "-m", "plait", "gen", "prometheus", *targets, "--output", str(home)]
        for command in (writing, ["promtool", "check", "config", str(configuration)]):
            done = await asyncio.to_thread(ran, *command)
            assert done.returncode == 0, done.stderr
        configuration.write_text(configuration.read_text().replace("interval: 5s", "interval: 1s"))
        async with prometheus(home) as address:
            wanted = queries()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    while wanted:
                        await asyncio.sleep(0.5)
                        for place, query in list(wanted.items()):
                            if await asyncio.to_thread(asked, address, "query", query=query):
                                del wanted[place]
            except TimeoutError:
                pytest.fail(f"these find nothing: {wanted}")
            groups = await asyncio.to_thread(asked, address, "rules")
        stop.set()
    rules = [rule for group in groups for rule in group["rules"]]  # type: ignore[attr-defined]
    assert len(rules) == len(RECORDINGS) + len(ALERTS)
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, [rule.get("lastError") for rule in rules]


async def test_the_metrics_page_follows_the_conventions(tmp_path: Path) -> None:
    async with ring(tmp_path) as brokers:
        page = await asyncio.to_thread(read, f"http://{brokers[0].http}/metrics")
    checked = await asyncio.to_thread(ran, "promtool", "check", "metrics", given=page)
    assert not [line for line in checked.stderr.decode().splitlines() if line.startswith("plait_")]
    assert checked.returncode in (0, 3), checked.stderr  # 3: warnings on Python's own collectors


FIRES = {
    "BrokerDown": 'up{job="plait", broker="a"}: 0x99',
    "OverlaySplit": 'plait_brokers_known{broker="a"}: 5x99; plait_brokers_reachable{broker="a"}: 3x99',
    "LinkLost": 'plait_links{broker="a"}: 3x10 2x99',
    "LinkSilent": 'plait_link_up{broker="a", neighbour="b"}: 0x99',
    "LinkFull": 'plait_link_full{broker="a", neighbour="b"}: 1x99',
    "RoutesFlapping": 'plait_route_changes_total{broker="a"}: 0+60x99',
    "EventsLost": 'plait_events_dropped_total{broker="a", reason="outbox_items"}: 0+5x99',
    "BoundsMissed": 'plait_events_dropped_total{broker="a", reason="late"}: 0+5x99; '
    'plait_events_late_total{broker="a"}: 0+5x99; plait_events_delivered_total{broker="a"}: 0+95x99',
    "ClientsLoseEvents": 'plait_losing_subscriptions{broker="a"}: 1x99',
    "SlowConsumers": 'plait_slow_consumers{broker="a"}: 2x99',
    "DurableBehind": 'plait_durable_backlog_seconds{broker="a"}: 4000x99',
    "LogFailing": 'plait_log_failing{broker="a"}: 1x99',
    "LogDamaged": 'plait_log_records_damaged_total{broker="a"}: 0x10 1x99',
    "LoopBlocked": 'plait_loop_lag_seconds_bucket{broker="a", le="0.1"}: 0x99; '
    'plait_loop_lag_seconds_bucket{broker="a", le="0.2"}: 0+60x99; '
    'plait_loop_lag_seconds_bucket{broker="a", le="+Inf"}: 0+60x99',
    "Forged": 'plait_overlay_incidents_total{broker="a", incident="forged"}: 0x55 1x99',
    "WrongTokens": 'plait_rejected_total{broker="a", code="auth"}: 0+600x99',
    "TelemetryLost": 'plait_telemetry_lost_total{broker="a"}: 0+1x99',
    "FilesScarce": 'process_open_fds{job="plait", broker="a"}: 95x99; process_max_fds{job="plait", broker="a"}: 100x99',
}


def test_alerts_fire(tmp_path: Path) -> None:
    """Each alert fires at its own fault, and no other alert does."""
    assert list(FIRES) == [alert.name for alert in ALERTS]
    files = ["gen", "prometheus", "--output", str(tmp_path)]
    assert ran(sys.executable, "-m", "plait", *files).returncode == 0
    (tmp_path / "tests.yml").write_text(
        json.dumps(
            {
                "rule_files": ["rules.yml", "alerts.yml"],
                "evaluation_interval": "15s",
                "tests": [_fires(alert.name, alert.severity) for alert in ALERTS],
            }
        )
    )
    tested = ran("promtool", "test", "rules", str(tmp_path / "tests.yml"))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def _fires(name: str, severity: str) -> dict[str, object]:
    """Return a test for promtool. JSON is valid YAML."""
    series = [part.partition(": ") for part in FIRES[name].split("; ")]
    query = f'count(ALERTS{{alertname="{name}", severity="{severity}", alertstate="firing", broker="a"}})'
    others = f'ALERTS{{alertname!="{name}", alertstate="firing"}}'
    return {
        "interval": "30s",
        "input_series": [{"series": metric, "values": values} for metric, _, values in series],
        "promql_expr_test": [
            {"expr": query, "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": 1}]},
            {"expr": others, "eval_time": "30m", "exp_samples": []},
        ],
    }
