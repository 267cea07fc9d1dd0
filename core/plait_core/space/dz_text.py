"""Plain dz-expressions as bare texts, for the inner loops. `Dz` validates texts from outside."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest


def bits_text(number: int, bits: int) -> str:
    """Write `number` in exactly `bits` binary digits; no digits for zero bits."""
    assert 0 <= number < 1 << bits, "a cell lies in its dimension"
    return bin(1 << bits | number)[3:]


def interleave(texts: Iterable[str]) -> str:
    """Take one bit of each dimension in turn. A dimension without bits left is skipped.

    That keeps the tree at the product of the dimensions' granularities, as thesis 5.4.1 counts it: a flag beside a
    price costs one bit, not as many as the price.
    """
    return "".join(chain.from_iterable(zip_longest(*texts, fillvalue="")))


def sibling_text(text: str) -> str:
    """Return `text` with its last bit inverted."""
    return text[:-1] + ("1" if text[-1] == "0" else "0")


def common_prefix(a: str, b: str) -> str:
    """Return the smallest sub-space that contains both."""
    for place, (bit, other) in enumerate(zip(a, b, strict=False)):
        if bit != other:
            return a[:place]
    return min(a, b)


def canonical(texts: Iterable[str]) -> list[str]:
    """Sort, drop covered dz-expressions and merge siblings repeatedly. In sorted order one pass suffices."""
    kept: list[str] = []
    for text in sorted(texts):
        if kept and text.startswith(kept[-1]):
            continue
        kept.append(text)
        while len(kept) > 1 and kept[-2] == sibling_text(kept[-1]):
            kept[-2:] = [kept[-1][:-1]]
    return kept
