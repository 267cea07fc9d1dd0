"""Coverage-guided fuzzing of keys, public parameters and schemas.

python tests/fuzz/fuzz_keys.py -runs=1000000 tests/fuzz/corpus/keys
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from sealed_inputs import changed, named, runner

NOON_US = 12 * 3_600_000_000


def check(data: bytes) -> None:
    """Check that bytes are keys with one encoding, or raise the one error, and that a ring takes or refuses them."""
    ways: list[Callable[[bytes], None]] = [
        _publisher,
        _subscriber,
        _routing,
        _parameters,
        _schema,
        lambda rest: _publisher(changed(named("publisher keys"), rest)),
        lambda rest: _subscriber(changed(named("subscriber keys"), rest)),
        lambda rest: _routing(changed(named("routing tokens"), rest)),
        lambda rest: _parameters(changed(named("parameters"), rest)),
    ]
    if data:
        ways[data[0] % len(ways)](data[1:])


def _decoded(kind: Any, data: bytes) -> Any:
    from plait_crypto import KeyInvalid

    try:
        found = kind.decode(runner().groups, data)
    except KeyInvalid:
        return None
    assert found.encode(runner().groups) == data
    return found


def _publisher(data: bytes) -> None:
    from plait_crypto import Draft, KeyInvalid, KeyMissing, PublisherKeys, Sealer

    keys = _decoded(PublisherKeys, data)
    if keys is None:
        return
    sealer = Sealer(runner().realm("two rows"), keys.publisher)
    try:
        sealer.add(keys)
        for level in (None, 0, 1):
            sealer.seal(Draft({"side": "buy", "level": level}), now_us=NOON_US, randomness=Random(1))
    except (KeyInvalid, KeyMissing):
        pass


def _subscriber(data: bytes) -> None:
    from plait_crypto import KeyInvalid, Keyring, SealInvalid, SubscriberKeys, Unopenable

    keys = _decoded(SubscriberKeys, data)
    if keys is None:
        return
    keys.routing(runner().groups)
    ring = Keyring(runner().realm("two rows"))
    try:
        ring.add(keys)
        ring.deposit()
        ring.open({}, named("event"), now_us=NOON_US, randomness=Random(1))
    except (KeyInvalid, SealInvalid, Unopenable):
        pass


def _routing(data: bytes) -> None:
    from plait_crypto import RoutingTokens

    _decoded(RoutingTokens, data)


def _parameters(data: bytes) -> None:
    from plait_crypto.hazmat import Parameters, PointInvalid

    try:
        found = Parameters.decode(runner().groups, data)
    except PointInvalid:
        return
    assert found.encode() == data


def _schema(data: bytes) -> None:
    from plait_crypto import Schema, SealInvalid

    try:
        found = Schema.from_json(data.decode(errors="replace"))
    except SealInvalid:
        return
    again = Schema.from_json(found.to_json())
    assert (again.to_json(), again.digest, again.shape) == (found.to_json(), found.digest, found.shape)
    assert [len(path) for path in found.paths({}, 0)] == list(found.shape)


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["plait_crypto", "plait_core.space"]):
        import plait_crypto  # noqa: F401
    runner()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
