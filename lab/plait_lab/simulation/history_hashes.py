"""The recorded hashes of simulated histories, which verify a commit that only renames or moves code.

    python -m plait_lab.simulation --check-hashes      play all of them; exit 1 when some differ
    python -m plait_lab.simulation --record-hashes     play all of them and rewrite the file
    python -m plait_lab.simulation --history peers/7   print one, to compare with that of another commit

Kinds of worlds alternate within a group, so the first ten of a group are a sample of all kinds. The names of scenarios,
troubles and attacks are part of some seeds: renaming one changes the history.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeAlias

from .history import History
from .one_broker.seeded_histories import play as play_one_broker
from .overlay.enemies.attacks import ATTACKS
from .overlay.enemies.hostile import HostileHistory
from .overlay.enemies.hostile_soak import DIAMOND, LADDER, HostileSoak
from .overlay.random_histories import SIGNED, overlay_history
from .overlay.world import WorldTerms
from .overlay.worlds.churn import Churn
from .overlay.worlds.insiders import InsiderHistory
from .overlay.worlds.outages import Outages
from .overlay.worlds.unadvertised import Unadvertised
from .peers.confirmed_delivery import TROUBLES, ConfirmationTerms, ConfirmationTrial
from .peers.healing import HealingTerms, HealingTrial
from .peers.trial import VARIANTS, Terms, Trial
from .sorted_index import SortedIndex

FILE: Final = Path(__file__).parents[2] / "history_hashes.json"

KINDS: Final = 10
"""A history's number modulo this is its kind."""

PROGRESS_S: Final = (2.0, 5.0)
"""Seconds until the first line of progress, and between two of them."""

NAMED_MAX: Final = 10
"""Histories that one line of a result names."""

Hashes: TypeAlias = Mapping[str, Mapping[int, str]]
"""Hashes by group and number."""


def one_broker(number: int) -> History:
    """Play a broker and its clients under faults; in one of ten histories its log is lost."""
    scenario = "lost log" if number % KINDS == 9 else "any"
    return play_one_broker(number, scenario, portable=True).recorder.history


def overlay(number: int) -> History:
    """Play several brokers with clients, mostly with short faults; else without faults, with long absences, or with
    events that nobody has advertised."""
    seed, kind = divmod(number, KINDS)
    terms = WorldTerms(signed=seed % SIGNED == 1, index=SortedIndex, forgets=kind in (7, 8))
    if kind == 9:
        unadvertised = Unadvertised(seed, terms=terms)
        unadvertised.world.record_writes()
        unadvertised.play()
        return unadvertised.world.history
    if kind == 8:
        churn = Churn(seed, terms=terms)
        churn.world.record_writes()
        churn.play()
        return churn.world.history
    if kind == 7:
        outages = Outages(seed, terms=replace(terms, logs=lambda number: True))
        outages.world.record_writes()
        outages.play()
        return outages.world.history
    history = overlay_history(number, faults=kind != 6, index=SortedIndex)
    history.world.record_writes()
    history.play(faults=kind != 6)
    return history.world.history


def peers(number: int, *, encrypted: bool | None = None) -> History:
    """Play peers without brokers: confirmed events under faults, deaths, churn and loss.

    Links encrypt in one of five histories. It changes none: a history has the same hash either way.
    """
    seed, kind = divmod(number, 3)
    encrypted = number % 5 == 1 if encrypted is None else encrypted
    if kind == 0:
        custody = ConfirmationTrial(
            ConfirmationTerms(
                TROUBLES[seed % len(TROUBLES)], 8, publishers=1 + seed % 2, seed=seed, encrypted=encrypted
            )
        )
        custody.play()
        return custody.world.history
    if kind == 1:
        healing = HealingTrial(
            HealingTerms(
                reset_connections=seed % 2 == 0,
                deaths=1 + seed % 4,
                mixed=seed % 3 == 0,
                seed=seed,
                encrypted=encrypted,
            )
        )
        healing.converge()
        healing.play()
        return healing.world.history
    trial = Trial(Terms(40, variant=list(VARIANTS)[seed % 2], children_max=8, seed=seed, encrypted=encrypted))
    for period in range(20):
        trial.world.loss = 0.1 if 5 <= period < 10 else 0.0
        if period % 5 == 4:
            trial.churn(0.1)
        trial.period()
    return trial.world.history


