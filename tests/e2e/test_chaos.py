"""The whole deployment under load and faults, for PLAIT_CHAOS_S seconds (by default two minutes).

An oracle outside compares the confirmations with the deliveries, and prints the faults survived, one for each line of
the fault table.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from deployment import BROKERS, ROOT, Deployment, deployed, docker, until
from faults import FAULTS
from oracle import READERS, all_is_there, at, confirmed, judge, lines, unsure

LASTS_S = float(os.environ.get("PLAIT_CHAOS_S") or 120)
SEED = int(os.environ.get("PLAIT_SEED") or random.SystemRandom().randrange(2**32))
CALM_S = 5.0
SETTLES_S = 180.0
LOAD = ("load-d1", "load-d2", "load-s1", "load-slow", "load-crowd", "load-p1", "load-p2", "load-p3")
POLICY = '[holders.exchange]\npublish = ["true"]\n[holders.agency]\nsubscribe = ["true"]\n'
HERE = Path(__file__).parent

pytestmark = pytest.mark.timeout(LASTS_S + 2400)


class Harm(NamedTuple):
    line: str
    whom: str
    began_us: int
    healed_us: int


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Deployment]:
    out = tmp_path / "out"
    out.mkdir(mode=0o777)
    out.chmod(0o777)
    files = (ROOT / "docker/compose.yaml", ROOT / "docker/compose.chaos.yaml", HERE / "compose.load.yaml")
    with deployed("plait-e2e", *files, E2E_OUT=str(out), E2E_SOURCE=str(HERE)) as found:
        yield found


def test_nothing_confirmed_is_lost(town: Deployment, tmp_path: Path) -> None:
    print(f"\nPLAIT_SEED={SEED}")
    out, chance = tmp_path / "out", random.Random(SEED)
    _begin(town, out)
    harms = _harm(town, chance)
    time.sleep(CALM_S)
    (out / "stop").touch()
    until(lambda: all(lines(out / f"p{n}.done") for n in (1, 2, 3)), "publishers end", SETTLES_S)
    try:
        until(lambda: all_is_there(out), "what was confirmed has arrived", SETTLES_S)
    except AssertionError:
        _tell_state(town, out)
    _report(out, harms)
    found = {reader: judge(out, reader) for reader in READERS}
    assert len(confirmed(out)) > 5 * LASTS_S, "there was load"
    for reader, reading in found.items():
        assert not reading.lost, f"{reader}: {len(reading.lost)} were confirmed and are lost, as {reading.lost[:5]}"
        assert not reading.twice, f"{reader}: {len(reading.twice)} came twice, as {reading.twice[:5]}"
        assert not reading.astray, f"{reader} received unrequested events: {reading.astray[:5]}"
        assert not reading.disordered, f"{reader}: {reading.disordered} came out of order"
    assert _crowd(out)[-1][1] == _crowd(out)[0][1], "the crowd is back"


def _begin(town: Deployment, out: Path) -> None:
    began = time.monotonic()
    town.up("keyserver", *BROKERS, *(f"link-{name}" for name in _links()))
    town.wait_healthy("keyserver", *BROKERS)
    print(f"{len(town.services)} containers, all healthy after {time.monotonic() - began:.0f} s")
    town.run(
        "keyserver", "python3", "-c", "import sys; open('/keys/policy.toml', 'w').write(sys.stdin.read())", given=POLICY
    )
    for holder in ("exchange", "agency"):
        (out / f"{holder}.token").write_text(town.run("keyserver", "plait", "keys", "enrol", "/keys", holder))
    (out / "authority.pem").write_text(
        town.run("keyserver", "python3", "-c", "print(open('/keys/authority.pem').read())")
    )
    town.up(*LOAD[:5])
    until(lambda: all((out / f"{reader}.notices").exists() for reader in READERS), "subscribers subscribed")
    town.up(*LOAD[5:])
    until(lambda: len({line.publisher for line in confirmed(out)}) == 3, "publishers publish")
    until(lambda: _crowd(out), "the crowd is there")


def _links() -> list[str]:
    text = (ROOT / "docker/compose.chaos.yaml").read_text()
    return [line.strip().removeprefix("link-").rstrip(":") for line in text.splitlines() if line.startswith("  link-")]


def _harm(town: Deployment, chance: random.Random) -> list[Harm]:
    """Inject every fault once, then random ones until the time is over, with a pause between two. Return them."""
    harms: list[Harm] = []
    until_s, due = time.monotonic() + LASTS_S, chance.sample(list(FAULTS), len(FAULTS))
    while due or time.monotonic() < until_s:
        line = due.pop() if due else chance.choice(list(FAULTS))
        began = time.time_ns() // 1000
        whom = FAULTS[line][1](town, chance)
        town.wait_ready(*BROKERS)
        town.wait_whole(*BROKERS)
        harms.append(Harm(line, whom, began, time.time_ns() // 1000))
        print(f"      {line:<5} {whom}: healed after {(harms[-1].healed_us - began) / 1e6:.1f} s", flush=True)
        time.sleep(chance.uniform(0, 3))
    return harms


def _report(out: Path, harms: list[Harm]) -> None:
    promised, doubtful = confirmed(out), unsure(out)
    readings = {reader: judge(out, reader) for reader in READERS}
    lost = {line for reading in readings.values() for line in reading.lost}
    print(f"{len(harms)} faults in {(harms[-1].healed_us - harms[0].began_us) / 1e6:.0f} s; "
          f"{len(promised)} events confirmed, {len(doubtful)} never answered")  # fmt: skip
    for line, (called, _) in FAULTS.items():
        mine = [harm for harm in harms if harm.line == line]
        during = [each for each in promised if any(harm.began_us <= each.at_us <= harm.healed_us for harm in mine)]
        gone = sum(any(harm.began_us <= each.at_us <= harm.healed_us for harm in mine) for each in lost)
        silent = max((_silence(promised, harm) for harm in mine), default=0.0)
        print(f"{line:<5} {called:<42} {len(mine):>3} times, {len(during):>6} confirmed meanwhile, {gone} lost, "
              f"longest without a confirmation {silent:.1f} s")  # fmt: skip
    fast = at(readings["d2"].delays_us, 0.99), at(readings["slow"].delays_us, 0.99)
    print(f"F7    a subscriber ten times too slow: {readings['slow'].arrived} arrived, none lost: "
          f"{not readings['slow'].lost}; p99 after the confirmation {fast[1] / 1e6:.1f} s, "
          f"of one that keeps up {fast[0] / 1e6:.1f} s")  # fmt: skip
    for reader, reading in readings.items():
        print(f"      {reader:<5} {reading.arrived:>6} arrived, {len(reading.lost)} lost, {len(reading.twice)} twice, "
              f"{len(reading.astray)} astray, {reading.disordered} out of order")  # fmt: skip
    crowd = _crowd(out)
    print(
        f"      crowd of {crowd[0][1]}: {crowd[-1][2]} connections made, longest incomplete {_incomplete(crowd):.1f} s"
    )


def _silence(promised: list, harm: Harm) -> float:  # type: ignore[type-arg]
    """Return the longest time without any confirmation around a fault, in seconds."""
    times = sorted(
        line.at_us for line in promised if harm.began_us - 500_000 <= line.at_us <= harm.healed_us + 5_000_000
    )
    return max((later - earlier for earlier, later in pairwise(times)), default=0) / 1e6


def _crowd(out: Path) -> list[tuple[int, int, int]]:
    """Return the time, the number of connected clients, and the number of connections so far."""
    path = out / "crowd.crowd"
    words = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return [(int(each[2]), int(each[0]), int(each[1])) for each in words if len(each) == 3]


def _incomplete(crowd: list[tuple[int, int, int]]) -> float:
    longest, since = 0, None
    for when, there, _ in crowd:
        since = None if there == crowd[0][1] else since or when
        longest = max(longest, when - since if since else 0)
    return longest / 1e6


def _tell_state(town: Deployment, out: Path) -> None:
    """Print diagnostics for missing events."""
    print(town.run("broker-1", "plait", "topo"), town.run("broker-1", "plait", "ls", "brokers"))
    for service in (*BROKERS, *LOAD):
        print(f"--- {service}\n{docker('logs', '--tail', '8', town.services[service], check=False)}")
    told = {
        reader: Counter(line.split()[0] for line in (out / f"{reader}.notices").read_text().splitlines())
        for reader in READERS
    }
    print(told)
