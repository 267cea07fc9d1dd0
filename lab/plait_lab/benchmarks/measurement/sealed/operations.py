"""The operations of table 5.3 of the thesis: seal, sign, open, verify; issuing; and the sizes of sealed events.

As a program it is the trial `sealed` of `compare`. Older states of the source do not have it, so this file runs in each
state with the packages of that state, by its path. It imports nothing else, and knows how version 1 of the format was
used, whose last commit is 1485b67. Its output is that of a trial (`reference_trials`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final

import plait_core
import plait_crypto
from plait_core import parse
from plait_core.space import IntRange
from plait_crypto import Authority, Draft, Epochs, Numbers, Realm, Schema, Sealer, hazmat
from plait_crypto.hazmat import ArkworksGroups, Groups, MasterSecret, Parameters, Scheme, set_up

SHAPES: Final = ((1, 4), (4, 4), (4, 16))
"""Attributes of a trial's events, and the bits of each."""

HEADER: Final = b"a header of some length, as an envelope has"
MESSAGE: Final = b"a digest of everything that is sent"
NOW_US: Final = 1_000_000
REPEATS: Final = 15
"""Least number of runs of an operation. The shortest counts."""
TIMED_S: Final = 0.2
"""Least time for the runs of an operation: short ones vary more."""
CREDENTIALS: Final = 64
"""Credentials that are issued together."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of processor time of the four operations, and of the first seal."""

    seal: float
    sign: float
    open: float
    verify: float
    first_seal: float


def operations(
    parameters: Parameters, master: MasterSecret, rows: int, places: int, rng: Random, repeats: int, timed_s: float = 0
) -> Times:
    """Measure the four operations, and check the results."""
    under, subscriber_set, publisher_pair = _used(parameters, master)
    identities = [[rng.randbytes(16) for _ in range(places)] for _ in range(rows)]
    mine = [row[-1] for row in identities]
    keys = subscriber_set(mine, rng)
    pairs = [publisher_pair(identity, rng) for identity in mine]
    chosen = [(places - 1, identity, part) for identity, part in zip(mine, keys.parts, strict=True)]
    first, (capsule, secret) = timed(lambda: under.encapsulate(identities, HEADER, rng))
    seal, _ = best(lambda: under.encapsulate(identities, HEADER, rng), repeats + 1, timed_s)
    opened_in, opened = best(lambda: under.decapsulate(capsule, HEADER, keys.s4, chosen), repeats, timed_s)
    sign, signature = best(lambda: under.sign(MESSAGE, pairs, rng), repeats, timed_s)
    verify, _ = best(lambda: under.verify(MESSAGE, mine, signature, rng), repeats, timed_s)
    assert opened == secret, f"{rows} attributes did not open"
    return Times(seal, sign, opened_in, verify, first)


def issuing(
    parameters: Parameters, master: MasterSecret, count: int, rng: Random, repeats: int, timed_s: float = 0
) -> float:
    """Return the milliseconds of one credential of a conjunction. A key server issues all of those at once."""
    _, subscriber_set, _ = _used(parameters, master)
    identities = [rng.randbytes(16) for _ in range(count)]
    return best(lambda: subscriber_set(identities, rng), repeats, timed_s)[0] / count


def pairing(groups: Groups, parameters: Parameters, repeats: int, timed_s: float = 0) -> float:
    """Return the milliseconds of one pairing, which show the machine's speed."""
    return best(lambda: groups.pair([(parameters.h, parameters.g2)]), repeats, timed_s)[0]


def size(parameters: Parameters, master: MasterSecret, rows: int, bits: int, rng: Random) -> int:
    """Return the bytes of a sealed event without a payload, whose attributes are hidden."""
    trees = {f"a{row}": Numbers(IntRange(0, 2**bits - 1)) for row in range(rows)}
    authority = Authority(Realm(parameters, Schema(trees, Epochs(0, 10**12, 10**9))), master)
    sealer = Sealer(authority.realm, 7)
    sealer.add(authority.publisher_keys("p", 7, parse("true"), epoch=0, now_us=NOW_US, randomness=rng))
    return len(sealer.seal(Draft(dict.fromkeys(trees, 3), b"", 1), now_us=NOW_US, randomness=rng).envelope)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the milliseconds of processor time of a call, and its result."""
    started = process_time()
    found = call()
    return (process_time() - started) * 1000, found


def best(call: Callable[[], Any], repeats: int, timed_s: float = 0) -> tuple[float, Any]:
    """Return the shortest time in milliseconds and the last result, of so many runs that take this time at least."""
    times: list[float] = []
    while len(times) < repeats or sum(times) < timed_s * 1000:
        spent, found = timed(call)
        times.append(spent)
    return min(times), found


def shape_name(rows: int, bits: int) -> str:
    """Return the words for the attributes of an event."""
    return f"{rows} attribute{'s' * (rows > 1)} of {2**bits if bits < 10 else f'2^{bits}'} values"


def measured(seed: int, repeats: int, timed_s: float) -> Iterator[tuple[str, float, str]]:
    """Yield all measures of a trial, with their units."""
    rng = Random(seed)
    groups = ArkworksGroups()
    parameters, master = set_up(groups, rng)
    yield "pairing", pairing(groups, parameters, repeats, timed_s), "ms"
    for rows, bits in SHAPES:
        times = asdict(operations(parameters, master, rows, bits + 1, rng, repeats, timed_s))
        for name in ("seal", "sign", "open", "verify"):
            yield f"{name}, {shape_name(rows, bits)}", times[name], "ms"
    yield "issue a credential", issuing(parameters, master, CREDENTIALS, rng, 2, timed_s), "ms"
    for rows, bits in SHAPES:
        yield f"size, {shape_name(rows, bits)}", size(parameters, master, rows, bits, rng), "bytes"


def _used(parameters: Parameters, master: MasterSecret) -> tuple[Scheme, Callable[..., Any], Callable[..., Any]]:
    """Return the scheme, and what issues the keys of a subscriber and of a publisher."""
    if hasattr(hazmat, "Issuer"):
        issuer = hazmat.Issuer(parameters, master)
        return Scheme(parameters, tag_key=master.tag_key), issuer.subscriber_set, issuer.publisher_pair
    version_1: Any = hazmat
    subscriber_set = partial(version_1.issue_subscriber_set, parameters, master)
    return Scheme(parameters), subscriber_set, partial(version_1.issue_publisher_pair, parameters, master)


def main() -> None:
    """Run the trial, and print its measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", help="as it always prints")
    options = parser.parse_args()
    packages = (plait_core, plait_crypto)
    print(json.dumps({"sources": {each.__name__: str(Path(each.__file__ or "").parent) for each in packages}}))
    amount = (2, 0.0) if options.quick else (REPEATS, TIMED_S)
    for measure, reached, unit in measured(options.seed, *amount):
        print(json.dumps({"measure": measure, "reached": reached, "unit": unit}), flush=True)


if __name__ == "__main__":
    main()
