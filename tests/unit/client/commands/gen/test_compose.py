"""`plait gen compose` and `plait gen secrets`: docker/ is current, and the generated files are consistent.

Brokers can reach their neighbours, no password is known, and every service has a health check and restarts.
"""

from __future__ import annotations

import json
import re
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkout import ROOT
from click.testing import CliRunner

from plait.commands.gen.compose import _overlay as overlay_of
from plait.commands.gen.compose import compose_files
from plait.commands.root import plait

SHIPPED = overlay_of(5, "braid", 2)


def written(brokers: int = 5, topology: str = "braid", networks: int = 2) -> tuple[dict[str, Any], dict[str, Any]]:
    files = compose_files(overlay_of(brokers, topology, networks))
    return yaml.safe_load(files["compose.yaml"]), yaml.safe_load(files["compose.chaos.yaml"])


def cluster() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(compose_files(SHIPPED)["compose.cluster.yaml"])
    return found


def brokers_in(services: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in services.items() if each.get("command") == ["broker"]}


def addresses_of(service: dict[str, Any]) -> list[str]:
    return list(json.loads(service["environment"]["PLAIT_BROKER__OVERLAY__LINKS"]))


def links_of(service: dict[str, Any]) -> list[str]:
    return sorted(address.partition(":")[0] for address in addresses_of(service))


def test_the_files_of_the_repository_are_what_the_command_writes() -> None:
    for name, text in compose_files(SHIPPED).items():
        assert (ROOT / "docker" / name).read_text() == text, "plait gen compose --replace"


@pytest.mark.parametrize("topology", ["ring", "braid", "mesh", "line", "star", "random"])
@pytest.mark.parametrize(("count", "networks"), [(1, 1), (2, 2), (5, 2), (12, 5)])
def test_brokers_are_in_a_network_with_each_that_they_link_to(topology: str, count: int, networks: int) -> None:
    base, chaos = written(count, topology, networks)
    brokers = brokers_in(base["services"])
    assert len(brokers) == count
    for name, service in brokers.items():
        for other in links_of(service):
            assert name in links_of(brokers[other]), "named at both ends"
            assert set(service["networks"]) & set(brokers[other]["networks"])
    relays = {name: each for name, each in chaos["services"].items() if name not in brokers}
    dialled = {name: addresses_of(chaos["services"][name]) for name in brokers}
    ports = [f"{relay}:{port}" for relay in relays for port in (4679, 4680)]
    assert sorted(address for addresses in dialled.values() for address in addresses) == sorted(ports)
    for dialler, addresses in dialled.items():
        reached = [led_to(relays, address) for address in addresses]
        assert sorted(reached) == links_of(brokers[dialler]), "the same links, each through a relay"
        for far, address in zip(reached, addresses, strict=True):
            for end in (dialler, far):
                assert set(relays[address.partition(":")[0]]["networks"]) <= set(brokers[end]["networks"])


def led_to(relays: dict[str, Any], address: str) -> str:
    """Return the broker behind a relay's port."""
    relay, _, port = address.partition(":")
    found = re.search(rf"--listen 0\.0\.0\.0:{port} --to ([a-z0-9-]+):4680", relays[relay]["command"][0])
    assert found is not None
    return found[1]


def test_no_broker_alone_holds_the_braid_together() -> None:
    brokers = brokers_in(written()[0]["services"])
    for lost in brokers:
        left = set(brokers) - {lost}
        reached, edge = set[str](), {min(left)}
        while edge:
            reached |= edge
            edge = {other for name in edge for other in links_of(brokers[name])} & left - reached
        assert reached == left


def test_every_service_is_watched_comes_back_and_holds_no_secret() -> None:
    base, _ = written()
    ours = base["services"] | {name: each for name, each in cluster()["services"].items() if name != "analytics"}
    for name, service in ours.items():
        if name == "init":
            continue
        assert service["restart"] == "unless-stopped", name
        watched = "healthcheck" in service or name in brokers_in(base["services"])  # whose image has one
        assert watched, name
        for variable, value in service.get("environment", {}).items():
            if any(word in variable for word in ("PASSWORD", "SECRET", "TOKEN", "PASSPHRASE")):
                assert str(value).startswith("/run/plait/"), f"{name}: {variable} names a file"
        for port in service.get("ports", []):
            assert port.startswith("${PLAIT_BIND:-127.0.0.1}:"), f"{name}: {port} is for this machine"
    used = {volume.partition(":")[0] for each in base["services"].values() for volume in each.get("volumes", [])}
    assert {volume for volume in used if not volume.startswith("./")} == set(base["volumes"])
    assert all((ROOT / "docker" / volume).exists() for volume in used if volume.startswith("./"))
    ports = sorted(int(port.split(":")[2]) for each in base["services"].values() for port in each.get("ports", []))
    assert all(one < other for one, other in pairwise(ports)), "no two services use the same port"


def test_only_examples_and_grafana_need_a_profile() -> None:
    base, _ = written()
    asked_for = {name: each["profiles"] for name, each in base["services"].items() if "profiles" in each}
    examples = [f"publisher-{n}" for n in (1, 2)] + [f"subscriber-{n}" for n in (1, 2, 3)]
    assert asked_for == {name: ["examples"] for name in examples} | {"grafana": ["grafana"]}
    assert len(base["services"]) - len(asked_for) == 1 + 5 + 3, "init, brokers, key server, Prometheus, Spark"


def test_a_cluster_runs_the_same_job_where_nobody_else_is() -> None:
    base, over = written()[0], cluster()["services"]
    alone, submitted = base["services"]["analytics"], over["analytics"]
    assert submitted["command"] == [*alone["command"], "--master", "spark://spark-master:7077"]
    workers = [each for name, each in over.items() if name.startswith("spark-worker")]
    assert len(workers) == 2
    for each in workers:
        assert each["volumes"] == alone["volumes"], "they read what the driver names, and keep state beside its tables"
        assert each["command"][-1] == "spark://spark-master:7077"
    there = [name for name, each in (base["services"] | over).items() if "spark" in each.get("networks", [])]
    assert set(there) <= {"analytics", *over}
    assert base["networks"]["spark"] == {"internal": True}


def test_a_graph_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "graph").write_text("# our sites\nnorth south\nsouth west\nwest north\n")
    found = overlay_of(5, str(tmp_path / "graph"), 3)
    assert found.names == ["north", "south", "west"]
    assert found.links == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(("text", "said"), [("a a\n", "no link"), ("a b c\n", "no link"), ("", "0 brokers")])
def test_invalid_graphs_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "graph").write_text(text)
    result = CliRunner().invoke(plait, ["gen", "compose", "--topology", str(tmp_path / "graph")])
    assert result.exit_code == 2
    assert said in result.output


def test_secrets_are_generated_once(tmp_path: Path) -> None:
    place = tmp_path / "secrets"
    for _ in range(2):
        result = CliRunner().invoke(plait, ["gen", "secrets", str(place)])
        assert result.exit_code == 0, result.output
        secrets = {path.name: path.read_text() for path in place.iterdir()}
        assert all(text.strip() not in result.output for text in secrets.values())
    assert "nothing generated, 5 kept" in result.output
    assert len(set(secrets.values())) == 5
    assert min(map(len, secrets.values())) > 40
    assert stat.S_IMODE((place / "token").stat().st_mode) == 0o600
    other = tmp_path / "other"
    CliRunner().invoke(plait, ["gen", "secrets", str(other)])
    assert not {path.read_text() for path in other.iterdir()} & set(secrets.values())
