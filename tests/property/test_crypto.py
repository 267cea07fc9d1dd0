"""Sealed events compared with algebra and brute force: groups are bilinear, and keys open exactly what matches."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sealed_world import EPOCHS, World, foundations

from plait_core import parse
from plait_core.space import IntRange
from plait_crypto import Epochs, KeyInvalid, Numbers, OneOf, Schema, SealInvalid, SubscriberKeys, Texts, Unopenable
from plait_crypto.envelope import Envelope, Member
from plait_crypto.hazmat import ORDER, ArkworksGroups, Issuer, PointInvalid, Scheme
from plait_crypto.hazmat.combs import Comb, columns

GROUPS = ArkworksGroups()
SCHEMA = Schema(
    {"x": Numbers(IntRange(-3, 9)), "name": Texts(prefix_chars=2, suffix_chars=1), "side": OneOf.of("buy", 1, True)},
    EPOCHS,
)

exponents = st.integers(1, ORDER - 1)
few = settings(max_examples=25)


# --- algebra ----------------------------------------------------------------------------------------------------------


@few
@given(exponents, exponents)
def test_pairings_are_bilinear(a: int, b: int) -> None:
    one, two = GROUPS.g1, GROUPS.g2
    left = GROUPS.pair([(one.power(one.generator, a), two.power(two.generator, b))])
    product = a * b % ORDER
    for right in (
        [(one.power(one.generator, product), two.generator)],
        [(one.generator, two.power(two.generator, product))],
    ):
        assert GROUPS.gt.encode(left) == GROUPS.gt.encode(GROUPS.pair(right))


@few
@given(exponents)
def test_combs_agree_with_powers_in_every_group(exponent: int) -> None:
    digits, one, two = columns(exponent), GROUPS.g1, GROUPS.g2
    expected = one.power(one.generator, exponent)
    assert one.equal(_COMB1.power(digits), expected)
    assert two.equal(_COMB2.power(digits), two.power(two.generator, exponent))
    assert GROUPS.gt.encode(_COMBT.power(digits)) == GROUPS.gt.encode(GROUPS.pair([(expected, two.generator)]))


_COMB1 = Comb(GROUPS.g1.generator, GROUPS.g1.multiply)
_COMB2 = Comb(GROUPS.g2.generator, GROUPS.g2.multiply, tables=1)
_COMBT = Comb(GROUPS.pair([(GROUPS.g1.generator, GROUPS.g2.generator)]), GROUPS.gt.multiply, tables=4)


@few
@given(st.integers(1, 4), st.integers(2, 4), st.randoms(use_true_random=False), st.binary(max_size=40))
def test_the_equations_hold(rows: int, places: int, rng: Random, message: bytes) -> None:
    parameters, master = foundations()
    under = Scheme(parameters, credentials_kept=8, tag_key=master.tag_key)
    identities = [[rng.randbytes(8) for _ in range(places)] for _ in range(rows)]
    at = [rng.randrange(places) for _ in range(rows)]
    mine = [row[place] for row, place in zip(identities, at, strict=True)]
    issuer = Issuer(parameters, master)
    keys = issuer.subscriber_set(mine, rng)
    capsule, secret = under.encapsulate(identities, message, rng)
    chosen = list(zip(at, mine, keys.parts, strict=True))
    assert under.decapsulate(capsule, message, keys.s4, chosen) == secret
    for row in range(len(at)):
        assert under.tag(capsule.ct(row), keys.parts[row].s3) in capsule.tags(row)
    pairs = [issuer.publisher_pair(identity, rng) for identity in mine]
    under.verify(message, mine, under.sign(message, pairs, rng), rng)


# --- credentials against brute force ----------------------------------------------------------------------------------

_TEXTS = ["", "a", "b", "ab", "ba", "abc", "é", "\0"]
_VALUES: dict[str, list[Any]] = {"x": [None, *range(-3, 10)], "name": [None, *_TEXTS], "side": [None, "buy", 1, True]}


def _atom(name: str, rng: Random) -> str:
    number, text = rng.randint(-5, 11), rng.choice(_TEXTS[1:6])
    choices = {
        "x": [f"x {op} {number}" for op in ("<", "<=", ">", ">=", "==", "!=")] + [f"x in [{number}, 4]", "has(x)"],
        "name": [f"name {op} '{text[:2]}'" for op in ("startswith", "==")]
        + ["has(name)", f"name endswith '{text[0]}'"],
        "side": ["side == 'buy'", "side != 'buy'", "side", "side == 1", "has(side)", "side startswith 'b'"],
    }[name]
    return rng.choice([*choices, f"{name} is null"])


def _filter(rng: Random) -> str:
    boxes = [" and ".join(_atom(name, rng) for name in _VALUES if rng.random() < 0.6) for _ in range(rng.randint(1, 3))]
    return " or ".join(f"({box})" if box else "true" for box in boxes)


@settings(max_examples=200)
@given(st.randoms(use_true_random=False))
def test_credentials_match_exactly_what_the_filter_matches(rng: Random) -> None:
    filter = parse(_filter(rng))
    try:
        boxes = SCHEMA.boxes(filter)
    except SealInvalid as error:
        assert "no event" in error.message
        boxes = ()
    for _ in range(30):
        event = {name: rng.choice(values) for name, values in _VALUES.items()}
        event = {name: value for name, value in event.items() if value is not None}
        paths = SCHEMA.paths(event, 0)
        opened = any(
            all(any(labels[c.place] == c.label for c in row) for labels, row in zip(paths, box, strict=True))
            for box in boxes
        )
        assert opened == filter.matches(event), (str(filter), event)


@given(st.integers(1, 20), st.data())
def test_slots_are_covered_exactly_and_briefly(bits: int, data: st.DataObject) -> None:
    epochs = Epochs(0, 1 << 30, 0, slot_bits=bits)
    first = data.draw(st.integers(0, (1 << bits) - 1))
    end = data.draw(st.integers(first + 1, 1 << bits))
    cover = epochs.cover((first, end))
    assert len(cover) <= max(2 * bits - 2, 1)
    for slot in {0, first - 1, first, (first + end) // 2, end - 1, end, (1 << bits) - 1} & set(range(1 << bits)):
        path = epochs.path(slot)
        assert any(path[each.place] == each.label for each in cover) == (first <= slot < end)


@few
@given(st.randoms(use_true_random=False))
def test_an_event_opens_exactly_when_the_filter_matches(rng: Random) -> None:
    """Run all steps: issue, encode, seal, route and open."""
    world = World.of(SCHEMA)
    text = _filter(rng)
    event = {name: value for name, values in _VALUES.items() if (value := rng.choice(values)) is not None}
    sealed = world.seal(_publisher(world), event, hidden=[name for name in event if rng.random() < 0.5])
    try:
        ring = world.reader(text)
        opened = world.open(ring, sealed).attributes == event
    except (SealInvalid, Unopenable):
        opened = False
    assert opened == parse(text).matches(event)


def _publisher(world: World) -> Any:
    if "publisher" not in _KEPT:
        _KEPT["publisher"] = world.publisher()
    return _KEPT["publisher"]


_KEPT: dict[str, Any] = {}


# --- arbitrary bytes (SCORECARD D6) -----------------------------------------------------------------------------------


@settings(max_examples=500)
@given(st.binary(max_size=400))
def test_any_bytes_are_one_error_or_themselves(given: bytes) -> None:
    for prefix in (b"", b"\1\1", b"\1\2", b"\1\3"):
        for decode in (Envelope.decode, Member.decode):
            try:
                assert decode(prefix + given).encode() == prefix + given
            except Unopenable:
                pass
    for size in (48, 96):
        group: Any = GROUPS.g1 if size == 48 else GROUPS.g2
        cut = given[:size].ljust(size, b"\7")
        for encoded in (cut, bytes((cut[0] & 0x1F | 0x80,)) + cut[1:]):
            try:
                assert group.encode(group.decode(encoded)) == encoded
            except PointInvalid:
                pass
    for prefix in (b"", b"\1\2"):
        try:
            SubscriberKeys.decode(GROUPS, prefix + given)
        except KeyInvalid:
            pass
