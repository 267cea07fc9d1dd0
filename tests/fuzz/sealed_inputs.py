"""What the fuzzers of sealed events share: the named inputs of the vectors, and changes of them.

An input begins with a byte that selects a way in. `changed` reads the rest as an offset (2), bytes to remove (1) and
bytes to insert, so that a fuzzer gets behind checks that random bytes never pass.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

SUPPORT = str(Path(__file__).parent.parent / "support")
CHANGE_BYTES = 3


@functools.cache
def runner() -> Any:
    """Return a runner of cases with the fast backend, which has the realms and the named inputs."""
    if SUPPORT not in sys.path:
        sys.path.insert(0, SUPPORT)
    import sealed_cases

    from plait_crypto.hazmat import ArkworksGroups

    return sealed_cases.Runner(ArkworksGroups())


@functools.cache
def named(name: str) -> bytes:
    """Return a named input of the vectors."""
    found: bytes = runner().bytes_of({"of": name})
    return found


def changed(whole: bytes, data: bytes) -> bytes:
    """Return an input with a change that the data describes."""
    at, remove = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:3], "big")
    at = min(at, len(whole))
    return whole[:at] + data[CHANGE_BYTES:] + whole[at + remove :]
