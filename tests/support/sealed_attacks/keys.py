"""Encodings of keys that are refused, and keys of other realms."""

from __future__ import annotations

from dataclasses import replace
from struct import pack

from plait_crypto import SubscriberKeys
from plait_crypto.hazmat.issuing import FILLER_SEED_BYTES

from .points import bad_points
from .scene import Scene
from .writer import Cases, decoding

INVALID = "KeyInvalid"
KINDS = {"publisher keys": 1, "subscriber keys": 2, "routing tokens": 3}
HEAD = 48
"""Bytes of the head of encoded keys: version, kind, realm, epoch, owner, boxes, rows."""


def keys(scene: Scene) -> Cases:
    """Return cases of encoded keys."""
    cases = Cases(scene.inputs, "Encoded keys that no key server issues, and keys of other realms.")
    groups = scene.groups
    issued = scene.issue("level == 1", coarse=1)
    good = {
        "publisher keys": scene.inputs.put("publisher keys", scene.publisher_keys("level == 1").encode(groups)),
        "subscriber keys": scene.inputs.put("subscriber keys", issued.encode(groups)),
        "routing tokens": scene.inputs.put("routing tokens", issued.routing(groups).encode(groups)),
    }
    for what, encoded in good.items():

        def refused(attack: str, comment: str, data: bytes, what: str = what) -> None:
            cases.plain(attack, f"{what}: {comment}", INVALID, decoding(what, data))

        first = HEAD + (96 if what == "subscriber keys" else 0)
        for count in (0, 1, HEAD - 1, HEAD, first + 1, first + 2, len(encoded) - 1):
            refused("cut", f"the first {count} bytes", encoded[:count])
        refused("lengthened", "a zero at the end", encoded + b"\0")
        for version in (0, 1, 3):
            refused("head", f"version {version}", bytes((version,)) + encoded[1:])
        for kind in (0, *(each for each in KINDS.values() if each != KINDS[what]), 4):
            refused("head", f"kind {kind}", encoded[:1] + bytes((kind,)) + encoded[2:])
        for boxes in (0, 2, 65):
            refused("head", f"{boxes} boxes", encoded[:46] + bytes((boxes,)) + encoded[47:])
        for rows in (0, 3, 17):
            refused("head", f"{rows} rows", encoded[:47] + bytes((rows,)) + encoded[48:])
        refused("head", "0 boxes, and nothing else", encoded[:46] + b"\0\2")
        if what != "subscriber keys":
            refused("head", "65 boxes of empty rows", encoded[:46] + b"\x41\2" + bytes(65 * 2 * 2))
            refused("head", "17 empty rows", encoded[:46] + b"\1\x11" + bytes(17 * 2))
            refused("head", "0 rows, and nothing else", encoded[:46] + b"\1\0")
        if what != "publisher keys":
            refused("head", "an owner", encoded[:45] + b"\1" + encoded[46:])
        refused("count", "65,535 entries in the first row", encoded[:first] + b"\xff\xff" + encoded[first + 2 :])
        for attack, point in bad_points(96).items():
            at = first + 2 + _entry_bytes(encoded, first, what)
            refused(attack, "one point", encoded[:at] + point + encoded[at + 96 :])
        if what != "routing tokens":
            entry = first + 2
            refused("credential", "place 128", encoded[:entry] + pack(">H", 128) + encoded[entry + 2 :])
            refused("credential", "a label of 65,535 bytes", encoded[: entry + 2] + b"\xff\xff" + encoded[entry + 4 :])
    flag = good["subscriber keys"]
    coarse = len(flag) - _coarse_bytes(issued) - 1
    cases.plain(
        "head",
        "subscriber keys: coarse tokens, flag 2",
        INVALID,
        decoding("subscriber keys", flag[:coarse] + b"\2" + flag[coarse + 1 :]),
    )
    cases.plain(
        "head",
        "subscriber keys: coarse tokens without their flag",
        INVALID,
        decoding("subscriber keys", flag[:coarse] + b"\0" + flag[coarse + 1 :]),
    )
    cases.plain(
        "cut",
        "subscriber keys: coarse tokens announced, and missing",
        INVALID,
        decoding("subscriber keys", flag[: coarse + 1]),
    )
    _seeds(cases, issued, flag)
    _of_other_realms(cases, scene)
    return cases


