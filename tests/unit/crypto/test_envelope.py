"""Sealed events end to end, without a network: events that open, and all that do not (SCORECARD S2, S5, S10, D6).

Every failure is `Unopenable`, with the same message and no cause.
"""

from __future__ import annotations

import pytest
from sealed_world import HOUR_US, World, areas, quotes, sides

from plait_crypto import Draft, KeyMissing, Keyring, Sealed, SealInvalid, Unopenable
from plait_crypto.envelope import Envelope, overhead_bytes

QUOTE = {"price": 121.5, "symbol": "IBM", "side": "buy"}
F1 = "area between 10 and 20 and location == 'Stuttgart'"
F2 = "area between 40 and 80 and location == 'London'"


@pytest.fixture(scope="module")
def world() -> World:
    return World.of(quotes())


def refused(world: World, ring: Keyring, sealed: Sealed, bound: bytes = b"") -> None:
    """Check that opening raises the one error, which reveals nothing."""
    with pytest.raises(Unopenable) as caught:
        world.open(ring, sealed, bound)
    assert str(caught.value) == "a sealed event that does not open here"
    assert caught.value.args == ()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


# --- events that open -------------------------------------------------------------------------------------------------


def test_a_reader_with_matching_keys_opens(world: World) -> None:
    sealed = world.seal(world.publisher("price < 128"), {**QUOTE, "note": "n"}, 5, payload=b"p")
    opened = world.open(world.reader("price >= 64 and price < 128 and symbol startswith 'IB'"), sealed)
    assert (opened.attributes, opened.payload, opened.publisher, opened.sequence) == (
        {**QUOTE, "note": "n"},
        b"p",
        7,
        5,
    )
    assert dict(opened.credentials)["price"].label == b"dz0"


def test_hidden_attributes_are_encrypted_and_clear_ones_are_not(world: World) -> None:
    secret = {**QUOTE, "note": "a-planted-secret"}
    sealed = world.seal(world.publisher(), secret, payload=b"another-planted-secret", hidden=["note", "price"])
    assert sealed.clear == {"symbol": "IBM", "side": "buy"}
    assert b"planted" not in sealed.envelope
    assert b"IBM" not in sealed.envelope
    assert world.open(world.reader("true"), sealed).attributes == secret


@pytest.mark.parametrize("hidden", [[], ["price"], ["symbol", "side"], None])
def test_hidden_or_not_all_of_a_schema_guards(world: World, hidden: list[str] | None) -> None:
    sealed = world.seal(world.publisher(), QUOTE, hidden=hidden)
    assert world.open(world.reader("price < 128 and symbol == 'IBM' and side == 'buy'"), sealed).attributes == QUOTE
    for wrong in ("price >= 128", "symbol == 'IBX'", "side == 'sell'", "price is null", "symbol endswith 'X'"):
        refused(world, world.reader(wrong), sealed)


def test_a_missing_attribute_is_a_value_of_its_own(world: World) -> None:
    sealed = world.seal(world.publisher(), {"symbol": "IBM", "side": "buy"})
    assert world.open(world.reader("price is null"), sealed).attributes == {"symbol": "IBM", "side": "buy"}
    refused(world, world.reader("has(price)"), sealed)
    refused(world, world.reader("price < 128"), sealed)


def test_a_union_opens_by_the_box_that_matches(world: World) -> None:
    ring = world.reader("price >= 128 or symbol == 'IBM'")
    assert world.open(ring, world.seal(world.publisher(), QUOTE, 1)).sequence == 1
    assert world.open(ring, world.seal(world.publisher(), {**QUOTE, "price": 200, "symbol": "X"}, 2)).sequence == 2
    refused(world, ring, world.seal(world.publisher(), {**QUOTE, "symbol": "X"}, 3))


# --- keys of different subscriptions ----------------------------------------------------------------------------------


