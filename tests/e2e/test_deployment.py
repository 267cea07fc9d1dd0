"""All of docker/compose.yaml with its examples: healthy, scraped by Prometheus, analysed by Spark.

Then the same job on a cluster of Spark. The test prints the durations.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from deployment import BROKERS, ROOT, Deployment, deployed, docker, image, until

COMPOSE, CLUSTER = ROOT / "docker/compose.yaml", ROOT / "docker/compose.cluster.yaml"
SPARK_S = 600.0
"""Timeout for Spark on a busy machine."""

pytestmark = pytest.mark.timeout(3 * SPARK_S)


@pytest.fixture
def whole() -> Iterator[Deployment]:
    with deployed("plait-whole", COMPOSE, COMPOSE_PROFILES="examples", PLAIT_BIND="127.0.46.83") as found:
        yield found


@pytest.fixture
def cluster() -> Iterator[Deployment]:
    with deployed("plait-cluster", COMPOSE, CLUSTER, PLAIT_BIND="127.0.46.84") as found:
        yield found


def wait_healthy(town: Deployment) -> None:
    """Wait until Docker reports every service healthy."""
    waiting, began = [name for name in town.services if name != "init"], time.monotonic()
    while waiting:
        for name in [name for name in waiting if town.health(name) == "healthy"]:
            waiting.remove(name)
            print(f"      {name} is healthy after {time.monotonic() - began:.0f} s", flush=True)
        assert time.monotonic() - began < SPARK_S, f"not healthy: {waiting}"
        time.sleep(1)


def rows(town: Deployment, table: str) -> int:
    """Return the number of rows of a table that Spark wrote, by its manifest."""
    lake = "import json; print(json.dumps(json.load(open('/lake/manifest.json'))['tables']))"
    return int(json.loads(town.run("analytics", "python3", "-c", lake))[table]["rows"])


def has_rows(town: Deployment, table: str) -> bool:
    try:
        return rows(town, table) > 0
    except AssertionError:
        return False  # the first window is still open


def test_all_of_it_runs(whole: Deployment) -> None:
    began = time.monotonic()
    whole.up()
    print(f"\n{len(whole.services)} containers after {time.monotonic() - began:.0f} s")
    wait_healthy(whole)
    print(f"all healthy {time.monotonic() - began:.0f} s after `up`")
    assert set(BROKERS) <= set(whole.services)
    for broker in BROKERS:
        assert len(whole.asked(broker, "/api/v1/topology")["brokers"]) == len(BROKERS)

    def scraped() -> bool:
        said = whole.run("prometheus", "promtool", "query", "instant", "http://127.0.0.1:9090", "sum(up)")
        return re.search(r"=> 5 @", said) is not None

    until(scraped, "Prometheus reads all brokers")
    until(lambda: "'IBM'" in docker("logs", whole.services["subscriber-1"]), "an example hears of IBM")
    until(lambda: has_rows(whole, "subscriptions"), "Spark has counted", SPARK_S)
    found = whole.asked("broker-1", "/api/v1/analytics")
    assert "subscriptions" in json.dumps(found), "the broker's page shows what Spark wrote"
    assert not re.search(r"^fail", whole.run("broker-1", "plait", "doctor"), re.MULTILINE)


def test_the_same_job_on_a_cluster(cluster: Deployment) -> None:
    began = time.monotonic()
    cluster.up()
    wait_healthy(cluster)
    print(f"\nall healthy {time.monotonic() - began:.0f} s after `up`")
    asking = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/json/').read().decode())"
    state = json.loads(cluster.run("spark-master", "python3", "-c", asking))
    assert state["aliveworkers"] == 2
    assert [app["name"] for app in state["activeapps"]] == ["plait analyze"]
    until(lambda: has_rows(cluster, "links"), "the cluster has counted", SPARK_S)


def test_doctor_names_what_is_wrong_with_a_network() -> None:
    """Each common mistake is named, in a container that makes it."""
    mistakes = {
        "is reachable only from inside this container": {"LISTEN": "127.0.0.1:4680"},
        "other brokers would dial themselves": {"OVERLAY__ADVERTISE": "localhost:4680"},
        "does not resolve here": {"OVERLAY__LINKS": '["broker-9:4680"]'},
        "is this container itself": {"OVERLAY__LINKS": '["localhost:4690"]'},
        "only brokers on the same bridge network": {"OVERLAY__DISCOVER": "true"},
        "lost when the container stops": {"DATA": "/tmp"},
    }
    for said, settings in mistakes.items():
        told = [word for name, value in settings.items() for word in ("-e", f"PLAIT_BROKER__{name}={value}")]
        found = docker("run", "--rm", "--tmpfs", "/tmp", *told, image(), "doctor", check=False)
        assert said in found, found
    alone = docker("run", "--rm", "-e", "PLAIT_URL=plait://localhost:4680", image(), "doctor", check=False)
    assert "is this container itself, and nothing listens" in alone, "a client that dials its own container"
