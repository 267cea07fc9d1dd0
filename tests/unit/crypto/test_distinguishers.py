"""The distinguishers of format version 1 against live openings: who holds no fitting key does no better than guessing.

A party pairs all that an opening shows with all that it has in G2. It looks for two equal results, which is how version
1 showed whose part a ciphertext is, and for results under a tag. Neither may depend on the hidden value.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from random import Random
from typing import Any

import pytest
from sealed_world import EPOCHS, World

from plait_core.space import IntRange
from plait_crypto import Draft, Numbers, Schema, SessionSealer
from plait_crypto.attributes.credentials import Credential
from plait_crypto.envelope import Envelope
from plait_crypto.hazmat.hashing import TO_G2
from plait_crypto.hazmat.scheme import tag_bytes

TRUE, DECOY, BITS = 48_271, 17_504, 16
PARTIES = ("stranger", "broker", "member")


class Attack:
    """Live openings in a realm in which 16-bit prices are hidden: that of one event, or those of two.

    The events have keys of their own, and their attributes have one value each.
    """

    def __init__(self, attributes: int, *values: int) -> None:
        trees = {f"a{row}": Numbers(IntRange(0, 2**BITS - 1)) for row in range(attributes)}
        self.world = World.of(Schema(trees, EPOCHS))
        self.world.rng = Random(99)  # else keys would have the exponents of the set-up, which has the same seed
        self.groups = self.world.groups
        drafts = [Draft(dict.fromkeys(trees, value), session=False) for value in values or [TRUE]]
        sessions = SessionSealer(self.world.publisher())
        self.events = sessions.seal(drafts, now_us=self.world.now_us, randomness=self.world.rng)
        self.capsules = [Envelope.decode(event.opening).capsule for event in self.events]
        self.rows = range(attributes)

    def identity(self, row: int, value: int) -> bytes:
        """Return the identity of the finest credential of a value."""
        path = self.world.realm.schema.trees[f"a{row}"].path(value)
        return self.world.realm.opens(0, row, Credential(BITS, path[BITS]))

    def shown(self) -> dict[str, Any]:
        """Return the elements of the openings for the finest credentials. Those of the second one have a mark."""
        decode, found = self.groups.g1.decode, {}
        for mark, capsule in zip(("", "'"), self.capsules, strict=False):
            found[f"CT2{mark}"] = decode(capsule.ct2)
            for row in self.rows:
                found |= {
                    f"CT{row}{mark}": decode(capsule.ct(row)),
                    f"part{row}{mark}": decode(capsule.part(row, BITS)),
                }
        return found

    def held(self, party: str, value: int) -> dict[str, Any]:
        """Return what a party has in G2 when it guesses a value. Keys are for other values alone."""
        parameters, groups = self.world.realm.parameters, self.groups
        found = {"G": groups.g2.generator, "g2": parameters.g2, "m": parameters.m2[0]}
        for row in self.rows:
            found[f"H3({row})"] = groups.hash_to_g2(self.identity(row, value), TO_G2)
        if party != "stranger":
            keys = self.world.keys("a0 == 1").boxes[0]
            for row, ((_, part), *_) in enumerate(keys.rows):
                found[f"S3[{row}]"] = part.s3
                if party == "member":
                    found |= {f"S1[{row}]": part.s1, f"S2[{row}]": part.s2}
            found |= {"S4": keys.s4} if party == "member" else {}
        return found

    def told(self, held: Mapping[str, Any]) -> tuple[set[frozenset[str]], set[str]]:
        """Return which pairings are equal, and which are under a tag."""
        results: dict[bytes, set[str]] = {}
        for (left, a), (right, b) in product(self.shown().items(), held.items()):
            encoded = self.groups.gt.encode(self.groups.pair([(a, b)]))
            results.setdefault(encoded, set()).add(f"e({left}, {right})")
        tags = set().union(*(capsule.tags(row) for capsule in self.capsules for row in self.rows))
        equal = {frozenset(names) for names in results.values() if len(names) > 1}
        return equal, set().union(*(names for encoded, names in results.items() if tag_bytes(encoded) in tags))


@pytest.mark.parametrize("attributes", [1, 2])
@pytest.mark.parametrize("party", PARTIES)
def test_a_guess_that_is_right_looks_like_one_that_is_wrong(party: str, attributes: int) -> None:
    attack = Attack(attributes)
    right, wrong = (attack.told(attack.held(party, value)) for value in (TRUE, DECOY))
    assert right == wrong
    equal, tagged = right
    assert not equal
    whole = {"e(CT1, S3[1])"} if party != "stranger" and attributes == 2 else set()
    assert tagged == whole, "the token of a whole attribute fits every event, and tells nothing"


@pytest.mark.parametrize("party", PARTIES)
def test_equal_events_with_keys_of_their_own_look_like_different_ones(party: str) -> None:
    equal, different = Attack(2, TRUE, TRUE), Attack(2, TRUE, DECOY)
    told = [attack.told(attack.held(party, TRUE)) for attack in (equal, different)]
    assert told[0] == told[1]
    assert not told[0][0], "no element of one event is in the other"
    one, two = (_pieces(event.opening) for event in equal.events)
    assert not one & two, "nor any other bytes, behind the head"
    assert equal.events[0].session != equal.events[1].session


def test_equal_events_of_a_session_are_seen() -> None:
    """So the test above would find them."""
    world = World.of(Schema({"a0": Numbers(IntRange(0, 2**BITS - 1))}, EPOCHS))
    sessions, now = SessionSealer(world.publisher()), {"now_us": world.now_us, "randomness": world.rng}
    equal, other = ([{"a0": TRUE}] * 2, [{"a0": TRUE}, {"a0": DECOY}])
    for events, openings in ((equal, 1), (other, 2)):
        sealed = sessions.seal([Draft(dict(event)) for event in events], **now)  # type: ignore[arg-type]
        assert len({event.opening for event in sealed}) == openings


def _pieces(opening: bytes) -> set[bytes]:
    """Return all parts of 16 bytes behind the head: no element, tag or digest has fewer."""
    envelope = Envelope.decode(opening)
    text = envelope.capsule.encoded + envelope.signature + envelope.body
    return {text[at : at + 16] for at in range(len(text) - 15)}


def test_with_the_vector_of_f2_a_right_guess_is_seen() -> None:
    """As in version 1, whose public parameters had it. So the test above would find such a defect."""
    attack = Attack(1)
    master = attack.world.authority._issuer._master
    group = attack.groups.g2
    equal = []
    for value in (TRUE, DECOY):
        f2 = group.power(group.generator, master.logarithm(attack.identity(0, value)))
        equal.append(attack.told({"G": group.generator, "F2": f2})[0])
    assert equal == [{frozenset({"e(part0, G)", "e(CT0, F2)"})}, set()]


def test_who_holds_the_token_sees_the_tag() -> None:
    attack = Attack(1)
    token = attack.world.keys(f"a0 == {TRUE}").boxes[0].rows[0][0][1].s3
    assert attack.told({"S3": token})[1] == {"e(CT0, S3)"}
