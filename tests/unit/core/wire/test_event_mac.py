"""MACs of events: both implementations compute the same, and every change of an event changes its MAC."""

from __future__ import annotations

import importlib.util
from random import Random
from types import ModuleType

import pytest

from plait_core import native
from plait_core.wire import event_mac

KEY = bytes(range(32))
LENGTHS = (
    0,
    1,
    110,
    111,
    112,
    239,
    240,
    event_mac.SHORT_BYTES - 1,
    event_mac.SHORT_BYTES,
    event_mac.SHORT_BYTES + 1,
    70_000,
)
"""Sizes around the digest's own blocks of 128 bytes, and around the limit above which a digest replaces the block."""


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module without the kernel."""
    monkeypatch.setattr(native, "kernel", None)
    found = importlib.util.find_spec(event_mac.__name__)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_both_make_the_same(in_python: ModuleType) -> None:
    assert in_python.EventProver.__module__ == in_python.__name__, "it is the Python implementation"
    rng = Random(5)
    for length in LENGTHS:
        key, block = rng.randbytes(rng.randint(1, 64)), rng.randbytes(length)
        place = (rng.getrandbits(64), rng.getrandbits(64), rng.getrandbits(8))
        assert event_mac.EventProver(key).prove(*place, block) == in_python.EventProver(key).prove(*place, block)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_mac_covers_every_part_of_an_event(length: int) -> None:
    prover, block = event_mac.EventProver(KEY), bytes(length)
    proof = prover.prove(7, 8, 1, block)
    assert proof == prover.prove(7, 8, 1, block), "a prover computes any number of MACs"
    others = [(6, 8, 1, block), (7, 9, 1, block), (7, 8, 0, block), (7, 8, 1, block + b"\0")]
    if length:
        others += [(7, 8, 1, b"\1" + block[1:]), (7, 8, 1, block[:-1] + b"\1"), (7, 8, 1, block[:-1])]
    assert all(prover.prove(*other) != proof for other in others)
    assert event_mac.EventProver(KEY[::-1]).prove(7, 8, 1, block) != proof


def test_a_key_has_1_to_64_bytes(in_python: ModuleType) -> None:
    for module in (event_mac, in_python):
        for key in (b"", bytes(65)):
            with pytest.raises(ValueError):
                module.EventProver(key)
