"""`plait gen prometheus` and `plait gen grafana` query only existing metrics, and each alert has a section to read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from checkout import ROOT
from click.testing import CliRunner

from plait.commands.gen.dashboards import DASHBOARDS
from plait.commands.gen.grafana import grafana_files
from plait.commands.gen.prometheus import ScrapeTarget, prometheus_files
from plait.commands.gen.rules import ALERTS, LOST, RECORDINGS
from plait.commands.root import plait
from plait_broker import drop_reasons
from plait_broker.drop_reasons import DropReason
from plait_lab.documents.metric_names import metrics_of_a_broker

NAME = re.compile(r"\b((?:plait|process)_[a-z0-9_]+)")
QUERIES = {
    f"{dashboard.name}: {panel.title}": query
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    for query, _ in panel.queries
}
QUERIES |= {record.name: record.query for record in RECORDINGS} | {alert.name: alert.query for alert in ALERTS}


async def test_queries_ask_for_what_there_is(tmp_path: Path) -> None:
    there = {sample for metric in await metrics_of_a_broker(tmp_path) for sample in metric.samples}
    recorded = {record.name for record in RECORDINGS}
    for place, query in QUERIES.items():
        left = re.sub(r"broker:[a-z_:0-9]+", lambda found: "" if found[0] in recorded else found[0], query)
        assert "broker:" not in left, f"{place} asks for a recording that is not made"
        missing = set(NAME.findall(left)) - there
        assert not missing, f"{place} asks for {missing}"


def test_every_drop_is_either_a_loss_or_asked_for() -> None:
    asked_for = {"duplicate", "stale", "expired", "not_allowed", "draining", "unmatched", "late", "forbidden"}
    asked_for |= {"bad_tags", "discarded"}
    assert set(LOST.split("|")) | asked_for == set(DropReason)
    assert not set(LOST.split("|")) & asked_for
    assert set(LOST.split("|")) == drop_reasons.LOST, "the page and the alerts mean the same by lost"


def test_every_alert_has_its_section() -> None:
    page = (ROOT / "docs/reference/alerts.md").read_text()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [alert.name for alert in ALERTS]


def test_panels_lie_side_by_side() -> None:
    for name, text in grafana_files().items():
        if name.endswith(".json"):
            cells = [
                (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
                for panel in json.loads(text)["panels"]
                for x in range(panel["gridPos"]["w"])
                for y in range(panel["gridPos"]["h"])
            ]
            assert len(set(cells)) == len(cells), name
            assert max(x for x, _ in cells) < 24, name


def test_files_are_written_once(tmp_path: Path) -> None:
    for command in (["prometheus", "--target", "north=10.0.0.1:4681"], ["grafana"], ["compose", "--brokers", "3"]):
        output = tmp_path / command[0]
        asked = ["gen", *command, "--output", str(output)]
        first = CliRunner().invoke(plait, asked)
        assert first.exit_code == 0
        assert {Path(line) for line in first.stdout.split()} == {p for p in output.rglob("*") if p.is_file()}
        again = CliRunner().invoke(plait, asked)
        assert (again.exit_code, "--replace" in again.stderr) == (1, True)
        assert CliRunner().invoke(plait, [*asked, "--replace"]).exit_code == 0


def test_mounted_files_are_written_next_to_compose_files(tmp_path: Path) -> None:
    assert CliRunner().invoke(plait, ["gen", "compose", "--output", str(tmp_path)]).exit_code == 0
    mounted = set(re.findall(r'"\./([\w/]+):/', (tmp_path / "compose.yaml").read_text()))
    assert {"keys", "examples", "prometheus"} <= mounted
    assert all((tmp_path / place).is_dir() for place in mounted)
    assert "broker-5:4681" in (tmp_path / "prometheus/prometheus.yml").read_text()


@pytest.mark.parametrize("target", ["north", "a b=1.2.3.4:1", "http://10.0.0.1:4681", "=10.0.0.1:4681"])
def test_a_target_is_an_address(tmp_path: Path, target: str) -> None:
    ran = CliRunner().invoke(plait, ["gen", "prometheus", "--target", target, "--output", str(tmp_path)])
    assert ran.exit_code == 2


def test_token_and_tls_are_in_the_configuration() -> None:
    text = prometheus_files([ScrapeTarget("north", "n:4681")], "/run/secrets/token", tls=True)["prometheus.yml"]
    assert "scheme: https" in text
    assert 'credentials_file: "/run/secrets/token"' in text
