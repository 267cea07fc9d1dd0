"""Encodings of keys, deposits, parameters and schemas that are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from struct import pack
from typing import Any

from plait_crypto import RoutingTokens, SubscriberKeys, deposit
from plait_crypto.hazmat.issuing import FILLER_SEED_BYTES
from plait_crypto.hazmat.parameters import MASTER_BYTES, PARAMETERS_BYTES

from .points import bad_points
from .scene import SCHEMAS, Scene
from .writer import Cases, Step, decoding

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
            if len(point) == 96:
                refused(
                    attack,
                    "one point",
                    encoded[: first + 2]
                    + _entry(encoded, first, what)
                    + point
                    + encoded[_after(encoded, first, what) :],
                )
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
    _parameters(cases, scene)
    _master_secrets(cases, scene)
    _schemas(cases)
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


def deposits(scene: Scene) -> Cases:
    """Return cases of deposits, and of what a broker finds with them."""
    cases = Cases(scene.inputs, "Deposits of routing tokens at brokers, and the tests of tags with them.")
    groups = scene.groups
    opened = scene.session.opening

    def deposited(filter: str, realm: str = "two rows", epoch: int = 0, **more: Any) -> bytes:
        issued = scene.issue(filter, realm, epoch, **more)
        return deposit(groups, [issued.routing(groups, coarse="coarse" in more)])

    fits = scene.inputs.put("deposit: level 1", deposited("level == 1"))
    sells = scene.inputs.put("deposit: sell", deposited("side == 'sell'"))

    def route(opening: bytes, *given: bytes) -> Step:
        return {"do": "route", "opening": opening, "deposits": list(given)}

    def told(attack: str, comment: str, expected: list[str], *given: bytes, opening: bytes = opened) -> None:
        cases.plain(attack, comment, str(expected), route(opening, *given))

    told("routed", "keys of the event, of others, none", ["fits", "other", "undecided"], fits, sells, b"")
    told("routed", "a union, one box of which fits", ["fits"], deposited("level == 1 or side == 'sell'"))
    told("routed", "level 1 and sell: one row fits", ["other"], deposited("level == 1 and side == 'sell'"))
    told(
        "routed",
        "coarse tokens for level 0 fit level 1",
        ["fits", "other"],
        deposited("level == 0", coarse=1),
        deposited("level == 0"),
    )
    told(
        "routed",
        "another epoch, another realm",
        ["undecided"] * 2,
        deposited("true", epoch=1),
        deposited("true", "other parameters"),
    )
    told("routed", "two epochs, one of which is the event's", ["fits"], deposited("level == 1", epoch=1) + fits)
    told("routed", "the shape of another schema", ["undecided"], _renamed(scene, deposited("true", "slots")))
    _made(cases, scene)
    length = int.from_bytes(fits[:4], "big")
    bad: dict[str, bytes] = {
        "two bytes": b"\0\0",
        "a length of zero": bytes(4),
        "a length one too small": pack(">I", length - 1) + fits[4:],
        "a length one too large": pack(">I", length + 1) + fits[4:],
        "a length beyond the end": pack(">I", 2**32 - 1) + fits[4:],
        "a byte more": fits + b"\0",
        "a second entry without content": fits + bytes(4),
        "the last byte is missing": fits[:-1],
        "subscriber keys": _framed(scene.one),
        "publisher keys": _framed(scene.inputs.bytes["publisher keys"]),
        "an opening": _framed(opened),
        "rows cut from the last box": _framed(fits[4:-2]),
    }
    for attack, point in bad_points(96).items():
        if len(point) == 96:
            bad[f"a token: {attack}"] = fits[:54] + point + fits[150:]
    for comment, data in bad.items():
        cases.plain("deposit", comment, INVALID, decoding("deposit", data))
        if comment in ("a length one too large", "a token: identity", "subscriber keys"):
            told(
                "routed", f"undecided, because the deposit is unreadable: {comment}", ["undecided", "fits"], data, fits
            )
    for comment, data in {
        "an event": scene.base,
        "a member": scene.members[0],
        "nothing": b"",
        "cut": opened[:-200],
        "first CT_i is the identity": opened[:125] + bad_points(48)["identity"] + opened[173:],
        "first CT_i is outside the subgroup": opened[:125] + bad_points(48)["wrong subgroup"] + opened[173:],
        "version 1": b"\1" + opened[1:],
    }.items():
        cases.plain("opening", f"{comment} in place of an opening", "not_authentic", route(data, fits))
    told("opening", "tags of the second session's opening", ["fits"], fits, opening=scene.second.opening)
    swapped = opened[:317] + bytes(48) + opened[365:]
    told("opening", "all tags of the first row changed: a broker cannot notice it", ["other"], fits, opening=swapped)
    return cases


def _made(cases: Cases, scene: Scene) -> None:
    """Add cases of the deposits that readers make of their keys."""

    def made(comment: str, *filters: str, realm: str = "two rows", kind: str = "exact", **more: Any) -> None:
        keys = tuple(scene.issue(filter, realm, **more).encode(scene.groups) for filter in filters)
        cases.reader("deposited", comment, "deposited", {"do": "deposit", "kind": kind}, realm=realm, keys=keys)

    two_levels = "level between 1 and 2 and side == 'buy'"
    made("two tokens of one row, a token and a filler of the other", two_levels)
    made("another issue of the same filter: the same bytes", two_levels)
    made("both issues on one ring: the same bytes", two_levels, two_levels)
    made("the only filler of a row", "price >= 1 and price < 3 and symbol == 'IBM'", realm="quotes")
    made(
        "three fillers of the same row, that one among them",
        "price >= 1 and price < 7 and symbol == 'IBM'",
        realm="quotes",
    )
    made("two boxes, in the order of their bytes", "level == 1 or level == 2")
    made("the same boxes, written the other way", "level == 2 or level == 1")
    made("boxes whose wider tokens are equal: one box", "level == 0 or level == 1", kind="coarse", coarse=1)
    made("no tokens", two_levels, kind="nothing")
    both = (scene.issue("level == 1", epoch=epoch).encode(scene.groups) for epoch in (0, 1))
    cases.reader(
        "deposited", "two epochs, the newest first", "deposited", {"do": "deposit", "kind": "exact"}, keys=(*both,)
    )


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


def _parameters(cases: Cases, scene: Scene) -> None:
    """Add cases of public parameters."""
    good = scene.inputs.bytes["parameters"]
    assert len(good) == PARAMETERS_BYTES

    def refused(attack: str, comment: str, data: bytes) -> None:
        cases.plain(attack, f"parameters: {comment}", "PointInvalid", decoding("parameters", data))

    refused("cut", "nothing", b"")
    refused("cut", "the last byte is missing", good[:-1])
    refused("lengthened", "a zero at the end", good + b"\0")
    for version in (0, 1, 3):
        refused("head", f"version {version}", bytes((version,)) + good[1:])
    end = 1 + 2 * 48 + 96
    for name, at, size in (
        ("g1", 1, 48),
        ("h", 49, 48),
        ("g2", 97, 96),
        ("u'", end, 48),
        ("u of the highest bit", end + 256 * 48, 48),
        ("m'", end + 257 * 48, 96),
        ("m of the highest bit", len(good) - 96, 96),
    ):
        for attack in ("identity", "wrong subgroup") if name != "g2" else tuple(bad_points(size)):
            if len(point := bad_points(size)[attack]) == size:
                refused(attack, name, good[:at] + point + good[at + size :])


def _master_secrets(cases: Cases, scene: Scene) -> None:
    """Add cases of master secrets, as a vault has them."""
    good = scene.inputs.bytes["master secret"]
    assert len(good) == MASTER_BYTES

    def refused(attack: str, comment: str, data: bytes) -> None:
        cases.plain(attack, f"master secret: {comment}", "PointInvalid", decoding("master secret", data))

    for count in (0, 1, 33, 65, 161, len(good) - 1):
        refused("cut", f"the first {count} bytes", good[:count])
    refused("lengthened", "a zero at the end", good + b"\0")
    refused("lengthened", "twice", good + good)
    for version in (0, 1, 3):
        refused("head", f"version {version}", bytes((version,)) + good[1:])
    order = scene.groups.order
    for name, at in (("phi", 1), ("psi", 33)):
        exponent = int.from_bytes(good[at : at + 32], "big")
        for comment, value in {
            "zero": 0,
            "the order": order,
            "the order more than it is": exponent + order,
            "all ones": 2**256 - 1,
        }.items():
            refused("exponent", f"{name}, {comment}", good[:at] + value.to_bytes(32, "big") + good[at + 32 :])
    for attack, point in bad_points(96).items():
        if len(point) == 96:
            refused(attack, "g2 ** alpha", good[:65] + point + good[161:])


def _schemas(cases: Cases) -> None:
    """Add cases of schemas."""
    whole: dict[str, Any] = json.loads(SCHEMAS["two rows"].to_json())
    level = whole["attributes"][0]
    for comment, changed in {
        "no attributes": {**whole, "attributes": []},
        "an attribute twice": {**whole, "attributes": [level, level]},
        "16 attributes": {**whole, "attributes": [{**level, "name": f"a{place}"} for place in range(16)]},
        "a name of Plait's own": {**whole, "attributes": [{**level, "name": "$time"}]},
        "an unknown type": {**whole, "attributes": [{**level, "type": "colours"}]},
        "a domain of one value": {**whole, "attributes": [{**level, "hi": 0}]},
        "a domain of 65 bits": {**whole, "attributes": [{**level, "hi": 2**64}]},
        "texts of 129 places": {
            **whole,
            "attributes": [{"name": "t", "type": "texts", "prefix_chars": 126, "suffix_chars": 0}],
        },
        "a value twice in an enumeration": {
            **whole,
            "attributes": [{"name": "e", "type": "one of", "values": [1, 1.0]}],
        },
        "an overlap of more than half an epoch": {
            **whole,
            "epochs": {**whole["epochs"], "overlap_us": whole["epochs"]["length_us"] // 2 + 1},
        },
        "25 bits of slots": {**whole, "epochs": {**whole["epochs"], "slot_bits": 25}},
        "no epochs": {"attributes": [level], "clear": []},
        "a clear attribute of Plait's own": {**whole, "clear": ["$sealed"]},
    }.items():
        cases.plain("schema", comment, "SealInvalid", decoding("schema", json.dumps(changed).encode()))
    surrogate = {**whole, "attributes": [{"name": "e", "type": "one of", "values": ["\ud800"]}]}
    for comment, changed in {
        "a lone surrogate": surrogate,
        "clear attributes as a text": {**whole, "clear": "abc"},
    }.items():
        cases.plain("schema", comment, "SealInvalid", decoding("schema", json.dumps(changed).encode()))
    cases.plain("schema", "no JSON", "SealInvalid", decoding("schema", b"{"))
    cases.plain("schema", "deep", "SealInvalid", decoding("schema", b"[" * 9 + b"]" * 9))


def _entry(encoded: bytes, first: int, what: str) -> bytes:
    """Return place and label of the first credential; nothing for routing tokens."""
    if what == "routing tokens":
        return b""
    size = int.from_bytes(encoded[first + 4 : first + 6], "big")
    return encoded[first + 2 : first + 6 + size]


def _after(encoded: bytes, first: int, what: str) -> int:
    """Return where the first point of the first row ends."""
    return first + 2 + len(_entry(encoded, first, what)) + 96


def _coarse_bytes(issued: SubscriberKeys) -> int:
    return sum(2 + 96 * len(row.tokens) + FILLER_SEED_BYTES for row in issued.boxes[0].coarse)


def _framed(data: bytes) -> bytes:
    return pack(">I", len(data)) + data


def _renamed(scene: Scene, found: bytes) -> bytes:
    """Return a deposit under the name of the first realm, with one row of two removed."""
    decoded = RoutingTokens.decode(scene.groups, found[4:])
    boxes = tuple(box[:1] for box in decoded.boxes)
    return _framed(RoutingTokens(scene.realm().digest, 0, boxes).encode(scene.groups))