def test_the_example_of_5_4_3() -> None:
    """One reader with f1 and f2 opens neither f3 nor f4, which mix their parts."""
    world = World.of(areas())
    ring, publisher = world.reader(F1, F2), world.publisher()
    for sequence, (area, location) in enumerate([(15, "Stuttgart"), (50, "London")], 1):
        assert world.open(ring, world.seal(publisher, {"area": area, "location": location}, sequence)).payload == b""
    for area, location in [(15, "London"), (50, "Stuttgart")]:
        refused(world, ring, world.seal(publisher, {"area": area, "location": location}, 9))


def test_four_parties_that_pool_their_keys_open_nothing_more() -> None:
    """Collusion: every key set lacks one credential of the event, and together they have them all.

    A box is assembled from the best parts of the four, with the S4 of each in turn.
    """
    from plait_crypto.keys import SubscriberBox, SubscriberKeys

    world = World.of(areas())
    sealed = world.seal(world.publisher(), {"area": 15, "location": "London"})
    parties = [world.keys(filter) for filter in (F1, F2, F1.replace("Stuttgart", "Paris"), "location == 'London'")]
    area, location = parties[0].boxes[0].rows[0], parties[1].boxes[0].rows[1]
    for party in parties[:3]:
        ring = Keyring(world.realm)
        for own in parties[:3]:
            ring.add(own)
        box = party.boxes[0]
        ring.add(SubscriberKeys(party.realm, party.epoch, (SubscriberBox(box.s4, (area, location), box.seeds),)))
        refused(world, ring, sealed)
    ring = Keyring(world.realm)
    ring.add(parties[3])
    assert world.open(ring, sealed).attributes["area"] == 15


def test_publishers_do_not_mix_grants_either() -> None:
    world = World.of(areas())
    publisher = world.publisher(f"({F1}) or ({F2})")
    world.seal(publisher, {"area": 15, "location": "Stuttgart"})
    with pytest.raises(KeyMissing):
        world.seal(publisher, {"area": 15, "location": "London"})


