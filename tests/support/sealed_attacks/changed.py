"""Attacks of brokers and strangers who change events: their points, sizes, bits, order and clear attributes."""

from __future__ import annotations

from typing import Any

from py_ecc.bls.point_compression import compress_G1, decompress_G1
from py_ecc.optimized_bls12_381 import add

from .points import bad_points
from .scene import BASE, PARTS, Scene, part, replaced
from .writer import Cases, begin, opening

NO = "not_authentic"
USED = ("CT2", "first CT_i", "first row's whole part", "second row's whole part")
"""Points that a reader with keys of all events decodes."""


def points(scene: Scene) -> Cases:
    """Return cases of points that are none, or not in the group."""
    cases = Cases(scene.inputs, "Points of capsules that are the identity, outside the subgroup, or not canonical.")
    for name in USED:
        for attack, encoded in bad_points(48).items():
            cases.reader(attack, f"{name}: {attack}", NO, opening(replaced(scene.base, name, encoded)))
        shifted = _with_order_3(part(scene.base, name))
        comment = f"{name}, times a point of order 3: pairings do not notice it"
        cases.reader("wrong subgroup", comment, NO, opening(replaced(scene.base, name, shifted)))
    unused = replaced(scene.base, "first row's third part", bad_points(48)["identity"])
    cases.reader("identity", "a part that this reader does not use", NO, opening(unused))
    for attack in ("identity", "wrong subgroup"):
        changed = replaced(scene.session.opening, "first CT_i", bad_points(48)[attack])
        cases.reader(attack, "first CT_i of an opening", NO, begin(changed))
        cases.reader(attack, "first CT_i, which a tag is computed from", NO, begin(changed), keys=(scene.one,))
    return cases


def cut(scene: Scene) -> Cases:
    """Return cases of envelopes that are too short or too long."""
    cases = Cases(scene.inputs, "Envelopes that end too early or too late, or whose sizes do not fit.")
    whole, member = scene.base, scene.members[1]
    ends = {name: at for name, (at, _) in PARTS.items()}
    for name, at in ends.items():
        cases.reader("cut", f"the {name} and all behind it is missing", NO, opening(whole[:at]))
    for count in (1, 16, 17):
        cases.reader("cut", f"the last {count} bytes are missing", NO, opening(whole[:-count]))
    cases.reader("lengthened", "a zero at the end", NO, opening(whole + b"\0"))
    cases.reader("lengthened", "a zero in front", NO, opening(b"\0" + whole))
    cases.reader("lengthened", "two events at once", NO, opening(whole + whole))
    cases.reader(
        "lengthened", "a place more in the second row", NO, opening(replaced(whole, "places of the second row", b"\3"))
    )
    for rows in (b"\0", b"\1", b"\x11", b"\xff"):
        expected = "another_realm" if rows == b"\1" else NO
        cases.reader("lengthened", f"{rows[0]} rows", expected, opening(replaced(whole, "number of rows", rows)))
    for places in (b"\0", b"\x81"):
        changed = replaced(whole, "places of the first row", places)
        cases.reader("lengthened", f"{places[0]} places in the first row", NO, opening(changed))
    for count in (0, 1, 2, 37, 38, 39, 40, 41, len(member) - 16, len(member) - 1):
        steps = begin(scene.session.opening), opening(member[:count])
        cases.reader("cut", f"a member of {count} bytes", NO, *steps)
    cases.reader(
        "lengthened", "a member with a zero at its end", NO, begin(scene.session.opening), opening(member + b"\0")
    )
    return cases


