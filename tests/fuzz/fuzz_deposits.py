"""Coverage-guided fuzzing of what brokers read of sealed events: deposits and openings.

python tests/fuzz/fuzz_deposits.py -runs=1000000 tests/fuzz/corpus/deposits
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from sealed_inputs import changed, named, runner

FITTING, OTHER = "deposit: level 1", "deposit: sell"


def check(data: bytes) -> None:
    """Check that a deposit has one encoding or is KeyInvalid, and that it changes nothing for other subscriptions."""
    ways: list[Callable[[bytes], None]] = [
        _deposit,
        _opening,
        lambda rest: _deposit(changed(named(FITTING), rest)),
        lambda rest: _deposit(changed(named(OTHER), rest)),
        lambda rest: _opening(changed(named("opening"), rest)),
    ]
    if data:
        ways[data[0] % len(ways)](data[1:])


def _deposit(data: bytes) -> None:
    from plait_core.sealed_opening import Fit
    from plait_crypto import KeyInvalid, Router, TagTest
    from plait_crypto.routing import deposited

    groups = runner().groups
    try:
        keys = deposited(groups, data)
    except KeyInvalid:
        keys = ()
    else:
        encoded = [each.encode(groups) for each in keys]
        assert b"".join(len(each).to_bytes(4, "big") + each for each in encoded) == data
    first, found, last = Router(groups).test(named("opening"), [named(FITTING), data, named(OTHER)])
    assert (first, last) == (Fit.FITS, Fit.OTHER)
    assert keys or found is Fit.UNDECIDED
    test, router = TagTest(named("opening"), data), Router(groups)
    while test.fit is None:
        assert router.run(test, 1) <= 1
    assert test.fit is found


def _opening(data: bytes) -> None:
    from plait_core.sealed_opening import Fit, opening_of
    from plait_crypto import Router, Unopenable

    found = opening_of(data)
    assert found is None or found in data
    try:
        fits = Router(runner().groups).test(data, [named(FITTING), b""])
    except Unopenable:
        return
    assert fits[1] is Fit.UNDECIDED


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["plait_crypto"]):
        import plait_crypto  # noqa: F401
    runner()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
