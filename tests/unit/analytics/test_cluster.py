"""`--master spark://...`: a master and a worker compute the tables that one process computes."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import spark
from telemetry_world import World

from plait_analytics import TABLES, Lake

PATIENCE_S = 240
ALONE = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}

pytestmark = pytest.mark.timeout(5 * PATIENCE_S)


@pytest.fixture(autouse=True)
def needs_spark() -> None:
    spark.require()


@contextmanager
def spark_class(name: str, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of Spark's own processes."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    command = [str(Path(spec.origin).parent / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, env=ALONE) as process:
        try:
            yield process
        finally:
            process.kill()


def reported_text(log: Path, pattern: str) -> str:
    """Return the first match of a pattern in a log, waiting for it."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.1)
    return found[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def analyzed(home: Path, out: Path, *options: str) -> dict[str, pa.Table]:
    command = [sys.executable, "-m", "plait", "analyze", "batch", str(home), "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, env=ALONE, check=False)
    assert done.returncode == 0, done.stderr
    return {name: Lake(out).read(name) for name in TABLES}


@pytest.mark.parametrize("events", [60, pytest.param(800, marks=pytest.mark.nightly)])
def test_a_cluster_gives_the_same_tables(tmp_path: Path, events: int) -> None:
    home, port, web = World(4).run(events).write(tmp_path / "telemetry"), str(free_port()), str(free_port())
    master, worker = tmp_path / "master.log", tmp_path / "worker.log"
    with spark_class("master.Master", master, "--host", "127.0.0.1", "--port", port, "--webui-port", web):
        url = reported_text(master, r"spark://127\.0\.0\.1:\d+")
        options = ("--host", "127.0.0.1", "--cores", "2", "--memory", "2g", "--webui-port", str(free_port()))
        with spark_class("worker.Worker", worker, *options, "--work-dir", str(tmp_path / "work"), url):
            reported_text(worker, "Successfully registered with master")
            found = analyzed(home, tmp_path / "cluster", "--engine", "spark", "--master", url)
    expected = analyzed(home, tmp_path / "alone")
    for name in TABLES:
        assert found[name].schema == expected[name].schema
        for column in expected[name].column_names:
            values, others = found[name][column].to_pylist(), expected[name][column].to_pylist()
            exact = expected[name].schema.field(column).type != pa.float64()
            assert values == (others if exact else pytest.approx(others, rel=1e-9, nan_ok=True)), (name, column)


@pytest.mark.parametrize(
    ("master", "why"),
    [("k8s://https://127.0.0.1:1", "Connection refused"), ("nowhere://127.0.0.1:1", "nowhere")],
)
def test_an_unreachable_cluster_is_reported_in_one_line(tmp_path: Path, master: str, why: str) -> None:
    """The Kubernetes client is in the wheel and connects to the configured API server."""
    home = World(4).run(50).write(tmp_path / "telemetry")
    command = [sys.executable, "-m", "plait", "analyze", str(home), "--engine", "spark", "--master", master]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, env=ALONE, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert f"Spark does not start with {master}: " in last
    assert why in last