def hostile(number: int) -> History:
    """Play several brokers with a hostile one: each attack, long attacks, and an insider."""
    seed, kind = divmod(number, KINDS)
    attacks = list(ATTACKS)
    if kind == 9:
        insider = InsiderHistory(seed, index=SortedIndex)
        insider.world.record_writes()
        insider.play()
        return insider.world.history
    nth = number - (KINDS - 8) * seed
    soak = (DIAMOND, 1) if seed % 2 == 0 else (LADDER, 2)
    history = (
        HostileSoak(*soak, "one_by_one", index=SortedIndex)
        if kind == 8
        else HostileHistory(nth, attacks[nth % len(attacks)], index=SortedIndex)
    )
    history.world.record_writes()
    history.play()
    return history.world.history


@dataclass(frozen=True, slots=True)
class HistoryGroup:
    """Histories of one kind of world, numbered from 0."""

    count: int
    play: Callable[[int], History]


GROUPS: Final[dict[str, HistoryGroup]] = {
    "one-broker": HistoryGroup(200, one_broker),
    "overlay": HistoryGroup(200, overlay),
    "peers": HistoryGroup(50, peers),
    "hostile": HistoryGroup(20, hostile),
}


BROKEN: Final = "broken"
"""Stands for the hash of a history that ended with an exception."""


def hash_of(group: str, number: int) -> str:
    """Play a history and return its hash."""
    return GROUPS[group].play(number).hash()


def hash_or_broken(group: str, number: int) -> str:
    """Play a history and return its hash. If it ends with an exception, print it and return `BROKEN`."""
    try:
        return hash_of(group, number)
    except Exception as error:
        print(f"{group}/{number}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return BROKEN


def read(file: Path = FILE) -> Hashes:
    """Return the recorded hashes."""
    recorded = json.loads(file.read_text(encoding="utf-8"))
    return {group: {int(number): hash for number, hash in hashes.items()} for group, hashes in recorded.items()}


def check_hashes(file: Path = FILE, workers: int | None = None) -> bool:
    """Play all histories and print how many are unchanged. Return whether all are."""
    recorded = read(file)
    played = _play_all(workers)
    _print_comparison(recorded, played, "unchanged")
    return recorded == played


def record_hashes(file: Path = FILE, workers: int | None = None) -> bool:
    """Play all histories, print how many changed, and record them unless one is broken. Return whether they were
    recorded."""
    before = read(file) if file.exists() else {}
    played = _play_all(workers)
    _print_comparison(before, played, "as before")
    if any(BROKEN in hashes.values() for hashes in played.values()):
        print(f"{file} stays as it was: a history ended with an exception", file=sys.stderr)
        return False
    file.write_text(json.dumps(played, indent=1) + "\n", encoding="utf-8")
    return True


def print_history(group: str, number: int) -> None:
    """Play one history and print its lines."""
    usual, History.held_max = History.held_max, sys.maxsize
    try:
        history = GROUPS[group].play(number)
    finally:
        History.held_max = usual
    for line in history.lines():
        print(line)
    print(f"hash {history.hash()}")


def _print_comparison(recorded: Hashes, played: Hashes, word: str) -> None:
    for group, hashes in played.items():
        other = [number for number, hash in hashes.items() if recorded.get(group, {}).get(number) != hash]
        line = f"{group:12} {len(hashes) - len(other):3} of {len(hashes):3} {word}"
        if other:
            more = ", ..." if len(other) > NAMED_MAX else ""
            line += f"; the others: {', '.join(map(str, other[:NAMED_MAX]))}{more}"
        print(line)


def _play_all(workers: int | None) -> Hashes:
    """Play all histories, in as many processes as there are cores."""
    jobs = [(group, number) for group, terms in GROUPS.items() for number in range(terms.count)]
    played: dict[str, dict[int, str]] = {group: {} for group in GROUPS}
    begun = time.monotonic()
    silent_s, every_s = PROGRESS_S
    due = begun + silent_s
    for done, ((group, number), hash) in enumerate(zip(jobs, _hashes_of(jobs, workers), strict=True), start=1):
        played[group][number] = hash
        if time.monotonic() >= due:
            due = time.monotonic() + every_s
            print(f"[{time.monotonic() - begun:5.1f} s] {done} of {len(jobs)} histories", file=sys.stderr, flush=True)
    return played


def _hashes_of(jobs: list[tuple[str, int]], workers: int | None) -> Iterator[str]:
    """Yield the hashes in the order of the jobs."""
    workers = workers or os.cpu_count() or 1
    if workers == 1:
        yield from (hash_or_broken(*job) for job in jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(hash_or_broken, *zip(*jobs, strict=True))