def flipped(scene: Scene) -> Cases:
    """Return cases of a changed bit in each part."""
    cases = Cases(scene.inputs, "One bit of one part is changed.")
    special = {"realm": "another_realm", "epoch": "stale_epoch", "slot": "stale_epoch"}
    special["places of the first row"] = "another_realm"
    for name, (at, size) in PARTS.items():
        for place in (
            sorted({at, at + size // 2, at + size - 1}) if name != "encrypted body" else (at, len(scene.base) - 1)
        ):
            if name in ("places of the first row", "places of the second row", "number of rows"):
                bit = 1
            else:
                bit = 0x04 if name != "epoch" else 0x80
            changed = scene.base[:place] + bytes((scene.base[place] ^ bit,)) + scene.base[place + 1 :]
            cases.reader("flipped", f"{name}, byte {place}", special.get(name, NO), opening(changed))
    for name, expected in (("first row's lowest tag", NO), ("first row's highest tag", "not_covered")):
        place = PARTS[name][0]
        changed = scene.base[:place] + bytes((scene.base[place] ^ 1,)) + scene.base[place + 1 :]
        cases.reader(
            "flipped", f"{name}, seen by a reader that tests tags", expected, opening(changed), keys=(scene.one,)
        )
    return cases


def moved(scene: Scene) -> Cases:
    """Return cases of parts that were moved, inside an event or from another one."""
    cases = Cases(scene.inputs, "Parts of one capsule in each other's place, or in another capsule.")
    swaps = [
        ("first CT_i", "second CT_i"),
        ("CT2", "first CT_i"),
        ("first row's whole part", "first row's second part"),
        ("first row's second part", "first row's third part"),
        ("first row's whole part", "second row's whole part"),
        ("first row's third part", "second row's second part"),
        ("first row's lowest tag", "first row's highest tag"),
        ("first row's lowest tag", "second row's lowest tag"),
        ("second row's lowest tag", "second row's highest tag"),
    ]
    for one, two in swaps:
        changed = replaced(replaced(scene.base, one, part(scene.base, two)), two, part(scene.base, one))
        cases.reader("swapped", f"{one} and {two}", NO, opening(changed))
    for name in list(PARTS)[6:]:
        if not name.startswith(("number", "places", "encrypted body", "signature")):
            changed = replaced(scene.base, name, part(scene.other, name))
            cases.reader("from another event", f"{name} of the second event", NO, opening(changed))
    signed = scene.other[541:995]
    cases.reader("from another event", "the whole signature", NO, opening(scene.base[:541] + signed + scene.base[995:]))
    cases.reader("from another event", "the whole body", NO, opening(scene.base[:995] + scene.other[995:]))
    cases.reader(
        "from another event", "the whole capsule", NO, opening(scene.base[:45] + scene.other[45:541] + scene.base[541:])
    )
    cases.reader("from another event", "head and shape", NO, opening(scene.other[:45] + scene.base[45:]))
    cases.reader("from another event", "signature and body", NO, opening(scene.base[:541] + scene.other[541:]))
    return cases


def clear(scene: Scene) -> Cases:
    """Return cases of changed clear attributes and bound data."""
    cases = Cases(scene.inputs, "Clear attributes and bound data that differ from those that were sealed.")
    said: dict[str, Any] = {"side": "buy", "site": "north", "n": 1}
    whole = scene.inputs.put(
        "event with clear attributes", scene.forger.seal({**BASE, **said}, clear=said, bound=b"bound")
    )
    for comment, given in {
        "another value": {**said, "site": "south"},
        "an attribute more": {**said, "more": 1},
        "an attribute less": {"side": "buy", "n": 1},
        "none at all": {},
        "a float in place of an integer": {**said, "n": 1.0},
        "a truth value in place of an integer": {**said, "n": True},
        "another name": {"side": "buy", "site": "north", "m": 1},
        "a hidden attribute in the clear, too": {**said, "level": 1},
        "a guarding attribute outside its domain": {**said, "side": "hold"},
        "a guarding attribute absent": {"site": "north", "n": 1},
    }.items():
        cases.reader("clear attributes", comment, NO, opening(whole, given, b"bound"))
    cases.reader(
        "clear attributes",
        "another value of a guarding attribute",
        NO,
        opening(whole, {**said, "side": "sell"}, b"bound"),
    )
    cases.reader(
        "clear attributes",
        "another value of a guarding attribute, to a reader with keys of the sealed one",
        "not_covered",
        opening(whole, {**said, "side": "sell"}, b"bound"),
        keys=(scene.buys,),
    )
    for comment, data in {"other data": b"bounD", "none": b"", "longer": b"bound\0"}.items():
        cases.reader("bound data", comment, NO, opening(whole, said, data))
    return cases


def _with_order_3(encoded: bytes) -> bytes:
    """Multiply a point by (0, 2), which has order 3 on the curve of G1."""
    point: Any = decompress_G1(int.from_bytes(encoded, "big"))  # type: ignore[arg-type]
    field = type(point[0])
    return int(compress_G1(add(point, (field(0), field(2), field(1))))).to_bytes(48, "big")