def _seeds(cases: Cases, issued: SubscriberKeys, encoded: bytes) -> None:
    """Add cases of seeds of fillers with which a deposit would show its tokens."""
    size = FILLER_SEED_BYTES
    end = len(encoded) - _coarse_bytes(issued) - 1
    level, side, coarse = end - 2 * size, end - size, len(encoded) - size
    seeds = [encoded[at : at + size] for at in (level, side, coarse)]
    assert seeds[1:] == [issued.boxes[0].seeds[1]] * 2, "the whole side is in both rows"

    def refused(attack: str, comment: str, data: bytes) -> None:
        cases.plain(attack, f"subscriber keys: {comment}", INVALID, decoding("subscriber keys", data))

    def replaced(at: int, seed: bytes) -> bytes:
        return encoded[:at] + seed + encoded[at + size :]

    refused("cut", "no seeds", encoded[:level] + encoded[end:])
    refused("cut", "the first seed alone", encoded[:side] + encoded[end:])
    refused("cut", "the second seed lacks a byte", encoded[: end - 1] + encoded[end:])
    refused("cut", "no seed of the last coarse tokens", encoded[:coarse])
    refused("lengthened", "a seed more than rows", encoded[:end] + seeds[0] + encoded[end:])
    for comment, at in (("first", level), ("last coarse", coarse)):
        refused("seed", f"the {comment} seed is zero", replaced(at, bytes(size)))
    refused("seed", "one seed for two rows", replaced(level, seeds[1]))
    refused("seed", "the seeds of two rows exchanged", encoded[:level] + seeds[1] + seeds[0] + encoded[end:])
    refused("seed", "two seeds for the same tokens", replaced(coarse, seeds[2][:-1] + bytes((seeds[2][-1] ^ 1,))))


def _of_other_realms(cases: Cases, scene: Scene) -> None:
    """Add cases of whole keys of other realms, on a ring."""

    def adding(do: str, comment: str, keys: bytes) -> None:
        cases.reader("another realm", comment, INVALID, {"do": do, "keys": keys})

    groups, mine = scene.groups, scene.realm().digest
    adding("add keys", "of other parameters", scene.issue("true", "other parameters").encode(groups))
    adding("add keys", "of another schema", scene.issue("true", "quotes").encode(groups))
    foreign = scene.issue("level == 1")
    box = foreign.boxes[0]
    fewer = SubscriberKeys(mine, 0, (replace(box, rows=box.rows[:1], seeds=box.seeds[:1]),))
    adding("add keys", "a row less than the schema", fewer.encode(groups))
    there = SubscriberKeys(mine, 0, scene.issue("price < 2", "quotes").boxes)
    adding("add keys", "a place that the schema does not have", there.encode(groups))
    adding(
        "add publisher keys",
        "of other parameters",
        scene.publisher_keys("true", realm="other parameters").encode(groups),
    )
    lied = scene.publisher_keys("price < 2", realm="quotes")
    object.__setattr__(lied, "realm", mine)
    adding("add publisher keys", "a place that the schema does not have", lied.encode(groups))
    less = scene.publisher_keys("true")
    object.__setattr__(less, "boxes", (less.boxes[0][:1],))
    adding("add publisher keys", "a row less than the schema", less.encode(groups))


def _entry_bytes(encoded: bytes, first: int, what: str) -> int:
    """Return the size of place and label of the first credential; 0 for routing tokens."""
    return 0 if what == "routing tokens" else 4 + int.from_bytes(encoded[first + 4 : first + 6], "big")


def _coarse_bytes(issued: SubscriberKeys) -> int:
    return sum(2 + 96 * len(row.tokens) + FILLER_SEED_BYTES for row in issued.boxes[0].coarse)
