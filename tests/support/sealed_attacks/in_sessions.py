"""Attacks on sessions: by brokers, and by readers who know a session's key."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from plait_core.sealed_opening import SEALED_HEAD
from plait_crypto.envelope import EVENT, OPENING
from plait_crypto.plaintext import Plaintext

from .forger import NOON_US, Session
from .scene import BASE, HOUR_US, Scene, replaced
from .writer import Cases, Step, begin, opening, packed

NO = "not_authentic"
HEAD = 40
"""Bytes of a member in front of its proof."""


def sessions(scene: Scene) -> Cases:
    """Return cases of openings and members."""
    cases = Cases(scene.inputs, "Sessions: openings, members, batches and their proofs.")
    session, forger = scene.session, scene.forger
    start = begin(session.opening)

    def refused(attack: str, comment: str, member: bytes, expected: str = NO) -> None:
        cases.reader(attack, comment, expected, start, opening(member))

    # terms of openings
    def forged(attack: str, comment: str, made: Session, expected: str = NO) -> None:
        cases.reader(attack, comment, expected, begin(made.opening))

    forged("terms", "a byte more", Session(forger, BASE, change_terms=lambda terms: terms + b"\0"))
    forged("terms", "a byte less", Session(forger, BASE, change_terms=lambda terms: terms[:-1]))
    forged("terms", "none", Session(forger, BASE, change_terms=lambda terms: b""))
    forged("terms", "more events than are allowed", Session(forger, BASE, events_max=65_537))
    longest = NOON_US + 60_000_000 + HOUR_US
    forged(
        "terms",
        "too long, even if its publisher's clock is an overlap ahead",
        Session(forger, BASE, until_us=longest + 1),
    )
    forged("terms", "until the end of time", Session(forger, BASE, until_us=2**64 - 1))
    forged(
        "terms",
        "it ended more than an overlap ago",
        Session(forger, BASE, until_us=NOON_US - HOUR_US - 1),
        "stale_epoch",
    )
    forged("terms", "an event with the terms of a session", Session(forger, BASE, kind=EVENT))
    other = scene.publisher("true", publisher=8)
    paths = scene.realm().schema.paths(BASE, 0)
    forged("terms", "signed by another publisher", Session(forger, BASE, pairs=other.pairs(0, paths)))
    with_clear = forger.seal(BASE, session.opening[-100:], kind=OPENING, clear={"side": "buy"})
    cases.reader("terms", "an opening with clear attributes", NO, begin(with_clear))
    cases.reader("terms", "a member, begun", NO, begin(scene.members[0]))
    changed = replaced(session.opening, "first row's lowest tag", bytes(16))
    cases.reader("terms", "an opening with a changed tag", NO, begin(changed))

    # members without their session, or of another
    first, second, third = scene.members
    theirs = scene.second.members([BASE] * 3)
    cases.reader("unknown session", "no opening", "stale_epoch", opening(first))
    refused("unknown session", "a member of another session", theirs[0], "stale_epoch")
    both: tuple[Step, ...] = (start, begin(scene.second.opening))
    renamed = first[:2] + scene.second.name + first[18:]
    cases.reader("another session", "a member under another session's name", NO, *both, opening(renamed))
    for comment, at, size in (("proof", HEAD, 66), ("body", len(first) - 60, 60), ("root's signature", 106, 64)):
        moved = first[:at] + theirs[0][at : at + size] + first[at + size :]
        cases.reader("another session", f"its {comment} from a member of another session", NO, *both, opening(moved))
    end = NOON_US + 60_000_000 + HOUR_US
    cases.reader("stale session", "an overlap after its end", "stale_epoch", start, opening(first, now_us=end))

    # changed members
    for comment, at, size in (
        ("version", 0, 1),
        ("kind", 1, 1),
        ("number", 18, 4),
        ("publisher", 22, 8),
        ("sequence", 30, 8),
        ("leaf", 38, 1),
        ("leaves", 39, 1),
        ("first sibling", 40, 32),
        ("second sibling", 72, 32),
        ("root's signature", 104, 64),
        ("body", 168, len(second) - 168),
    ):
        place = at + size - 1
        bit = 1 if comment != "kind" else 8
        refused("flipped", comment, second[:place] + bytes((second[place] ^ bit,)) + second[place + 1 :])
    for leaf, leaves in ((0, 0), (3, 3), (1, 65), (255, 255), (1, 1), (1, 2), (1, 5)):
        told = f"leaf {leaf} of {leaves}, with the siblings of leaf 1 of 3"
        refused("proof", told, second[:38] + bytes((leaf, leaves)) + second[40:])
    refused("proof", "siblings exchanged", second[:40] + second[72:104] + second[40:72] + second[104:])
    refused("proof", "a sibling more", second[:40] + second[40:72] + second[40:])
    refused("proof", "leaf 1 of 4: the same digests, another number of leaves", second[:39] + b"\4" + second[40:])
    refused("moved", "the head of one member, the rest of another", first[:38] + second[38:])
    refused("moved", "the body of another member", second[:168] + third[168:])
    refused("moved", "number, sequence and body of another member", third[:38] + second[38:168] + third[168:])
    cases.reader("clear attributes", "an attribute more", NO, start, opening(first, {"more": 1}))
    cases.reader("bound data", "other bound data", NO, start, opening(first, None, b"bound"))

    place = 104 + 63
    resigned = second[:place] + bytes((second[place] ^ 1,)) + second[place + 1 :]
    cases.reader(
        "flipped", "root's signature, after a member of the batch", NO, start, opening(first), opening(resigned)
    )

    # a reader writes: it has the session's key, not the publisher's
    own = Ed25519PrivateKey.from_private_bytes(bytes(32))
    refused("a reader writes", "signed by another key", session.members([BASE], 10, signing=own)[0])
    refused("a reader writes", "an empty signature", _signed(session.members([BASE], 10)[0], bytes(64)))
    refused(
        "a reader writes", "the signature of the first batch", _signed(session.members([BASE], 10)[0], first[104:168])
    )

    # a publisher lies
    refused("a publisher lies", "another publisher's number", session.members([BASE], 10, publisher=8)[0])
    refused(
        "a publisher lies", "other attributes than the session's", session.members([{"level": 2, "side": "buy"}], 10)[0]
    )
    refused("a publisher lies", "an attribute of the session is absent", session.members([{"side": "buy"}], 10)[0])
    refused("a publisher lies", "a value outside the domain", session.members([{"level": 9, "side": "buy"}], 10)[0])
    refused("a publisher lies", "the nonce of another number", session.members([BASE], 10, nonce=11)[0])
    refused("a publisher lies", "a number beyond the session's events", session.members([BASE], 65_536)[0])
    refused(
        "a publisher lies",
        "encrypted under another session's key",
        session.members([BASE], 10, secret=scene.second.secret)[0],
    )
    refused(
        "a publisher lies",
        "one bit of the signed batch changed",
        session.members([BASE], 10, change_message=lambda m: m[:-1] + bytes((m[-1] ^ 1,)))[0],
    )
    refused("a publisher lies", "a batch of 65", session.members([BASE] * 65, 10)[0])
    plain = Plaintext(BASE, b"payload").encode()
    refused("a publisher lies", "padding that is not zero", session.members([BASE], 10, contents=plain[:-1] + b"\1")[0])
    refused("a publisher lies", "no padding", session.members([BASE], 10, contents=plain.rstrip(b"\0"))[0])
    twice = session.members([BASE], 10, clear={"side": "buy"}, contents=plain)[0]
    cases.reader("a publisher lies", "an attribute hidden and clear", NO, start, opening(twice, {"side": "buy"}))
    short = Session(forger, BASE, events_max=1)
    late = short.members([BASE], 1)[0]
    cases.reader(
        "a publisher lies", "a second event where the opening says one", NO, begin(short.opening), opening(late)
    )
    again = session.members([BASE], 0)[0]
    cases.reader("a publisher lies", "two events with one number", "replayed", start, opening(first), opening(again))
    _payloads(cases, scene)
    return cases


def _payloads(cases: Cases, scene: Scene) -> None:
    """Add cases of sealed payloads: a member with the opening of its session."""
    member, opened = scene.members[0], scene.session.opening

    def payload(opening: bytes, envelope: bytes, version: int = 2, size: int | None = None) -> bytes:
        return SEALED_HEAD.pack(version, len(opening) if size is None else size) + opening + envelope

    def step(data: bytes) -> Step:
        return {"do": "open payload", "payload": data, "clear": packed({}), "bound": ""}

    good = scene.inputs.put("sealed payload", payload(opened, member))

    def refused(attack: str, comment: str, data: bytes, expected: str = NO, *before: Step) -> None:
        cases.reader(attack, comment, expected, *before, step(data))

    refused("another opening", "that of another session of the same publisher", payload(scene.second.opening, member))
    known = (begin(opened), begin(scene.second.opening))
    refused("another opening", "both sessions are open", payload(scene.second.opening, member), NO, *known)
    refused(
        "another opening",
        "one bit changed, the session is open",
        payload(opened[:-1] + bytes((opened[-1] ^ 1,)), member),
        NO,
        *known,
    )
    refused("another opening", "an event of its own", payload(scene.base, member))
    refused("payload", "an event in place of the member", payload(opened, scene.base))
    refused("payload", "an opening in place of the member", payload(opened, opened))
    refused("payload", "no member", payload(opened, b""))
    refused("payload", "no opening", payload(b"", member))
    for version in (0, 1, 3):
        refused("payload", f"version {version}", payload(opened, member, version))
    refused("payload", "a size beyond the end", payload(opened, member, size=2**32 - 1))
    refused("payload", "a size one too large", payload(opened, member, size=len(opened) + 1))
    refused("payload", "a size one too small", payload(opened, member, size=len(opened) - 1))
    for count in (0, 4, 5, 100, len(good) - 1):
        refused("payload", f"its first {count} bytes", good[:count])
    refused("payload", "again", good, "replayed", step(good))
    cases.reader("payload", "to a reader of other events", "not_covered", step(good), keys=(scene.sells,))
    cases.reader("payload", "to a reader without keys", "missing_key", step(good), keys=())


def _signed(member: bytes, signature: bytes) -> bytes:
    """Return a member of a batch of one with another signature."""
    return member[:HEAD] + signature + member[HEAD + 64 :]
