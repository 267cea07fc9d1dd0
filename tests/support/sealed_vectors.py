"""Test vectors of sealed events, version 2: all values derived from a seed, equal in every backend.

They are frozen in `tests/vectors/sealed_v2/known_answers.json`. If they change, the format needs a new version and new
vectors. `python tests/support/sealed_vectors.py` prints the values of the fast backend. `sealed_attacks` writes the
cases beside them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

from plait_core import parse
from plait_core.space import IntRange
from plait_crypto import Authority, Draft, Epochs, Keyring, Numbers, Realm, Schema, Sealer, SessionSealer
from plait_crypto.hazmat import (
    ArkworksGroups,
    Capsule,
    Groups,
    Issuer,
    MasterSecret,
    Parameters,
    Scheme,
    set_up,
)

FROZEN = Path(__file__).parent.parent / "vectors" / "sealed_v2" / "known_answers.json"
SEED = 20_110_404


def foundations(groups: Groups) -> tuple[Parameters, MasterSecret, dict[str, Any]]:
    """Return the vectors of the set-up and of hashes into the groups."""
    parameters, master = set_up(groups, Random(SEED))
    return (
        parameters,
        master,
        {
            "parameters": parameters.digest.hex(),
            "master": hashlib.sha256(master.encode()).hexdigest(),
            "F": groups.g1.encode(parameters.in_g1(b"a credential")).hex(),
            "f": f"{master.logarithm(b'a credential'):064x}",
            "M2": groups.g2.encode(parameters.message(b"a message")).hex(),
            "H3": groups.g2.encode(groups.hash_to_g2(b"a credential", b"a tag")).hex(),
            "e(g, G)": _short(groups.gt.encode(groups.pair([(groups.g1.generator, groups.g2.generator)]))),
        },
    )


def scheme(parameters: Parameters, master: MasterSecret, rows: int = 2, places: int = 2) -> dict[str, Any]:
    """Return the vectors of keys, a capsule, a tag and a signature."""
    groups, rng = parameters.groups, Random(SEED + rows)
    encode = groups.g2.encode
    identities = [[b"%d/%d" % (row, place) for place in range(places)] for row in range(rows)]
    mine = [row[-1] for row in identities]
    issuer = Issuer(parameters, master)
    keys = issuer.subscriber_set(mine, rng)
    pairs = [issuer.publisher_pair(identity, rng) for identity in mine]
    under = Scheme(parameters, tag_key=master.tag_key)
    capsule, secret = under.encapsulate(identities, b"a header", rng)
    signature = under.sign(b"a message", pairs, rng)
    chosen = [(places - 1, identity, part) for identity, part in zip(mine, keys.parts, strict=True)]
    assert under.decapsulate(capsule, b"a header", keys.s4, chosen) == secret
    assert under.tag(capsule.ct(0), keys.parts[0].s3) in capsule.tags(0)
    under.verify(b"a message", mine, signature, rng)
    return {
        "S4": encode(keys.s4).hex(),
        "keys": [b"".join(map(encode, (part.s1, part.s2, part.s3))).hex() for part in keys.parts],
        "pairs": [b"".join(map(encode, (pair.p1, pair.p2))).hex() for pair in pairs],
        "capsule": _told(capsule),
        "secret": secret.hex(),
        "signature": signature.hex(),
    }


def envelopes(parameters: Parameters, master: MasterSecret) -> dict[str, Any]:
    """Return the vectors of an encoded event and session, from encoded keys."""
    groups, rng, now_us = parameters.groups, Random(SEED + 100), 1_000_000
    schema = Schema({"level": Numbers(IntRange(0, 1))}, Epochs(0, 10**9, 10**6))
    authority = Authority(Realm(parameters, schema), master)
    asked = {"epoch": 0, "now_us": now_us, "randomness": rng}
    publisher = authority.publisher_keys("p", 7, parse("level >= 0"), **asked)
    reader = authority.subscriber_keys("s", parse("level == 1"), **asked)
    sealer = Sealer(authority.realm, 7)
    sealer.add(publisher)
    draft = Draft({"level": 1, "site": "north"}, b"payload", 1, hidden=["level"], bound=b"bound")
    sealed = sealer.seal(draft, now_us=now_us, randomness=rng)
    members = SessionSealer(sealer).seal(
        [Draft({"level": 1}, b"%d" % sequence, sequence) for sequence in range(2, 5)], now_us=now_us, randomness=rng
    )
    ring = Keyring(authority.realm)
    ring.add(reader)
    opened = ring.open(sealed.clear, sealed.envelope, now_us=now_us, randomness=rng, bound=b"bound")
    assert opened.payload == b"payload"
    return {
        "realm": authority.realm.digest.hex(),
        "publisher keys": publisher.encode(groups).hex(),
        "subscriber keys": reader.encode(groups).hex(),
        "routing tokens": reader.routing(groups).encode(groups).hex(),
        "envelope": sealed.envelope.hex(),
        "opening": _short(members[0].opening),
        "members": [member.envelope.hex() for member in members],
    }


def everything(groups: Groups) -> dict[str, Any]:
    """Return all vectors."""
    parameters, master, found = foundations(groups)
    return {"foundations": found, "scheme": scheme(parameters, master), "envelopes": envelopes(parameters, master)}


def frozen() -> Any:
    """Return the vectors of the repository."""
    return json.loads(FROZEN.read_text())


def _told(capsule: Capsule) -> dict[str, str]:
    return {"shape": str(capsule.shape), "encoded": capsule.encoded.hex()}


def _short(encoded: bytes) -> str:
    return hashlib.sha256(encoded).hexdigest()


if __name__ == "__main__":
    print(json.dumps(everything(ArkworksGroups()), indent=1))
