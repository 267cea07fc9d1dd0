"""Keys: issued for an epoch to holders that are not revoked, encoded, decoded with all checks, and used for routing."""

from __future__ import annotations

from random import Random

import pytest
from sealed_world import EPOCHS, HOUR_US, World, areas, quotes, sides

from plait_core import parse
from plait_core.space import IntRange
from plait_crypto import (
    KeyInvalid,
    KeyRefused,
    Keyring,
    Numbers,
    PublisherKeys,
    RoutingTokens,
    Schema,
    SealInvalid,
    SubscriberKeys,
    Texts,
    Unopenable,
)

FILTER = "(area < 16 and location == 'London') or area == 99"


@pytest.fixture
def world() -> World:
    return World.of(areas())


# --- issuing ----------------------------------------------------------------------------------------------------------


def test_keys_are_issued_for_this_epoch_and_near_its_end_for_the_next(world: World) -> None:
    def issue(epoch: int) -> SubscriberKeys:
        asked = {"epoch": epoch, "now_us": world.now_us, "randomness": world.rng}
        return world.authority.subscriber_keys("r", parse("area < 16"), **asked)

    assert issue(0).epoch == 0
    for epoch in (-1, 1, 2):
        with pytest.raises(KeyRefused):
            issue(epoch)
    world.now_us = 23 * HOUR_US
    assert issue(1).epoch == 1
    with pytest.raises(KeyRefused):
        issue(2)


def test_a_revoked_holder_gets_no_key_of_the_next_epoch(world: World) -> None:
    ring, publisher = world.reader("true"), world.publisher()
    assert world.authority.revoke("reader", world.now_us) == 0
    world.open(ring, world.seal(publisher, {"area": 1, "location": "Paris"}, 1))  # its present keys work until then
    ring.add(world.keys("area < 16"))
    world.now_us = 24 * HOUR_US
    with pytest.raises(KeyRefused, match="revoked"):
        world.keys("true")
    world.keys("true", holder="another")
    sealed = world.seal(world.publisher(), {"area": 1, "location": "Paris"}, 2)
    with pytest.raises(Unopenable):
        world.open(ring, sealed)
    with pytest.raises(KeyRefused):
        world.publisher(holder="reader")
    assert world.authority.revoked() == {"reader": 0}


def test_revoking_twice_does_not_extend(world: World) -> None:
    world.authority.revoke("reader", world.now_us)
    assert world.authority.revoke("reader", world.now_us + 48 * HOUR_US) == 0


def test_revoking_near_the_end_counts_what_may_have_been_issued(world: World) -> None:
    """Keys of the next epoch may have been issued already, so that is the last epoch."""
    assert world.authority.revoke("reader", 23 * HOUR_US) == 1


def test_revocations_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_crypto.authority.HOLDERS_MAX", 1)
    world.authority.revoke("one", world.now_us)
    world.authority.revoke("one", world.now_us)
    with pytest.raises(KeyRefused):
        world.authority.revoke("two", world.now_us)


@pytest.mark.parametrize("publisher", [0, -1, 2**64])
def test_a_publisher_has_an_id(world: World, publisher: int) -> None:
    with pytest.raises(SealInvalid):
        world.publisher(publisher=publisher)


def test_two_holders_of_one_filter_have_different_keys(world: World) -> None:
    one, two = (world.keys("area < 16").encode(world.groups) for _ in range(2))
    assert one != two


# --- encodings --------------------------------------------------------------------------------------------------------


def test_keys_survive_their_encoding_and_still_work(world: World) -> None:
    groups = world.groups
    publisher = world.publisher(FILTER)
    issued = publisher._keys[0]
    assert PublisherKeys.decode(groups, issued.encode(groups)).encode(groups) == issued.encode(groups)
    publisher.add(PublisherKeys.decode(groups, issued.encode(groups)))
    keys = world.keys(FILTER)
    ring = Keyring(world.realm)
    ring.add(SubscriberKeys.decode(groups, keys.encode(groups)))
    routing = RoutingTokens.decode(groups, keys.routing(groups).encode(groups))
    assert routing.encode(groups) == keys.routing(groups).encode(groups)
    sealed = world.seal(publisher, {"area": 99, "location": "Paris"})
    assert world.open(ring, sealed).grant == 1


