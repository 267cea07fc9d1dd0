"""Plain dz-expressions as bare texts: what the inner loops work on. `Dz` checks what comes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest


def bits_text(number: int, bits: int) -> str:
    """`number` in exactly `bits` binary digits; none for zero bits."""
    assert 0 <= number < 1 << bits, "a cell lies in its dimension"
    return bin(1 << bits | number)[3:]


def interleave(texts: Iterable[str]) -> str:
    """One bit of each dimension in turn. A dimension that has no bits left is passed over.

    That keeps the tree at the product of the dimensions' granularities, as thesis 5.4.1 counts it: a flag next to a
    price costs one bit, not as many as the price.
    """
    return "".join(chain.from_iterable(zip_longest(*texts, fillvalue="")))


def sibling_text(text: str) -> str:
    """`text` with its last bit turned."""
    return text[:-1] + ("1" if text[-1] == "0" else "0")


def common_prefix(a: str, b: str) -> str:
    """The smallest sub-space around both."""
    for place, (bit, other) in enumerate(zip(a, b, strict=False)):
        if bit != other:
            return a[:place]
    return min(a, b)


def canonical(texts: Iterable[str]) -> list[str]:
    """Sorted, without what another covers, siblings merged again and again. In sorted order one pass does it all."""
    kept: list[str] = []
    for text in sorted(texts):
        if kept and text.startswith(kept[-1]):
            continue
        kept.append(text)
        while len(kept) > 1 and kept[-2] == sibling_text(kept[-1]):
            kept[-2:] = [kept[-1][:-1]]
    return kept
