"""The overlay's benchmark: construction of chains, evaluation of arrivals, and one real run of each kind."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import pytest

from plait_lab.benchmarks import overlay_bench
from plait_lab.benchmarks.chains.catalogue import OURS, RIVALS, MosquittoChain, NatsChain, PlaitChain, ZenohChain
from plait_lab.benchmarks.chains.chain import LONG, Chain
from plait_lab.benchmarks.chains.trials import Passed, flood_chain, paced_chain, running_chain
from plait_lab.benchmarks.groups import Session, find_groups
from plait_lab.benchmarks.measurement.machine_stalls import MachineStalls
from plait_lab.benchmarks.measurement.overlay import healing
from plait_lab.benchmarks.measurement.overlay.healing import FaultCost, _longest_gap, _most_within
from plait_lab.benchmarks.measurement.overlay.running import Seen, Traffic
from plait_lab.competitors.trials import TrialOutcome
from plait_lab.failures import NothingMeasured

PORTS = (5001, 5003, 5005)


def test_the_group_is_found() -> None:
    steps: list[str] = []
    assert overlay_bench.GROUP in find_groups(steps.append)


def linked(commands: list[list[str]]) -> list[list[int]]:
    """Return the ports that each of Plait's servers links to."""
    return [
        [int(value.rpartition(":")[2]) for option, value in pairwise(command) if option == "--link"]
        for command in commands
    ]


def test_brokers_link_to_the_next(tmp_path: Path) -> None:
    assert linked(PlaitChain().commands(PORTS, tmp_path)) == [[5003], [5005], []]


@pytest.mark.skipif(bool(NatsChain().missing()), reason="no nats-server")
def test_leaf_nodes_know_the_hub_alone(tmp_path: Path) -> None:
    texts = [Path(command[-1]).read_text() for command in NatsChain().commands(PORTS, tmp_path)]
    assert [re.findall(r"listen: \S+:(\d+)", text) for text in texts] == [["5001"], ["5003"], ["5005"]]
    assert ["remotes" in text for text in texts] == [True, False, True]
    hub = re.search(r"leafnodes \{ port: (\d+) \}", texts[1])
    assert hub is not None
    assert all(hub[1] in text for text in texts)


@pytest.mark.skipif(bool(MosquittoChain().missing()), reason="no mosquitto")
def test_bridges_lead_outward_to_the_next(tmp_path: Path) -> None:
    texts = [Path(command[-1]).read_text() for command in MosquittoChain().commands(PORTS, tmp_path)]
    assert [re.findall(r"address \S+:(\d+)", text) for text in texts] == [["5003"], ["5005"], []]
    assert ["out 0" in text for text in texts] == [True, True, False]


def test_routers_dial_the_next(tmp_path: Path) -> None:
    commands = ZenohChain().commands(PORTS, tmp_path)
    assert [command[-2:] for command in commands] == [["5001", "5003"], ["5003", "5005"], ["5005", "0"]]


def seen(*times: float) -> list[Seen]:
    return [Seen(at, number, ("a", "b")) for number, at in enumerate(times)]


def test_the_longest_gap_begins_with_the_last_event_before() -> None:
    assert _longest_gap(seen(0.0, 5.0, 5.1, 5.3, 5.4), 5.2) == pytest.approx(0.2)
    assert _longest_gap(seen(0.0, 5.0, 5.1, 5.3, 5.9), 5.2) == pytest.approx(0.6)


def test_a_machine_that_stands_still_is_noticed() -> None:
    with MachineStalls() as machine:
        machine._watcher.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, machine._watcher.pid, os.WSTOPPED)
        time.sleep(0.2)
        machine._watcher.send_signal(signal.SIGCONT)
    assert machine.longest_ms > 190


def test_a_fault_is_tried_again_when_the_machine_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    late = iter((overlay_bench.STILL_MS + 1, 1.0, 99.0, 99.0, 99.0, 99.0))
    monkeypatch.setattr(MachineStalls, "longest_ms", property(lambda _: next(late), lambda *_: None))
    steps: list[str] = []
    session = Session(1, quick=True, progress=steps.append)
    gaps = iter((104.0, 7.0, 101.0, 102.0, 103.0))
    assert overlay_bench._undisturbed(session, lambda: FaultCost(next(gaps), 0)).longest_ms == 7.0
    assert len(steps) == 1
    assert overlay_bench._undisturbed(session, lambda: FaultCost(next(gaps), 0)).longest_ms == 103.0


def test_the_group_continues_after_trials_that_measured_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> FaultCost:
        raise NothingMeasured("events do not go by a-e-d-c but by no path")

    one = TrialOutcome(100, 100, 0, 1.0, 1.0, 10.0, 1.0, 1.0, [1000, 2000, 3000])
    monkeypatch.setattr(overlay_bench, "RIVALS", ())
    monkeypatch.setattr(overlay_bench, "running_chain", lambda *_: nullcontext())
    monkeypatch.setattr(overlay_bench, "flood_chain", nothing)
    monkeypatch.setattr(overlay_bench, "paced_chain", lambda *_: Passed(one, (1.0, 1.0, 1.0)))
    for name in ("killed", "stopped", "slowed", "noisy"):
        monkeypatch.setattr(healing, name, nothing)
    figures = {
        figure.measure: figure.reached for figure in overlay_bench.overlay_figures(Session(1, True, lambda step: None))
    }
    assert figures["chain of 3: delivered"] is None
    assert figures["chain of 3 at 1,000/s: p50 from end to end"] == 2
    failed = [measure for measure in figures if measure.startswith("failed trial: ")]
    assert len(failed) == 5
    assert sum(reached is None for reached in figures.values()) == 12


def test_changes_are_counted_in_the_worst_stretch() -> None:
    assert _most_within([], 10.0) == 0
    assert _most_within([1.0, 5.0, 12.0, 14.9, 15.0], 10.0) == 3


@pytest.mark.parametrize(
    ("sent", "numbers", "wrong"),
    [(3, [0, 1, 2], 0), (3, [0, 2], 2), (3, [0, 1, 1, 2], 3), (3, [0, 2, 1], 2)],
    ids=["right", "one lost", "one twice", "out of order"],
)
def test_missing_and_wrong_events_are_counted(sent: int, numbers: list[int], wrong: int) -> None:
    flow = Traffic()
    flow.sent = sent
    flow.seen = [Seen(0.0, number, ()) for number in numbers]
    assert flow.missing_or_wrong == wrong


def test_a_chain_of_brokers_delivers_everything_in_order() -> None:
    with running_chain(OURS, LONG) as servers:
        found = flood_chain(servers, 7, 0.3)
        assert len(set(servers.processes)) == LONG
    assert found.outcome.delivered == found.outcome.sent > 0
    assert found.outcome.lost == 0
    assert all(cost > 0 for cost in found.servers_us)


@pytest.mark.parametrize(
    "chain", [chain for chain in (OURS, *RIVALS) if not chain.missing()], ids=lambda chain: chain.title
)
def test_every_chain_that_is_here_carries_events_from_end_to_end(chain: Chain) -> None:
    with running_chain(chain, LONG) as servers:
        found = paced_chain(servers, 7, 200, 0.5)
    assert found.outcome.sent == 100
    assert len(found.outcome.delays_ns) == found.outcome.delivered > 0


def test_a_broker_killed_on_the_way_loses_nothing() -> None:
    fault = healing.killed()
    assert fault.wrong == 0
    assert fault.longest_ms > 0


def test_a_link_that_becomes_slow_is_left() -> None:
    took_s, wrong = healing.slowed()
    assert wrong == 0
    assert took_s > 0
