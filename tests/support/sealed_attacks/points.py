"""Encodings of points that no honest member makes."""

from __future__ import annotations

from functools import cache

from py_ecc.bls.point_compression import decompress_G2

from plait_crypto.hazmat import ArkworksGroups

FIELD = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
"""The prime of BLS12-381's base field."""


@cache
def bad_points(size: int) -> dict[str, bytes]:
    """Return encodings of a point's size to refuse, by the attack."""
    groups = ArkworksGroups()
    good = _good(groups, size)
    return {
        "identity": b"\xc0" + bytes(size - 1),
        "identity with a sign": b"\xe0" + bytes(size - 1),
        "identity with something behind it": b"\xc0" + bytes(size - 2) + b"\1",
        "zeros": bytes(size),
        "all ones": b"\xff" * size,
        "not compressed": bytes((good[0] & 0x7F,)) + good[1:],
        "not below the modulus": _raised(groups, size),
        "the modulus": ((0b100 << 381) | FIELD).to_bytes(48, "big") + bytes(size - 48),
        "off the curve": b"\x80" + bytes(size - 2) + b"\1",
        "wrong subgroup": _outside_g1() if size == 48 else _outside_g2(),
    }


@cache
def bad_encodings(size: int) -> dict[str, bytes]:
    """Return all encodings to refuse, those of another size included."""
    good = _good(ArkworksGroups(), size)
    return {"nothing": b"", "short": good[:-1], "long": good + b"\0", **bad_points(size)}


def _good(groups: ArkworksGroups, size: int) -> bytes:
    return groups.g1.encode(groups.g1.generator) if size == 48 else groups.g2.encode(groups.g2.generator)


def _raised(groups: ArkworksGroups, size: int) -> bytes:
    """Return a point of the group with the modulus added to a coordinate, which still fits into its bits."""
    group = groups.g1 if size == 48 else groups.g2
    for power in range(1, 100):
        good = group.encode(group.power(group.generator, power))  # type: ignore[attr-defined]
        x = int.from_bytes(good[-48:], "big")
        if size == 96:
            return good[:48] + (x + FIELD).to_bytes(48, "big")
        if (x & ((1 << 381) - 1)) + FIELD < 1 << 381:
            return (x + FIELD).to_bytes(48, "big")
    raise AssertionError


def _outside_g1() -> bytes:
    for x in range(4, 100):
        y = pow(x**3 + 4, (FIELD + 1) // 4, FIELD)
        if y * y % FIELD == (x**3 + 4) % FIELD:
            return (x + (1 << 383)).to_bytes(48, "big")
    raise AssertionError


def _outside_g2() -> bytes:
    for x in range(1, 100):
        try:
            decompress_G2((1 << 383, x))  # type: ignore[arg-type]
        except ValueError:
            continue
        return (1 << 383).to_bytes(48, "big") + x.to_bytes(48, "big")
    raise AssertionError
