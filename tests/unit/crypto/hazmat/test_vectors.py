"""Known answers: both backends reproduce the frozen vectors, from set-up to the bytes of an envelope."""

from __future__ import annotations

import pytest
import sealed_vectors as vectors

from plait_crypto.hazmat import ArkworksGroups
from plait_crypto.hazmat.reference import ReferenceGroups


def test_the_fast_backend_gives_the_frozen_answers() -> None:
    assert vectors.everything(ArkworksGroups()) == vectors.frozen()


def test_the_reference_gives_the_frozen_answers() -> None:
    assert vectors.everything(ReferenceGroups()) == vectors.frozen()


@pytest.mark.nightly
@pytest.mark.parametrize(("rows", "places"), [(1, 5), (3, 3), (4, 2)])
def test_the_backends_agree_on_more(rows: int, places: int) -> None:
    fast, slow = (vectors.foundations(groups)[:2] for groups in (ArkworksGroups(), ReferenceGroups()))
    assert vectors.scheme(*fast, rows, places) == vectors.scheme(*slow, rows, places)


def test_hash_to_g2_is_that_of_rfc_9380() -> None:
    """Check RFC 9380, J.10.1: the empty message under the suite's test tag, as a compressed point."""
    tag = b"QUUX-V01-CS02-with-BLS12381G2_XMD:SHA-256_SSWU_RO_"
    x_imaginary = "05cb8437535e20ecffaef7752baddf98034139c38452458baeefab379ba13dff5bf5dd71b72418717047f5b0f37da03d"
    x_real = "0141ebfbdca40eb85b87142e130ab689c673cf60f1a3e98d69335266f30d9b8d4ac44c1038e9dcdd5393faf5c41fb78a"
    for groups in (ArkworksGroups(), ReferenceGroups()):
        encoded = groups.g2.encode(groups.hash_to_g2(b"", tag))
        assert bytes((encoded[0] & 0x1F,)) + encoded[1:] == bytes.fromhex(x_imaginary + x_real)
