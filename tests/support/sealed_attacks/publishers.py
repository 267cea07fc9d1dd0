"""Attacks of publishers who lie: about who signed and what, and about the content."""

from __future__ import annotations

from functools import partial
from typing import Any

from plait_crypto.plaintext import Metadata, Plaintext, padded_size

from .forger import NOON_US
from .scene import BASE, Scene, part, replaced
from .writer import Cases, opening

NO = "not_authentic"


def signatures(scene: Scene) -> Cases:
    """Return cases of signatures of other publishers, grants, places and messages."""
    cases = Cases(
        scene.inputs, "Signatures of another publisher, grant, credential or message, by those who know the secret."
    )

    def refused(attack: str, comment: str, envelope: bytes) -> None:
        cases.reader(attack, comment, NO, opening(envelope))

    seal, groups = scene.forger.seal, scene.groups
    paths = scene.realm().schema.paths(BASE, 0)
    other, grants = (
        scene.publisher("true", publisher=8),
        scene.publisher("level <= 1 and side == 'buy' or level >= 2 and side == 'sell'"),
    )
    narrow = scene.publisher("level == 0")
    refused("other publisher", "signed by 8, said to be by 7", seal(BASE, pairs=other.pairs(0, paths)))
    refused("other publisher", "signed by 7, said to be by 8", seal(BASE, publisher=8))
    refused("other publisher", "publisher 0", replaced(scene.base, "publisher", bytes(8)))
    mine = scene.forger.pairs(0, paths)
    refused("other publisher", "one credential of 7, one of 8", seal(BASE, pairs=[mine[0], other.pairs(0, paths)[1]]))
    for grant in (1, 2, 2**32 - 1):
        refused(
            "other grant", f"signed with grant 0, said to be {grant}", seal(BASE, signer=(grant, b"\0\0"), pairs=mine)
        )
    buy, sell = grants.pairs(0, paths), grants.pairs(1, scene.realm().schema.paths({"level": 2, "side": "sell"}, 0))
    crossed = {"level": 1, "side": "sell"}
    for grant in (0, 1):
        envelope = grants.seal(crossed, signer=(grant, b"\1\1"), pairs=[buy[0], sell[1]])
        refused("other grant", f"level of grant 0 and side of grant 1, said to be grant {grant}", envelope)
    refused(
        "other grant", "the keys of grant 1 on an event of grant 0", grants.seal(BASE, signer=(0, b"\1\1"), pairs=sell)
    )
    refused(
        "other place",
        "a key of level 0 for level 1",
        narrow.seal(BASE, signer=(0, b"\2\0"), pairs=narrow.pairs(0, paths)),
    )
    for places in (b"\1\0", b"\0\1", b"\2\1"):
        refused(
            "other place",
            f"whole credentials, said to be of places {places.hex()}",
            seal(BASE, signer=(0, places), pairs=mine),
        )
    for places in (b"\3\0", b"\0\2", b"\xff\xff"):
        refused(
            "other place",
            f"places {places.hex()} that the schema does not have",
            seal(BASE, signer=(0, places), pairs=mine),
        )
    refused("other message", "signed: the digest of nothing", seal(BASE, change_message=lambda _: bytes(32)))
    refused(
        "other message",
        "signed: one bit of the digest changed",
        seal(BASE, change_message=lambda m: m[:-1] + bytes((m[-1] ^ 1,))),
    )
    kept: list[bytes] = []
    scene.forger.seal(BASE, sequence=50, change_signature=lambda s: kept.append(s) or s)  # type: ignore[func-returns-value]
    refused("other message", "the signature of another event", seal(BASE, change_signature=lambda _: kept[0]))
    for comment, at, size in (("T", 0, 48), ("A_1", 48, 96), ("B_1", 144, 96), ("A_2", 240, 96), ("B_2", 336, 96)):
        group: Any = groups.g1 if size == 48 else groups.g2
        others = {"the identity": b"\xc0" + bytes(size - 1), "the generator": group.encode(group.generator)}
        if not comment.startswith("B"):  # the B_i are the same in all signatures by these keys
            others["that of another event"] = kept[0][at : at + size]
        for what, other_part in others.items():
            change = partial(_put, at=at, part=other_part)
            refused("other part", f"{comment} is {what}", seal(BASE, change_signature=change))
    refused(
        "other part",
        "A_1 and A_2 exchanged",
        seal(BASE, change_signature=lambda s: s[:48] + s[240:336] + s[144:240] + s[48:144] + s[336:]),
    )
    refused("other part", "both pairs exchanged", seal(BASE, change_signature=lambda s: s[:48] + s[240:] + s[48:240]))

    def cancelling(signature: bytes) -> bytes:
        """Multiply one A_i by a point and the other by its inverse: only without weights do the errors cancel."""
        two = groups.g2
        a, b = two.decode(signature[48:144]), two.decode(signature[240:336])
        error = two.power(two.generator, 5)
        changed = two.encode(two.multiply(a, error)), two.encode(two.multiply(b, two.inverse(error)))
        return signature[:48] + changed[0] + signature[144:240] + changed[1] + signature[336:]

    refused("other part", "errors in A_1 and A_2 that cancel out", seal(BASE, change_signature=cancelling))
    return cases


