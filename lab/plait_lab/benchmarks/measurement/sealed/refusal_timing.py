"""Timing of refusals: how long a reader takes to refuse an envelope, by the part that was changed.

The time must not reveal secrets: the medians of the kinds should be no further apart than the quartiles of one kind.
The kinds take turns in a random order, because the first refusal after a seal is slower. Invalid curve points are not
measured: they are refused early, and anyone can recognise them. The changes measured here are indistinguishable from
outside. Each is refused after decapsulation and re-encryption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from statistics import median, quantiles
from time import perf_counter

from plait_crypto import Draft, Keyring, Sealer, Unopenable
from plait_crypto.envelope import Envelope, shape_text
from plait_crypto.hazmat.backend import G1_BYTES
from plait_crypto.hazmat.capsule import SEED_BYTES, TAG_BYTES

from ...reports import Figure, Target
from ..baselines import WrongAnswer


def refusals(
    sealer: Sealer, ring: Keyring, attributes: dict[str, int], now_us: int, rng: Random, count: int
) -> Iterator[Figure]:
    """Yield the median for each kind of change, and their range beside the spread within one kind."""
    times: dict[str, list[float]] = {}
    for _ in range(count):
        first, other = (
            sealer.seal(Draft(attributes, b"x" * 100, 1), now_us=now_us, randomness=rng).envelope for _ in range(2)
        )
        changes = list(_changes(first, other).items())
        rng.shuffle(changes)
        for name, change in changes:
            times.setdefault(name, []).append(_refused_in(ring, change(), now_us, rng))
    middles = {name: median(found) for name, found in times.items()}
    within = max(part[2] - part[0] for part in (quantiles(found, n=4) for found in times.values()))
    for name, middle in middles.items():
        yield Figure(f"refusing what was changed: {name}", middle, "ms")
    apart = max(middles.values()) - min(middles.values())
    target = Target("<=", round(within, 4))
    yield Figure("refusals, medians apart", apart, "ms", target, {"quartiles of one kind apart": within})


def _changes(first: bytes, other: bytes) -> dict[str, Callable[[], bytes]]:
    envelope = Envelope.decode(first)
    start = len(envelope.head.encode()) + len(shape_text(envelope.capsule.shape))
    seed_at = start + G1_BYTES
    row_at = seed_at + SEED_BYTES
    ends = len(first) - len(envelope.body) - len(envelope.signature), len(first) - len(envelope.body)

    def flipped(at: int) -> Callable[[], bytes]:
        return lambda: first[:at] + bytes([first[at] ^ 1]) + first[at + 1 :]

    def moved(at: int) -> Callable[[], bytes]:
        return lambda: first[:at] + other[at : at + G1_BYTES] + first[at + G1_BYTES :]

    return {
        "the masked seed": flipped(seed_at + 5),
        "h**b, of another event": moved(start),
        "g**b of the unconstrained attribute, of another event": moved(
            row_at + sum(map(_row_bytes, envelope.capsule.shape[:-1]))
        ),
        "the encrypted signature": flipped(ends[0] + 40),
        "the encrypted body": flipped(ends[1] + 9),
    }


def _row_bytes(places: int) -> int:
    return G1_BYTES * (1 + places) + TAG_BYTES * places


def _refused_in(ring: Keyring, envelope: bytes, now_us: int, rng: Random) -> float:
    began = perf_counter()
    try:
        ring.open({}, envelope, now_us=now_us, randomness=rng)
    except Unopenable:
        return (perf_counter() - began) * 1000
    raise WrongAnswer("a changed envelope opened")
