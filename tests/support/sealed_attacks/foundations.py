"""Encodings of public parameters, master secrets and schemas that are refused."""

from __future__ import annotations

import json
from typing import Any

from plait_crypto.hazmat.parameters import MASTER_BYTES, PARAMETERS_BYTES

from .points import bad_points
from .scene import SCHEMAS, Scene
from .writer import Cases, decoding


def parameters(scene: Scene) -> Cases:
    """Return cases of public parameters."""
    cases = Cases(scene.inputs, "Encoded public parameters that no key server has.")
    good = scene.inputs.bytes["parameters"]
    assert len(good) == PARAMETERS_BYTES

    def refused(attack: str, comment: str, data: bytes) -> None:
        cases.plain(attack, comment, "PointInvalid", decoding("parameters", data))

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
        for attack in bad_points(size) if name == "g2" else ("identity", "wrong subgroup"):
            refused(attack, name, good[:at] + bad_points(size)[attack] + good[at + size :])
    return cases


def master_secrets(scene: Scene) -> Cases:
    """Return cases of master secrets, as a vault has them."""
    cases = Cases(scene.inputs, "Encoded master secrets that no key server draws.")
    good = scene.inputs.bytes["master secret"]
    assert len(good) == MASTER_BYTES

    def refused(attack: str, comment: str, data: bytes) -> None:
        cases.plain(attack, comment, "PointInvalid", decoding("master secret", data))

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
        refused(attack, "g2 ** alpha", good[:65] + point + good[161:])
    return cases


def schemas(scene: Scene) -> Cases:
    """Return cases of schemas."""
    cases = Cases(scene.inputs, "Texts that are no schema.")
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
        "a lone surrogate": {**whole, "attributes": [{"name": "e", "type": "one of", "values": ["\ud800"]}]},
        "clear attributes as a text": {**whole, "clear": "abc"},
    }.items():
        cases.plain("schema", comment, "SealInvalid", decoding("schema", json.dumps(changed).encode()))
    cases.plain("schema", "no JSON", "SealInvalid", decoding("schema", b"{"))
    cases.plain("schema", "deep", "SealInvalid", decoding("schema", b"[" * 9 + b"]" * 9))
    return cases
