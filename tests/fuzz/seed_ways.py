"""Writes the seeds of the fuzzers of sealed events and of peers' links: valid inputs, changes of them, and inputs known
to be nasty.

    python tests/fuzz/seed_ways.py

Run it after a change of the format. What the fuzzers found is kept under other names and is not touched.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from link_attacks import Step, ciphers, step
from sealed_inputs import named, runner

CORPUS = Path(__file__).parent / "corpus"
IDENTITY = b"\xc0" + bytes(47)
TO_ACCEPTOR, TO_DIALLER = 0, 1
ALL = 255
FORTH, BACK = step(Step.DELIVER, TO_ACCEPTOR, ALL), step(Step.DELIVER, TO_DIALLER, ALL)
EXCHANGE = FORTH + BACK
LOW_ORDER = bytes(32)
"""A public key with which every shared key is zero."""


def change(way: int, at: int, remove: int, insert: bytes = b"") -> bytes:
    """Return an input that changes a valid one."""
    return bytes((way,)) + at.to_bytes(2, "big") + bytes((remove,)) + insert


def envelopes() -> Iterator[tuple[str, bytes]]:
    from plait_crypto.plaintext import Metadata, Plaintext

    yield "event", b"\0" + named("event")
    yield "member", b"\0" + named("member 0")
    yield "member-head", b"\0" + named("member 0")[:38] + b"\0\1"
    yield "opening-as-event", b"\0" + named("opening")
    yield "opening", b"\1" + named("opening")
    yield "event-as-opening", b"\1" + named("event")
    yield "payload", b"\2" + named("sealed payload")
    yield "payload-size-lies", b"\2\2\xff\xff\xff\xff" + named("opening")[:100]
    yield "plaintext", b"\3" + Plaintext({"a": 1}, b"p", Metadata(1, 2, 3, {"h": "v"})).encode()
    yield "plaintext-nothing", b"\3" + Plaintext({}, b"").encode()
    yield "plaintext-sizes-lie", b"\3" + bytes(17) + b"\xff" * 10
    yield "plaintext-deep", b"\3" + bytes(19) + (150).to_bytes(4, "big") + bytes(4) + b"\x81\xa1a" + b"\x91" * 149
    yield "event-same", change(4, 0, 0)
    yield "event-identity", change(4, 45, 48, IDENTITY)
    yield "event-rows", change(4, 42, 1, b"\xff")
    yield "event-places", change(4, 43, 1, b"\0")
    yield "event-no-body", change(4, 995, 255)
    yield "member-leaves", change(5, 38, 2, b"\x40\x41")
    yield "member-number", change(5, 18, 4, b"\xff\xff\xff\xff")
    yield "opening-tag", change(6, 317, 16, bytes(16))
    yield "payload-version", change(7, 0, 1, b"\1")
    yield "payload-opening", change(7, 5, 1, b"\1")


def keys() -> Iterator[tuple[str, bytes]]:
    realms = runner()._inputs["realms"]
    for way, name in enumerate(("publisher keys", "subscriber keys", "routing tokens")):
        label = name.replace(" ", "-")
        yield label, bytes((way,)) + named(name)
        yield f"{label}-head", bytes((way,)) + named(name)[:48]
        yield f"{label}-boxes", change(way + 5, 46, 1, b"\x40")
        yield f"{label}-place", change(way + 5, 50, 2, b"\0\x7f")
        yield f"{label}-realm", change(way + 5, 2, 1, b"\0")
        yield f"{label}-count", change(way + 5, 48, 2, b"\xff\xff")
    yield "subscriber-keys-seed", change(6, len(named("subscriber keys")) - 32, 32, bytes(32))
    yield "parameters-cut", b"\3" + named("parameters")[:100]
    yield "parameters-identity", change(8, 1, 48, IDENTITY)
    yield "parameters-same", change(8, 0, 0)
    for name, realm in realms.items():
        yield f"schema-{name.replace(' ', '-')}", b"\4" + realm["schema"].encode()
    yield "schema-deep", b"\4" + b"[" * 2000
    yield "schema-array", b"\4[]"
    whole = json.loads(realms["two rows"]["schema"])
    for name, field in {"infinite": 1e999, "huge": 10**300, "true": True, "none": None, "list": []}.items():
        whole["attributes"][0]["hi"] = field
        yield f"schema-{name}", b"\4" + json.dumps(whole).encode()
    epochs = {**whole["epochs"], "length_us": 0}
    yield "schema-no-length", b"\4" + json.dumps({**whole, "epochs": epochs}).encode()
    yield "schema-names", b"\4" + json.dumps({**whole, "clear": [1, {}]}).encode()
    surrogates = [{"name": "e", "type": "one of", "values": ["\ud800", "a"]}]
    values = [{"name": "e", "type": "one of", "values": [1, "a", True, 0.5, -0.0]}]
    yield "schema-surrogate", b"\4" + json.dumps({**whole, "attributes": surrogates}).encode()
    yield "schema-clear-text", b"\4" + json.dumps({**whole, "clear": "abc"}).encode()
    yield "schema-values", b"\4" + json.dumps({**whole, "attributes": values}).encode()


def deposits() -> Iterator[tuple[str, bytes]]:
    good = named("deposit: level 1")
    yield "nothing", b"\0"
    yield "deposit", b"\0" + good
    yield "two", b"\0" + good + named("deposit: sell")
    yield "length-lies", b"\0\xff\xff\xff\xff" + good[4:]
    yield "empty-entry", b"\0" + bytes(4)
    yield "many-empty-entries", b"\0" + bytes(400)
    yield "opening", b"\1" + named("opening")
    yield "event", b"\1" + named("event")
    yield "realm", change(2, 6, 1, b"\0")
    yield "epoch", change(2, 38, 4, b"\xff\xff\xff\xff")
    yield "rows", change(2, 51, 1, b"\1")
    yield "boxes", change(2, 50, 1, b"\0")
    yield "count", change(2, 52, 2, b"\xff\xff")
    yield "identity", change(2, 54, 96, b"\xc0" + bytes(95))
    yield "others-cut", change(3, 100, 255)
    yield "others-epoch", change(3, 41, 1, b"\1")
    yield "opening-tags", change(4, 317, 48, bytes(48))
    yield "opening-point", change(4, 125, 48, IDENTITY)
    yield "opening-shape", change(4, 43, 1, b"\x81")


def key_requests() -> Iterator[tuple[str, bytes]]:
    def line(**fields: object) -> bytes:
        return json.dumps(fields).encode()

    asked = {"v": 1, "ask": "keys", "role": "subscriber", "filter": "area < 16 and location == 'Paris'", "epoch": 3}
    yield "realm", line(v=1, ask="realm")
    yield "subscriber", line(**asked)
    yield "publisher", line(**{**asked, "role": "publisher", "instance": 7})
    yield "slots", line(**asked, slots=[0, 4])
    yield "enrol", line(v=1, ask="enrol", token="t", request="PEM")
    yield "version", line(v=2, ask="realm")
    yield "version-true", line(v=True, ask="realm")
    yield "version-float", line(v=1.0, ask="realm")
    yield "unknown", line(v=1, ask="everything")
    yield "ask-list", line(v=1, ask=["keys"])
    yield "list", b"[1]"
    yield "deep", b"[" * 3000
    yield "no-json", b"GET / HTTP/1.1\r\n"
    yield "no-utf8", b'{"v": 1, "ask": "\xff"}'
    yield "surrogate", b'{"v":1,"ask":"keys","role":"subscriber","filter":"a == \'\\ud800\'","epoch":0}'
    yield "epoch-true", line(**{**asked, "epoch": True})
    yield "epoch-large", line(**{**asked, "epoch": 2**32})
    yield "epoch-infinite", line(**{**asked, "epoch": float("inf")})
    yield "epoch-digits", b'{"v":1,"ask":"keys","role":"subscriber","filter":"true","epoch":' + b"9" * 4000 + b"}"
    yield "role-list", line(**{**asked, "role": ["subscriber"]})
    yield "filter-bad", line(**{**asked, "filter": "area <"})
    yield "filter-wide", line(**{**asked, "filter": " and ".join(f"(a{n} == 1 or b{n} == 1)" for n in range(12))})
    yield "slots-three", line(**asked, slots=[0, 1, 2])
    yield "slots-true", line(**asked, slots=[True, 2])
    yield "twice", b'{"v":1,"v":2,"ask":"realm"}'
    yield "reply", line(ok=True, keys="aGk=")
    yield "reply-refused", line(ok=False, error="denied", message="m", hint="h")
    yield "reply-odd", line(ok=False, error=[1], message={"a": 1})
    yield "reply-number", line(ok=1)


def attacks_on_links() -> Iterator[tuple[str, bytes]]:
    """Yield attacks on two ends that have exchanged keys, for ciphers and for links alike."""
    write, written = step(Step.WRITE, 0, 3), step(Step.WRITE, 0, 3) + FORTH
    open_link = EXCHANGE + written + 3 * (FORTH + BACK)
    back = step(Step.WRITE, 1, 5) + BACK
    yield "opens", open_link + written + back
    yield "byte-by-byte", 200 * step(Step.DELIVER, 0, 1)
    yield "first-flipped", step(Step.FLIP, 0, 40, 1) + FORTH + BACK
    yield "first-cut", step(Step.CUT, 0, 47) + FORTH + FORTH
    yield "first-twice", step(Step.REPEAT, 0, 0, 48) + FORTH + EXCHANGE
    yield "answer-flipped", FORTH + step(Step.FLIP, 1, 0, 128) + BACK + write
    yield "answer-reflected", step(Step.REFLECT, 1, 0, 48) + BACK
    yield "record-flipped", open_link + write + step(Step.FLIP, 0, 9, 1) + FORTH + written
    yield "record-length", open_link + write + step(Step.FLIP, 0, 0, 255) + FORTH + written
    yield "record-dropped", open_link + write + step(Step.CUT, 0, 0) + written
    yield "record-repeated", open_link + write + step(Step.REPEAT, 0, 0, ALL) + FORTH
    yield "records-swapped", open_link + write + write + step(Step.SWAP, 0, 48) + FORTH
    yield "record-replayed", open_link + written + step(Step.REPLAY, 0, 48, ALL) + FORTH
    yield "record-reflected", open_link + written + step(Step.REFLECT, 1, 48, ALL) + BACK
    yield "record-cut", open_link + write + step(Step.CUT, 0, 20) + FORTH + back
    yield "zeros-before", EXCHANGE + step(Step.INSERT, 0, 0, 40) + FORTH
    length = step(Step.INSERT, 0, 0, 2) + step(Step.FLIP, 0, 0, ALL)
    yield "first-record-large", FORTH + length + 20 * step(Step.INSERT, 0, 2, ALL) + FORTH
    yield "acceptor-early", FORTH + step(Step.WRITE, 1, 3) + BACK + step(Step.WRITE, 1, 3)
    yield "large", open_link + 2 * step(Step.WRITE, 0, 255) + step(Step.DELIVER, 0, 254) + FORTH


def links() -> Iterator[tuple[str, bytes]]:
    dialler, _ = ciphers()
    first = dialler.take()
    yield "nothing", b"\0"
    yield "message", b"\0" + first
    yield "message-short", b"\0" + first[:47]
    yield "message-low-order", b"\0" + LOW_ORDER + bytes(16)
    yield "stranger", b"\1" + b"GET / HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n"
    yield "stranger-zeros", b"\1" + bytes(500)
    yield "stranger-bytes", b"\1\0" + bytes(range(200))
    for way, name in ((2, "cipher"), (3, "link")):
        yield from ((f"{name}-{attack}", bytes((way,)) + steps) for attack, steps in attacks_on_links())


SEEDS = {"envelopes": envelopes, "keys": keys, "deposits": deposits, "key_requests": key_requests, "links": links}


def main() -> None:
    for target, seeds in SEEDS.items():
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
        for name, data in seeds():
            (CORPUS / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