def contents(scene: Scene) -> Cases:
    """Return cases of plaintexts and capsules that only a publisher with keys can make."""
    cases = Cases(
        scene.inputs, "Plaintexts and capsules that an honest publisher does not make, with a true signature."
    )

    def refused(attack: str, comment: str, envelope: bytes, clear: dict[str, Any] | None = None) -> None:
        cases.reader(attack, comment, NO, opening(envelope, clear))

    seal = scene.forger.seal
    honest = Plaintext(BASE, b"payload", Metadata(NOON_US)).encode()
    used = len(honest.rstrip(b"\0"))
    assert padded_size(used) == len(honest) > used
    refused("padding", "the last byte is not zero", seal(BASE, contents=honest[:-1] + b"\1"))
    refused(
        "padding",
        "the first byte of the padding is not zero",
        seal(BASE, contents=honest[:used] + b"\1" + honest[used + 1 :]),
    )
    refused("padding", "no padding", seal(BASE, contents=honest[:used]))
    refused("padding", "a zero less", seal(BASE, contents=honest[:-1]))
    refused("padding", "a zero more", seal(BASE, contents=honest + b"\0"))
    refused(
        "padding",
        "up to the next Padme size",
        seal(BASE, contents=honest + bytes(padded_size(len(honest) + 1) - len(honest))),
    )
    refused("padding", "up to a power of two", seal(BASE, contents=honest + bytes(128 - len(honest))))
    refused("plaintext", "empty", seal(BASE, contents=b""))
    refused("plaintext", "shorter than its head", seal(BASE, contents=honest[:26]))
    refused("plaintext", "priority 10", seal(BASE, contents=honest[:16] + b"\x0a" + honest[17:]))
    refused("plaintext", "headers said to be longer", seal(BASE, contents=honest[:17] + b"\0\1" + honest[19:]))
    refused(
        "plaintext",
        "attributes said to be longer",
        seal(BASE, contents=honest[:19] + b"\xff\xff\xff\xff" + honest[23:]),
    )
    refused("plaintext", "payload said to be longer", seal(BASE, contents=honest[:23] + b"\0\0\1\0" + honest[27:]))
    for comment, packed in {
        "no msgpack": b"\xc1",
        "a list": b"\x90",
        "a name twice": b"\x82\xa5level\1\xa5level\1",
        "two maps": b"\x80\x80",
        "a name that is none": b"\x81\xa2a-\1",
        "a map inside": b"\x81\xa1a\x80",
        "cut": b"\x82\xa5level\1",
    }.items():
        raw = honest[:19] + len(packed).to_bytes(4, "big") + bytes(4) + packed
        refused(
            "plaintext", f"attributes: {comment}", seal(BASE, contents=raw + bytes(padded_size(len(raw)) - len(raw)))
        )

    def telling(attributes: dict[str, Any]) -> bytes:
        return Plaintext(attributes, b"payload", Metadata(NOON_US)).encode()

    cases.reader(
        "other attributes",
        "sealed for level 1, level 2 inside",
        NO,
        opening(seal(BASE, contents=telling({"level": 2, "side": "buy"}))),
        keys=(scene.one,),
    )
    narrow = scene.publisher("level == 1")
    refused(
        "other attributes",
        "level 2 inside, signed with a key of level 1",
        narrow.seal(BASE, contents=telling({"level": 2, "side": "buy"})),
    )
    refused("other attributes", "a value outside the domain", seal(BASE, contents=telling({"level": 4, "side": "buy"})))
    refused("other attributes", "a text for a number", seal(BASE, contents=telling({"level": "1", "side": "buy"})))
    refused(
        "other attributes",
        "hidden and clear at once",
        seal(BASE, clear={"side": "buy"}, contents=telling(BASE)),
        {"side": "buy"},
    )
    identities = scene.realm().sealed_for(0, scene.realm().schema.paths({"level": 2, "side": "buy"}, 0))
    cases.reader(
        "other credentials",
        "a capsule for level 2 around level 1",
        NO,
        opening(seal(BASE, identities=identities)),
        keys=(scene.reader("level 2", "level == 2"),),
    )
    order = scene.groups.order
    for comment, exponents in {
        "exponents that do not come from the seed": [5, 7],
        "equal exponents": [9, 9],
        "exponents whose sum is 1": [order - 5, 6],
    }.items():
        refused("capsule", comment, seal(BASE, exponents=exponents))
    refused("capsule", "CT2 and the mask with a surplus, all rows true", seal(BASE, surplus=5))
    for name in ("CT2", "first CT_i", "first row's whole part", "second row's whole part", "masked seed"):
        refused("capsule", f"{name} of another event, before sealing", seal(BASE, change_capsule=_with(scene, name)))
    return cases


def _put(signature: bytes, at: int, part: bytes) -> bytes:
    return signature[:at] + part + signature[at + len(part) :]


def _with(scene: Scene, name: str) -> Any:
    """Return a change of a capsule: a part of the second event."""
    start = 45

    def change(encoded: bytes) -> bytes:
        return replaced(bytes(start) + encoded, name, part(scene.other, name))[start:]

    return change
