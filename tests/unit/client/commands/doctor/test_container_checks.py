"""`plait doctor` in a container names each common mistake, and reports nothing else."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from plait.commands.doctor.checks import Finding
from plait.commands.doctor.container_checks import (
    check_advertised,
    check_container_target,
    check_data,
    check_discovery,
    check_listen,
    check_mtu,
    check_neighbours,
)
from plait.options.target import Target


def broker(**settings: str) -> dict[str, str]:
    return {f"PLAIT_BROKER__{name}": value for name, value in settings.items()}


@pytest.mark.parametrize(
    ("found", "state", "said"),
    [
        (check_listen(broker(LISTEN="127.0.0.1:4680")), "fail", "only from inside this container"),
        (check_listen(broker(LISTEN="0.0.0.0:4680", HTTP="localhost:4681")), "fail", "HTTP"),
        (check_listen(broker(LISTEN="0.0.0.0:4680", HTTP="0.0.0.0:4681")), "ok", ""),
        (check_advertised(broker(OVERLAY__ADVERTISE="localhost:4680")), "fail", "would dial themselves"),
        (check_advertised(broker(OVERLAY__SEEDS='["broker-1:4680"]')), "warn", "no address is advertised"),
        (check_advertised(broker(OVERLAY__ADVERTISE="broker-1:4680")), "ok", "broker-1"),
        (check_neighbours(broker(OVERLAY__LINKS='["127.0.0.1:4690"]')), "fail", "this container itself"),
        (check_neighbours(broker(OVERLAY__LINKS='["no-such-service.invalid:4680"]')), "fail", "does not resolve here"),
        (check_neighbours({}), "ok", "no neighbours"),
        (check_discovery(broker(OVERLAY__DISCOVER="true")), "warn", "same bridge network"),
        (check_discovery({}), "ok", ""),
        (check_container_target(Target.of("plait://t0ken@localhost:1", "PLAIT_URL")), "fail", "this container itself"),
        (check_container_target(Target.of("plait://broker-1:4680", "PLAIT_URL")), "ok", ""),
        (check_data({}), "ok", "nothing is stored"),
    ],
)
def test_each_check_names_the_mistake_and_the_remedy(found: Finding, state: str, said: str) -> None:
    assert found.state == state
    assert said in found.found
    assert bool(found.hint) == (state != "ok")
    assert "t0ken" not in found.found


def test_a_broker_of_this_container_may_be_dialled() -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        told = Target.of(f"plait://localhost:{broker.getsockname()[1]}", "context lab, in use")
        assert check_container_target(told).state == "ok"
    assert check_container_target(told).state == "fail"


def test_where_the_log_is_kept(tmp_path: Path) -> None:
    mounts, data = tmp_path / "mounts", tmp_path / "data"
    data.mkdir()
    told = broker(DATA=str(data))
    mounts.write_text("overlay / overlay rw 0 0\n")
    assert "own layer" in check_data(told, mounts).found
    mounts.write_text(f"overlay / overlay rw 0 0\ntmpfs {data} tmpfs rw 0 0\n")
    assert "lost when the container stops" in check_data(told, mounts).found
    mounts.write_text(f"overlay / overlay rw 0 0\n/dev/vda {data} ext4 rw 0 0\n")
    assert "on ext4" in check_data(told, mounts).found
    missing = check_data(broker(DATA=str(tmp_path / "nowhere")), mounts)
    assert (missing.state, "cannot be written" in missing.found) == ("fail", True)


def test_networks_that_differ_in_what_fits(tmp_path: Path) -> None:
    for name, size in {"lo": 65536, "eth0": 1500, "eth1": 1450}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "mtu").write_text(f"{size}\n")
    assert check_mtu(tmp_path).state == "warn"
    (tmp_path / "eth1/mtu").write_text("1500\n")
    assert check_mtu(tmp_path) == Finding("ok", "eth0 1500, eth1 1500")
