"""Deposits: those that readers make, those that brokers refuse, and the tests of tags with them."""

from __future__ import annotations

from struct import pack
from typing import Any

from plait_crypto import RoutingTokens, deposit

from .points import bad_points
from .scene import Scene
from .writer import Cases, Step, decoding

INVALID = "KeyInvalid"


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


def _framed(data: bytes) -> bytes:
    return pack(">I", len(data)) + data


def _renamed(scene: Scene, found: bytes) -> bytes:
    """Return a deposit under the name of the first realm, with one row of two removed."""
    decoded = RoutingTokens.decode(scene.groups, found[4:])
    boxes = tuple(box[:1] for box in decoded.boxes)
    return _framed(RoutingTokens(scene.realm().digest, 0, boxes).encode(scene.groups))
