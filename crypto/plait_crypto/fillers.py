"""Fillers: random points that fill the rows of a deposit to one power of two.

So one deposit tells neither how many credentials a row needs nor which attributes are constrained. Nothing may tell the
two kinds of points apart where deposits are compared. So fillers are as fixed as tokens are: the key server derives a
seed from the credentials of a row, and the row's n-th filler follows from its seed and n alone.

- Two issues for one filter have one deposit, byte for byte. They tell that the filters are equal, and no more.
- Two filters with one row in common have the same points in this row. If their deposits have rows of different sizes,
  the points of the smaller one are among those of the larger one.
- Two rows that share some of their credentials share these tokens and no filler. This shows which points are tokens of
  both, and cannot be hidden: brokers compare tokens, so the same credential has the same token. A filler for each
  credential, shared along with its token, would leave the number of shared credentials to be counted, and would double
  the pairings of brokers.
- Members with the same credentials of a row have its seed, and know all its tokens anyway. Other seeds are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from .errors import KeyInvalid
from .hazmat import Groups
from .hazmat.backend import G2
from .hazmat.hashing import TO_G2, digest

Tokens: TypeAlias = tuple[tuple[G2, ...], ...]
"""For each row, what brokers test tags with: S3 of a credential, or a filler."""


class TokenRow(NamedTuple):
    """The tokens of one row, and the seed of its fillers."""

    tokens: tuple[G2, ...]
    seed: bytes


def filled(groups: Groups, rows: Sequence[TokenRow]) -> Tokens:
    """Return the tokens of each row among fillers, in an order that tells nothing."""
    most = max(len(row.tokens) for row in rows)
    size = 1 << (most - 1).bit_length()
    found = []
    for tokens, seed in rows:
        labels = (digest(b"filler", seed, number.to_bytes(2, "big")) for number in range(size - len(tokens)))
        fillers = [groups.hash_to_g2(label, TO_G2) for label in labels]
        found.append(tuple(sorted([*tokens, *fillers], key=groups.g2.encode)))
    return tuple(found)


def check_seeds(groups: Groups, rows: Iterable[TokenRow]) -> None:
    """Raise KeyInvalid unless rows with the same tokens, and no others, have the same seed, which is not zero.

    Otherwise a deposit would show which points are tokens.
    """
    seeds = dict[frozenset[bytes], bytes]()
    for tokens, seed in rows:
        row = frozenset(map(groups.g2.encode, tokens))
        if not any(seed) or seeds.setdefault(row, seed) != seed:
            raise KeyInvalid("keys with a seed of fillers that no key server gives")
    if len(set(seeds.values())) < len(seeds):
        raise KeyInvalid("keys with one seed of fillers for two rows")