def test_keys_are_not_printed(world: World) -> None:
    keys = world.keys(FILTER)
    routing = keys.routing(world.groups)
    for secret in (keys, keys.boxes[0], keys.boxes[0].rows[0][0][1], routing, world.publisher()._keys[0]):
        assert "G2" not in repr(secret)
        assert "Point" not in repr(secret)
        assert len(repr(secret)) < 200


def test_every_broken_encoding_is_one_error(world: World) -> None:
    """Encodings are cut, lengthened, or changed in any byte: KeyInvalid, or other keys (a label)."""
    groups, keys = world.groups, world.keys("area == 3")
    decoders = [
        (SubscriberKeys.decode, keys.encode(groups)),
        (RoutingTokens.decode, keys.routing(groups).encode(groups)),
        (PublisherKeys.decode, world.publisher("area == 3")._keys[0].encode(groups)),
    ]
    rng = Random(4)
    for decode, encoded in decoders:
        for length in range(0, len(encoded), 5):
            with pytest.raises(KeyInvalid):
                decode(groups, encoded[:length])
        with pytest.raises(KeyInvalid):
            decode(groups, encoded + b"\0")
        for other, _ in decoders:
            if other != decode:
                with pytest.raises(KeyInvalid):
                    other(groups, encoded)
        for _ in range(300):
            changed = bytearray(encoded)
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            try:
                assert decode(groups, bytes(changed)).encode(groups) == bytes(changed)
            except KeyInvalid:
                pass


def test_keys_of_another_realm_or_schema_are_refused(world: World) -> None:
    other = World.of(quotes())
    with pytest.raises(KeyInvalid):
        world.reader("true").add(other.keys("true"))
    with pytest.raises(KeyInvalid):
        world.publisher().add(other.publisher()._keys[0])
    with pytest.raises(KeyInvalid):
        world.publisher(publisher=8).add(world.publisher(publisher=9)._keys[0])
    for filter in ("true", "price < 2"):
        foreign, signing = other.keys(filter), other.publisher(filter)._keys[0]
        with pytest.raises(KeyInvalid):
            Keyring(world.realm).add(SubscriberKeys(world.realm.digest, 0, foreign.boxes))
        with pytest.raises(KeyInvalid):
            world.publisher().add(PublisherKeys(world.realm.digest, 0, 7, signing.boxes, signing.tag_key))


def test_a_place_that_the_schema_does_not_have_is_refused() -> None:
    """A schema of as many attributes, whose trees are deeper."""
    world, deeper = World.of(sides()), World.of(Schema({"area": Numbers(IntRange(0, 127))}, EPOCHS))
    with pytest.raises(KeyInvalid):
        Keyring(world.realm).add(SubscriberKeys(world.realm.digest, 0, deeper.keys("area == 3").boxes))
    keys = deeper.publisher("area == 3")._keys[0]
    with pytest.raises(KeyInvalid):
        world.publisher().add(PublisherKeys(world.realm.digest, 0, 7, keys.boxes, keys.tag_key))


def test_keys_for_the_longest_text_survive_their_encoding() -> None:
    from plait_core.limits import VALUE_BYTES_MAX

    world = World.of(Schema({"name": Texts(1)}, EPOCHS))
    text = "\U0001f600" * (VALUE_BYTES_MAX // 4)
    keys = world.keys(f"name == '{text}'")
    ring = Keyring(world.realm)
    ring.add(SubscriberKeys.decode(world.groups, keys.encode(world.groups)))
    sealed = world.seal(world.publisher(), {"name": text})
    assert world.open(ring, sealed).attributes == {"name": text}


def test_a_keyring_is_bounded_and_forgets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_crypto.keyring.EPOCH_KEYS_MAX", 1)
    ring = world.reader("true")
    with pytest.raises(KeyInvalid):
        ring.add(world.keys("true"))
    ring.forget(25 * HOUR_US)
    world.now_us = 25 * HOUR_US
    ring.add(world.keys("true"))
