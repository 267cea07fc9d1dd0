"""`plait up` records telemetry, so that /analytics has tables, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import plait_analytics

PLAIT = [sys.executable, "-m", "plait"]
LIMIT_S = 120
"""Timeout for processes that import Arrow and DuckDB on a busy machine."""

pytestmark = pytest.mark.timeout(3 * LIMIT_S)


@contextmanager
def up(home: Path, *options: str, **environment: str) -> Iterator[dict[str, Any]]:
    """Run `plait up` on any ports with `home` as the directory for temporary files; yield what it prints of itself."""
    (home / "tmp").mkdir(exist_ok=True)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PLAIT_")}
    settings |= {"TMPDIR": str(home / "tmp"), "XDG_CONFIG_HOME": "/nonexistent", **environment}
    command = [*PLAIT, "up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json", *options]
    with (home / "stderr").open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=settings)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline() or "{}")
        assert process.poll() is None, (home / "stderr").read_text()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)


def analytics(broker: dict[str, Any], path: str = "") -> Any:
    with urllib.request.urlopen(f"http://{broker['http']}/api/v1/analytics{path}") as response:
        return json.load(response)


def wait_for(right: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not right():
        assert time.monotonic() < end
        time.sleep(0.2)


def publish(broker: dict[str, Any], count: int) -> None:
    command = [*PLAIT, "pub", "--url", f"plait://{broker['listen']}", "n=1", "--count", str(count)]
    subprocess.run([*command, "--confirm", "broker"], check=True, capture_output=True, timeout=LIMIT_S)


def published(broker: dict[str, Any]) -> int:
    """Return the events that the served tables count."""
    if "brokers" not in analytics(broker)["tables"]:
        return 0
    page = analytics(broker, "/brokers")
    place = [column["name"] for column in page["columns"]].index("published")
    return sum(row[place] for row in page["rows"])


def test_tables_of_a_local_broker_are_served_and_follow_it(tmp_path: Path) -> None:
    with up(tmp_path) as broker:
        publish(broker, 30)
        wait_for(lambda: published(broker) == 30)
        publish(broker, 5)
        wait_for(lambda: published(broker) == 35)
        assert len(list((tmp_path / "tmp").glob("plait-telemetry-*"))) == 1
    wait_for(lambda: not list((tmp_path / "tmp").iterdir()))


def test_telemetry_is_kept_where_the_user_says(tmp_path: Path) -> None:
    with up(tmp_path, "--telemetry", str(tmp_path / "kept")) as broker:
        publish(broker, 30)
        wait_for(lambda: published(broker) == 30)
    assert sum(plait_analytics.read(tmp_path / "kept" / "tables", "brokers")["published"].to_pylist()) == 30
    assert not list((tmp_path / "tmp").iterdir())


def test_telemetry_can_be_off(tmp_path: Path) -> None:
    with up(tmp_path, "--telemetry", "off") as broker:
        publish(broker, 3)
        assert analytics(broker)["tables"] == {}
        assert not list((tmp_path / "tmp").iterdir())


def test_without_the_analytics_distribution_the_broker_runs_and_a_line_says_so(tmp_path: Path) -> None:
    """A module that hides the entry point stands for an environment in which the distribution is not installed."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(
        "from importlib import metadata\n"
        "every = metadata.entry_points\n"
        "metadata.entry_points = lambda **given: [p for p in every(**given) if p.name != 'analyze']\n"
    )
    with up(tmp_path, PYTHONPATH=str(tmp_path / "hidden")) as broker:
        publish(broker, 3)
        assert analytics(broker)["tables"] == {}
        lines = (tmp_path / "stderr").read_text().splitlines()
        assert "/analytics stays empty: pip install plait-analytics fills it" in lines
        assert not list((tmp_path / "tmp").iterdir())
