"""The vault's passphrase: keyboards and files that write it differently open the vault all the same."""

from __future__ import annotations

from random import Random

import pytest

from plait_crypto.keyserver import VaultClosed
from plait_crypto.keyserver.vault import close_vault, open_vault


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("caf\u00e9", "cafe\u0301", id="composed and decomposed"),
        pytest.param("o\ufb03ce", "office", id="a ligature"),
        pytest.param("\uff11\uff12", "12", id="wide digits"),
    ],
)
def test_equal_passphrases_in_other_code_points_open_the_vault(one: str, other: str) -> None:
    assert one != other
    for first, second in ((one, other), (other, one)):
        assert open_vault(close_vault(b"secret", first, Random(1), cost_n=2), second) == b"secret"


@pytest.mark.parametrize("other", ["cafe", "Caf\u00e9", "caf\u00e9 ", ""])
def test_other_passphrases_do_not(other: str) -> None:
    vault = close_vault(b"secret", "caf\u00e9", Random(1), cost_n=2)
    with pytest.raises(VaultClosed):
        open_vault(vault, other)
