"""Spark's unsuitable defaults: each setting that avoids one is asserted without starting a JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

from plait_analytics.engines import jvm_class_archive

spark_session = pytest.importorskip(
    "plait_analytics.engines.spark_session", reason="Spark is not installed: make setup-analytics"
)


def test_settings_name_every_trap() -> None:
    settings = spark_session.settings(spark_session.LOCAL, 2)
    assert settings["spark.master"] == "local[2,4]", "local[2] gives up at the first failure of a task"
    assert settings["spark.sql.shuffle.partitions"] == "2", "200 cost fifteen times as much"
    assert settings["spark.driver.memory"] == "1g"
    assert settings["spark.ui.enabled"] == "false", "an unrequested port"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.host" not in spark_session.settings("spark://elsewhere:7077", 8)


@pytest.mark.parametrize("master", ["spark://elsewhere:7077", "k8s://https://elsewhere:6443"])
def test_the_address_of_this_machine_is_not_sent_to_a_cluster(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = spark_session.settings(master, 8)
    assert settings["spark.master"] == master
    assert not {name for name, value in settings.items() if "127.0.0.1" in value}
    for reported in ("", "/opt/python"):
        monkeypatch.setenv("PYSPARK_PYTHON", reported) if reported else monkeypatch.delenv(
            "PYSPARK_PYTHON", raising=False
        )
        spark_session._choose_python(master)
        ours = "python3" if master.startswith("k8s") else sys.executable
        assert os.environ["PYSPARK_PYTHON"] == (reported or ours), "a container has no path of ours"
    spark_session._choose_python(spark_session.LOCAL)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable, "workers run what the driver runs"


def test_the_innermost_cause_of_a_java_stack_is_reported() -> None:
    stack = (
        "An error occurred.\n: org.apache.spark.SparkException: outer\n\tat a.b\nCaused by: x.Refused: no image\n\tat c"
    )
    assert spark_session._why(RuntimeError(stack)) == "x.Refused: no image"
    assert spark_session._why(RuntimeError("a\n: o.a.SparkException: Could not parse Master URL\n\tat b")) == (
        "o.a.SparkException: Could not parse Master URL"
    )
    assert spark_session._why(RuntimeError()) == "RuntimeError"


def test_hidden_dependencies_of_spark_are_declared() -> None:
    wanted = [line.replace(" ", "") for line in requires("plait-analytics") or [] if "spark" in line]
    assert any(line.startswith("pandas") and "<3" in line for line in wanted), "Spark does not take pandas 3"
    assert any(line.startswith("protobuf") for line in wanted), "streaming imports it, and does not pull it in"


def test_a_jvm_that_does_not_end_is_killed() -> None:
    stubborn = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.PIPE)
    spark_session._end(stubborn, 0.1)
    assert stubborn.returncode not in (None, 0)
    quick = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    spark_session._end(quick, 60.0)
    assert quick.returncode == 0, "one that ends with its driver's pipe ends by itself"


def test_an_archive_is_of_one_java_and_one_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLAIT_SPARK_ARCHIVE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = set()
    for version in ("17", "21"):
        home = tmp_path / version
        home.mkdir()
        (home / "release").write_text(f'JAVA_VERSION="{version}"')
        found.add(jvm_class_archive.archive_path(home))
    assert len(found) == 2
    path = found.pop()
    assert jvm_class_archive.java_options(path) == "", "without one Spark starts as it does"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"cut short")
    assert jvm_class_archive.java_options(path) == "", "one that was cut short is not used"
    with path.open("wb") as file:
        file.truncate(jvm_class_archive.ENOUGH_BYTES + 1)
    assert f"SharedArchiveFile={path}" in jvm_class_archive.java_options(path)
    monkeypatch.setenv("PLAIT_SPARK_ARCHIVE", "/elsewhere.jsa")
    assert str(jvm_class_archive.archive_path(tmp_path)) == "/elsewhere.jsa"
