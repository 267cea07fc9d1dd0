"""Coverage-guided fuzzing of sealed events: envelopes, openings, members, payloads, plaintexts.

python tests/fuzz/fuzz_envelopes.py -runs=1000000 tests/fuzz/corpus/envelopes
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from sealed_inputs import changed, named, runner

NOON_US = 12 * 3_600_000_000


@functools.cache
def scene() -> Any:
    """Return a reader's payload reader, with a session that has begun."""
    from plait_crypto import Keyring, PayloadReader, SubscriberKeys

    ring = Keyring(runner().realm("two rows"))
    ring.add(SubscriberKeys.decode(runner().groups, named("keys: all")))
    ring.begin(named("opening"), now_us=NOON_US, randomness=Random(1))
    return PayloadReader(ring)


def check(data: bytes) -> None:
    """Check that bytes open or are Unopenable, that no change of an event opens, and that encodings are unique."""
    ways: list[Callable[[bytes], None]] = [_open, _begin, _payload, _plaintext, _event, _member, _opening, _whole]
    if data:
        ways[data[0] % len(ways)](data[1:])


def _refused(attempt: Callable[[], object]) -> bool:
    """Return whether an attempt raises Unopenable, with the one message."""
    from plait_crypto import Unopenable

    try:
        attempt()
    except Unopenable as error:
        assert (str(error), error.args, error.__cause__) == ("a sealed event that does not open here", (), None)
        return True
    return False


def _now() -> dict[str, Any]:
    return {"now_us": NOON_US, "randomness": Random(1)}


def _open(data: bytes) -> None:
    from plait_crypto.envelope import MEMBER, Envelope, Member, kind_of

    if not _refused(lambda: kind_of(data)):
        decode: Any = Member.decode if kind_of(data) == MEMBER else Envelope.decode
        if not _refused(lambda: decode(data)):
            assert decode(data).encode() == data
    if not _refused(lambda: scene().keyring.open({}, data, **_now())):
        assert data in {named("event"), named("second event"), *(named(f"member {each}") for each in range(3))}


def _begin(data: bytes) -> None:
    if not _refused(lambda: scene().keyring.begin(data, **_now())):
        assert data in (named("opening"), named("second opening"))


def _payload(data: bytes) -> None:
    scene().cheap(data)
    _refused(lambda: scene().open({}, data, **_now()))


def _plaintext(data: bytes) -> None:
    from plait_crypto.plaintext import Plaintext

    if not _refused(lambda: Plaintext.decode(data)):
        found = Plaintext.decode(data).encode()
        assert Plaintext.decode(found).encode() == found


def _event(data: bytes) -> None:
    _open(changed(named("event"), data))


def _member(data: bytes) -> None:
    _open(changed(named("member 1"), data))


def _opening(data: bytes) -> None:
    _begin(changed(named("opening"), data))


def _whole(data: bytes) -> None:
    _payload(changed(named("sealed payload"), data))


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["plait_crypto", "plait_core.wire"]):
        import plait_crypto  # noqa: F401
    scene()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
