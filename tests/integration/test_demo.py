"""`plait demo` runs and checks itself, and leaves no files or processes behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

DEMO = [sys.executable, "-m", "plait", "demo", "--seconds", "2"]


def test_the_demo_checks_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--json"], capture_output=True, text=True, timeout=280, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    verdict, analysis = told[-2:]
    assert (verdict["kind"], verdict["ok"], verdict["faults"]) == ("verdict", True, [])
    assert (analysis["kind"], analysis["brokers"]) == ("analysis", 6)
    assert analysis["events"] == verdict["published"], "what the brokers recorded is what was published"
    assert verdict["published"] > 20
    assert verdict["filtered_out"] > 0
    assert {item["listener"] for item in told if item["kind"] == "result"} >= {"nyse-ledger", "slow-screen"}
    assert any(item["kind"] == "journey" and not item["matches"] and item["why"] for item in told)
    ways = {
        when: [item for item in told if item["kind"] == "way" and item["when"] == when] for when in ("before", "since")
    }
    assert any(way["path"] for way in ways["before"]), "which one is fastest on a busy machine is not for a test to say"
    assert any("chicago" not in way["path"] for way in ways["since"]), "events have left the slowed link"
    assert all(0 < way["p50_ms"] <= way["p99_ms"] for when in ways.values() for way in when)
    assert verdict["confirmed"] == verdict["published"], "though a broker was killed"
    assert list(tmp_path.iterdir()) == []


def test_the_demo_for_people_and_an_early_end(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "six brokers start" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read().strip() == ""
    assert list(tmp_path.iterdir()) == []