# --- forgery ----------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_of_any_byte_is_refused() -> None:
    """Flip every bit of the head and the shape, then one of each byte: points, tags, signature and body."""
    world = World.of(sides())
    sealed = world.seal(world.publisher(), {"side": "buy"}, payload=b"payload")
    ring = world.reader("side == 'buy'")
    for place in range(len(sealed.envelope)):
        for bit in range(8) if place < 48 else (place % 8,):
            flipped = bytearray(sealed.envelope)
            flipped[place] ^= 1 << bit
            refused(world, ring, Sealed(sealed.clear, bytes(flipped)))
    assert world.open(ring, sealed).payload == b"payload"


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_every_flipped_bit_of_a_hundred_envelopes_is_refused(part: int) -> None:
    """S5, with nine hundred more in sessions. The smallest envelopes: each bit outside the points costs pairings."""
    world = World.of(sides(), part)
    ring, publisher = world.reader("side == 'buy'"), world.publisher()
    for sequence in range(1, 11):
        sealed = world.seal(publisher, {"side": "buy", "n": sequence}, sequence, payload=bytes(sequence))
        for bit in range(8 * len(sealed.envelope)):
            flipped = bytearray(sealed.envelope)
            flipped[bit // 8] ^= 1 << bit % 8
            refused(world, ring, Sealed(sealed.clear, bytes(flipped)))
        assert world.open(ring, sealed).sequence == sequence


@pytest.mark.nightly
def test_every_flipped_bit_of_larger_envelopes_is_refused(world: World) -> None:
    ring, publisher = world.reader("price < 128"), world.publisher()
    for sequence in range(1, 4):
        sealed = world.seal(publisher, {**QUOTE, "price": sequence}, sequence, payload=bytes(sequence))
        for bit in range(8 * len(sealed.envelope)):
            flipped = bytearray(sealed.envelope)
            flipped[bit // 8] ^= 1 << bit % 8
            refused(world, ring, Sealed(sealed.clear, bytes(flipped)))


def test_every_cut_is_refused(world: World) -> None:
    sealed = world.seal(world.publisher(), QUOTE)
    ring = world.reader("price < 128")
    for length in range(0, len(sealed.envelope), 7):
        refused(world, ring, Sealed(sealed.clear, sealed.envelope[:length]))
    refused(world, ring, Sealed(sealed.clear, sealed.envelope + b"\0"))


def test_clear_attributes_are_authenticated(world: World) -> None:
    sealed = world.seal(world.publisher(), {**QUOTE, "note": "n"}, hidden=["price"], bound=b"published at noon")
    ring = world.reader("price < 128")
    clear = sealed.clear
    for changed in ({**clear, "note": "m"}, {**clear, "more": 1}, {"symbol": "IBM"}, {}, {**clear, "price": 121.5}):
        refused(world, ring, Sealed(changed, sealed.envelope), b"published at noon")
    refused(world, ring, Sealed({**clear, "bad name!": 1}, sealed.envelope), b"published at noon")
    refused(world, ring, sealed, b"published at one")
    reordered = dict(reversed(clear.items()))
    assert world.open(ring, Sealed(reordered, sealed.envelope), b"published at noon").payload == b""


def test_parts_of_two_events_do_not_fit_together(world: World) -> None:
    """Move signatures, bodies and capsules between events of the same publisher and the same attributes."""
    publisher, ring = world.publisher(), world.reader("price < 128")
    one, two = (Envelope.decode(world.seal(publisher, QUOTE, sequence).envelope) for sequence in (1, 2))
    mixtures = [
        Envelope(two.head, one.capsule, one.signature, one.body),
        Envelope(one.head, two.capsule, one.signature, one.body),
        Envelope(one.head, one.capsule, two.signature, one.body),
        Envelope(one.head, one.capsule, one.signature, two.body),
        Envelope(two.head, two.capsule, one.signature, two.body),
    ]
    for mixture in mixtures:
        refused(world, ring, Sealed({}, mixture.encode()))


def test_rows_and_places_in_another_order_are_refused() -> None:
    world = World.of(areas())
    sealed = world.seal(world.publisher(), {"area": 15, "location": "London"})
    envelope, ring = Envelope.decode(sealed.envelope), world.reader("location == 'London'")
    raw = envelope.capsule.encoded
    for a, b in [(0, 48), (80, 128), (128, 176), (len(raw) - 16, len(raw) - 64)]:
        parts = bytearray(raw)
        size = 16 if a == len(raw) - 16 else 48
        parts[a : a + size], parts[b : b + size] = raw[b : b + size], raw[a : a + size]
        refused(world, ring, Sealed({}, sealed.envelope.replace(raw, bytes(parts))))


def test_a_reader_cannot_write(world: World) -> None:
    """Readers have the event's secrets, not the publisher's keys, so events that they seal are not authentic.

    Refused, too, are a publisher under another id, and one with a narrower grant and a false place of its credential.
    """
    ring = world.reader("true")
    honest, other = world.publisher("price < 64"), world.publisher("true", publisher=8)
    other._keys = dict(honest._keys)  # another publisher's keys under its own id
    refused(world, ring, world.seal(other, {**QUOTE, "price": 1}))
    with pytest.raises(KeyMissing):
        world.seal(honest, QUOTE)
    liar = world.publisher("price < 64")
    keys = liar._keys[world.epoch]
    row = tuple((credential._replace(label=b"dz01"), pair) for credential, pair in keys.boxes[0][0])
    object.__setattr__(keys, "boxes", ((row, *keys.boxes[0][1:]),))
    with pytest.raises(KeyMissing):  # its own path does not have the label
        world.seal(liar, {**QUOTE, "price": 1})
    relabelled = tuple((credential._replace(place=1, label=b"dz1"), pair) for credential, pair in row)
    object.__setattr__(keys, "boxes", ((relabelled, *keys.boxes[0][1:]),))
    refused(world, ring, world.seal(liar, {**QUOTE, "price": 200}))


def test_a_publisher_cannot_seal_attributes_on_other_paths(world: World) -> None:
    """The attributes inside must lie on the paths that the event was sealed for."""
    from plait_crypto.envelope import EVENT
    from plait_crypto.plaintext import Plaintext, bound_digest

    liar, ring = world.publisher(), world.reader("price < 128")
    said, sealed = {**QUOTE, "price": 200}, QUOTE
    envelope, _ = liar.envelope(
        EVENT, dict(sealed), Plaintext(dict(said), b""), 1, bound_digest({}, b""), world.now_us, world.rng
    )
    refused(world, ring, Sealed({}, envelope.encode()))


# --- time -------------------------------------------------------------------------------------------------------------


def test_a_replay_is_refused(world: World) -> None:
    ring, sealed = world.reader("true"), world.seal(world.publisher(), QUOTE)
    world.open(ring, sealed)
    refused(world, ring, sealed)


def test_an_old_epoch_is_taken_for_a_while_and_then_no_more() -> None:
    world = World.of(quotes())
    ring, sealed = world.reader("true"), world.seal(world.publisher(), QUOTE)
    world.now_us = 25 * HOUR_US - 1
    assert world.open(ring, sealed).epoch == 0
    later = World.of(quotes())
    ring, sealed = later.reader("true"), later.seal(later.publisher(), QUOTE)
    later.now_us = 25 * HOUR_US
    refused(later, ring, sealed)


def test_keys_of_one_epoch_open_nothing_of_the_next() -> None:
    world = World.of(quotes())
    ring = world.reader("true")
    world.now_us += 24 * HOUR_US
    sealed = world.seal(world.publisher(), QUOTE)
    refused(world, ring, sealed)
    ring.add(world.keys("true"))
    assert world.open(ring, sealed).epoch == 1
    with pytest.raises(KeyMissing):
        world.publisher().seal(Draft(QUOTE), now_us=world.now_us + 24 * HOUR_US, randomness=world.rng)


def test_keys_for_a_slot_open_that_slot_alone() -> None:
    """Check 5.5.7: an epoch of a day in eight slots; the fifth is noon to three."""
    world = World.of(quotes(slot_bits=3))
    ring = Keyring(world.realm)
    ring.add(world.keys("true", slots=(4, 5)))
    publisher = world.publisher()
    assert world.open(ring, world.seal(publisher, QUOTE, 1)).sequence == 1
    world.now_us += 3 * HOUR_US
    refused(world, ring, world.seal(publisher, QUOTE, 2))


def test_realms_have_nothing_in_common() -> None:
    one, two = World.of(quotes()), World.of(quotes(), seed=2)
    refused(two, two.reader("true"), one.seal(one.publisher(), QUOTE))


# --- size and refusals by the sealer ----------------------------------------------------------------------------------


def test_an_envelope_is_as_small_as_promised(world: World) -> None:
    from plait_core.space import IntRange
    from plait_crypto import Epochs, Numbers, Schema

    for rows, bits in [(1, 4), (2, 4), (4, 4), (8, 4), (15, 4), (4, 16)]:
        schema = Schema({f"a{i}": Numbers(IntRange(0, 2**bits - 1)) for i in range(rows)}, Epochs(0, 10**9, 0))
        assert overhead_bytes(schema.shape) <= 150 + 330 * rows + 85 * rows * bits
    sealed = world.seal(world.publisher(), QUOTE, payload=b"x" * 100)
    inside = len(sealed.envelope) - overhead_bytes(world.realm.schema.shape)
    assert 100 < inside < 150


def test_events_that_cannot_be_sealed_are_refused(world: World) -> None:
    publisher = world.publisher()
    cases: list[dict[str, object]] = [
        {"price": 999},
        {"price": "x"},
        {"side": "hold"},
        {"bad name!": 1},
        {"note": "x" * 20_000},
    ]
    for attributes in cases:
        with pytest.raises(SealInvalid):
            world.seal(publisher, attributes)
    with pytest.raises(SealInvalid, match="to hide"):
        world.seal(publisher, QUOTE, hidden=["colour"])
    with pytest.raises(SealInvalid, match="payload"):
        world.seal(publisher, QUOTE, payload=bytes(2**20 + 1))
