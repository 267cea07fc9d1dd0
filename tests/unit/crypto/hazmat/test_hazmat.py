"""The cryptographic core: both backends on every operation, combs, and the scheme's equations (thesis 5.5)."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from sealed_attacks.points import bad_encodings
from sealed_world import foundations

from plait_crypto.hazmat import (
    ORDER,
    ArkworksGroups,
    Capsule,
    Issuer,
    MasterSecret,
    Parameters,
    PointInvalid,
    Rejected,
    Scheme,
    SignatureInvalid,
    SubscriberSet,
)
from plait_crypto.hazmat.backend import G1_BYTES, G2_BYTES, Groups
from plait_crypto.hazmat.capsule import SEED_BYTES, TAG_BYTES
from plait_crypto.hazmat.combs import ByteTables, Comb, columns
from plait_crypto.hazmat.hashing import bit_places, digest
from plait_crypto.hazmat.reference import ReferenceGroups

FAST, SLOW = ArkworksGroups(), ReferenceGroups()
BACKENDS = pytest.mark.parametrize("groups", [FAST, SLOW], ids=lambda groups: groups.name)

IDENTITIES = [[b"%d/%d" % (row, place) for place in range(3)] for row in range(3)]


# --- backends ---------------------------------------------------------------------------------------------------------


def test_both_backends_agree_on_every_operation() -> None:
    found = []
    for groups in (FAST, SLOW):
        a, b = (
            groups.g1.power(groups.g1.generator, 5),
            groups.g1.power(groups.g1.generator, ORDER - 9),
        )
        c, d = groups.g2.power(groups.g2.generator, 7), groups.g2.inverse(groups.g2.generator)
        one, two = groups.g1, groups.g2
        points1 = [a, b, one.multiply(a, b), one.inverse(a), one.product([a, b], [3, ORDER - 1])]
        points2 = [
            c,
            d,
            two.multiply(c, d),
            two.inverse(c),
            two.product([c, d], [4, 11]),
            groups.hash_to_g2(b"m", b"t"),
        ]
        carried = groups.pair([(a, c), (b, d)])
        found.append(
            [
                *map(one.encode, points1),
                *map(two.encode, points2),
                groups.gt.encode(carried),
                groups.gt.encode(groups.gt.multiply(carried, carried)),
            ]
        )
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0])


@BACKENDS
def test_points_survive_their_encoding(groups: Groups) -> None:
    for exponent in (1, 2, ORDER - 1):
        a, b = groups.g1.power(groups.g1.generator, exponent), groups.g2.power(groups.g2.generator, exponent)
        assert groups.g1.equal(groups.g1.decode(groups.g1.encode(a)), a)
        assert groups.g2.equal(groups.g2.decode(groups.g2.encode(b)), b)


@BACKENDS
@pytest.mark.parametrize("what", bad_encodings(G1_BYTES))
def test_no_bad_point_is_decoded(groups: Groups, what: str) -> None:
    with pytest.raises(PointInvalid):
        groups.g1.decode(bad_encodings(G1_BYTES)[what])
    with pytest.raises(PointInvalid):
        groups.g2.decode(bad_encodings(G2_BYTES)[what])


def test_the_points_outside_the_subgroup_are_on_their_curves() -> None:
    """Check that the points are on their curves, so that only the subgroup check can refuse them."""
    from py_arkworks_bls12381 import G1Point, G2Point

    for point, size in ((G1Point, G1_BYTES), (G2Point, G2_BYTES)):
        assert not point.from_compressed_bytes_unchecked(bad_encodings(size)["wrong subgroup"]).is_in_subgroup()


# --- combs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tables", [1, 2, 4, 32])
def test_combs_give_powers(tables: int) -> None:
    comb = Comb(3, lambda a, b: a * b % ORDER, tables)
    for exponent in [1, 2, 255, 2**32, 2**128 - 1, 2**255, ORDER - 1, *(Random(1).getrandbits(255) for _ in range(50))]:
        assert comb.power(columns(exponent)) == pow(3, exponent, ORDER)


def test_byte_tables_give_waters_products() -> None:
    vector = [Random(2).getrandbits(200) | 1 for _ in range(257)]
    tables = ByteTables(lambda a, b: a * b % ORDER, vector)
    for given in (bytes(32), b"\xff" * 32, digest(b"x"), digest(b"y")):
        expected = vector[0]
        for place in bit_places(given):
            expected = expected * vector[place + 1] % ORDER
        assert tables.product(given) == expected


# --- the scheme -------------------------------------------------------------------------------------------------------


class Scene:
    """Parameters, one set of subscriber keys and one publisher for the middle credential of each row."""

    def __init__(self) -> None:
        self.parameters, self.master = foundations()
        self.issuer = Issuer(self.parameters, self.master)
        self.rng = Random(3)
        self.under = Scheme(self.parameters, tag_key=self.master.tag_key)
        self.mine = [row[1] for row in IDENTITIES]
        self.keys = self.issue(self.mine)
        self.pairs = [self.issuer.publisher_pair(each, self.rng) for each in self.mine]

    def issue(self, identities: list[bytes]) -> SubscriberSet:
        return self.issuer.subscriber_set(identities, self.rng)

    def open(self, capsule: Capsule, header: bytes = b"h", keys: SubscriberSet | None = None) -> bytes:
        keys = keys or self.keys
        chosen = [(1, identity, part) for identity, part in zip(self.mine, keys.parts, strict=True)]
        return self.under.decapsulate(capsule, header, keys.s4, chosen)

    def capsule(self) -> tuple[Capsule, bytes]:
        return self.under.encapsulate(IDENTITIES, b"h", self.rng)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def test_a_capsule_opens_again_and_again(scene: Scene) -> None:
    """Three times: without combs, while they are built, and with them."""
    for _ in range(3):
        capsule, secret = scene.capsule()
        assert scene.open(capsule) == secret


def test_two_capsules_of_one_event_share_nothing(scene: Scene) -> None:
    (one, first), (two, second) = scene.capsule(), scene.capsule()
    assert first != second
    assert not {one.ct(0), one.part(0, 0), *one.tags(0)} & {two.ct(0), two.part(0, 0), *two.tags(0)}


def test_the_header_is_part_of_the_capsule(scene: Scene) -> None:
    capsule, secret = scene.capsule()
    assert scene.open(capsule, header=b"another") != secret


def test_keys_of_two_sets_open_nothing_together(scene: Scene) -> None:
    """Thesis 5.5.6: s binds the keys of a set. Each set opens the capsule, a mixture of two does not."""
    capsule, secret = scene.capsule()
    other = scene.issue(scene.mine)
    assert scene.open(capsule, keys=other) == secret
    for at in range(3):
        parts = tuple(other.parts[i] if i == at else part for i, part in enumerate(scene.keys.parts))
        assert scene.open(capsule, keys=SubscriberSet(scene.keys.s4, parts)) != secret
    assert scene.open(capsule, keys=SubscriberSet(other.s4, scene.keys.parts)) != secret


def test_a_key_of_a_wrong_credential_opens_nothing(scene: Scene) -> None:
    capsule, secret = scene.capsule()
    assert scene.open(capsule, keys=scene.issue([*scene.mine[:2], b"another"])) != secret


def test_every_changed_part_changes_the_secret(scene: Scene) -> None:
    """The transcript binds the parts that this reader does not use, and re-encryption binds those that it uses."""
    capsule, secret = scene.capsule()
    other, _ = scene.capsule()
    for at in range(0, len(capsule.encoded), 16):
        mixed = Capsule(capsule.shape, capsule.encoded[:at] + other.encoded[at : at + 16] + capsule.encoded[at + 16 :])
        try:
            assert scene.open(mixed) != secret
        except Rejected:
            pass


def test_a_capsule_not_derived_from_its_seed_is_refused(scene: Scene) -> None:
    """Fujisaki and Okamoto: a capsule whose exponents are not derived from its seed is refused.

    Without re-encryption, the reader would get the same seed, and the secret of this transcript.
    """
    capsule, _ = scene.capsule()
    group, size = scene.parameters.groups.g1, G1_BYTES
    shift = 12345
    encoded = bytearray(capsule.encoded)

    def shifted(at: int, base: object, exponent: int) -> None:
        point = group.multiply(group.decode(bytes(encoded[at : at + size])), group.power(base, exponent))  # type: ignore[arg-type]
        encoded[at : at + size] = group.encode(point)

    row_bytes = size * 4 + 3 * TAG_BYTES
    for row, by in ((0, shift), (1, ORDER - shift)):  # b_0 + shift, b_1 - shift: the same b
        start = size + 32 + row * row_bytes
        shifted(start, group.generator, by)
        for place in range(3):
            shifted(start + size * (1 + place), scene.parameters.in_g1(IDENTITIES[row][place]), by)
    mauled = Capsule(capsule.shape, bytes(encoded))
    nobodys = scene.open(mauled)
    secrets = _secret_without_remaking(scene, mauled)
    assert nobodys != secrets


def _secret_without_remaking(scene: Scene, capsule: Capsule) -> bytes:
    """Return the secret that a reader without re-encryption would get."""

    class Trusting(Scheme):
        def _reencrypt(self, seed: bytes, context: bytes, identities: object) -> list[object]:  # type: ignore[override]
            decode = self.groups.g1.decode
            rows = range(len(capsule.shape))
            return [decode(each) for each in [capsule.ct2, *map(capsule.ct, rows), *(capsule.part(r, 1) for r in rows)]]

    chosen = [(1, identity, part) for identity, part in zip(scene.mine, scene.keys.parts, strict=True)]
    return Trusting(scene.parameters).decapsulate(capsule, b"h", scene.keys.s4, chosen)


def test_tags_match_their_credential_alone(scene: Scene) -> None:
    capsule, _ = scene.capsule()
    for row, part in enumerate(scene.keys.parts):
        found = scene.under.tag(capsule.ct(row), part.s3)
        assert [number for number in range(3) if found in capsule.tags(number)] == [row]
        assert scene.under.tag(capsule.ct(row), scene.issuer.token(b"another")) not in capsule.tags(row)


def test_the_order_of_tags_tells_no_place(scene: Scene) -> None:
    """They are sorted, so where the tag of one credential stands changes from capsule to capsule."""
    places = set()
    for _ in range(40):
        capsule, _ = scene.capsule()
        tags = sorted(capsule.tags(0))
        start = G1_BYTES + SEED_BYTES + 4 * G1_BYTES
        assert capsule.encoded[start : start + 3 * TAG_BYTES] == b"".join(tags)
        places.add(tags.index(scene.under.tag(capsule.ct(0), scene.keys.parts[0].s3)))
    assert places == {0, 1, 2}


# --- signatures -------------------------------------------------------------------------------------------------------


def test_signatures_verify(scene: Scene) -> None:
    signature = scene.under.sign(b"m", scene.pairs, scene.rng)
    scene.under.verify(b"m", scene.mine, signature, scene.rng)


def test_a_signature_is_of_its_message_its_credentials_and_its_keys(scene: Scene) -> None:
    signature = scene.under.sign(b"m", scene.pairs, scene.rng)
    cases = [(b"n", scene.mine), (b"m", [*scene.mine[:2], b"another"]), (b"m", scene.mine[::-1]), (b"m", [])]
    for message, identities in cases:
        with pytest.raises(SignatureInvalid):
            scene.under.verify(message, identities, signature, scene.rng)


def test_no_part_of_a_signature_can_be_exchanged(scene: Scene) -> None:
    one, two = (scene.under.sign(b"m", scene.pairs, scene.rng) for _ in range(2))
    cuts = [0, 48, *(48 + 96 * k for k in range(1, 7))]
    for start, end in pairwise(cuts):
        mixed = one[:start] + two[start:end] + one[end:]
        if mixed != one:  # the B_i are the publisher's, the same in both
            with pytest.raises(SignatureInvalid):
                scene.under.verify(b"m", scene.mine, mixed, scene.rng)
    swapped = one[:48] + one[48 + 192 : 48 + 384] + one[48 : 48 + 192] + one[48 + 384 :]
    with pytest.raises(SignatureInvalid):
        scene.under.verify(b"m", scene.mine, swapped, scene.rng)


def test_errors_in_two_equations_do_not_cancel(scene: Scene) -> None:
    """The weights detect this: A_0 times x and A_1 over x satisfy the plain product of the equations."""
    signature = scene.under.sign(b"m", scene.pairs, scene.rng)
    group = scene.parameters.groups.g2
    x = group.power(group.generator, 99)
    made = [group.decode(signature[48 + 192 * row : 144 + 192 * row]) for row in range(3)]
    made[0], made[1] = group.multiply(made[0], x), group.multiply(made[1], group.inverse(x))
    forged = signature[:48] + b"".join(
        group.encode(point) + signature[144 + 192 * row : 240 + 192 * row] for row, point in enumerate(made)
    )
    with pytest.raises(SignatureInvalid):
        scene.under.verify(b"m", scene.mine, forged, scene.rng)


def test_the_weights_of_a_verification_have_128_bits(scene: Scene) -> None:
    """An attacker that guesses the weights can choose errors that cancel each other."""
    drawn: list[int] = []

    class Recording(Random):
        def getrandbits(self, k: int) -> int:
            drawn.append(k)
            return super().getrandbits(k)

    scene.under.verify(b"m", scene.mine, scene.under.sign(b"m", scene.pairs, scene.rng), Recording(1))
    assert drawn == [128, 128], "one equation needs no weight"


def test_under_the_exponents_of_the_capsule_a_reader_would_have_the_publishers_key(scene: Scene) -> None:
    """Signatures need an exponent of their own.

    Thesis 5.5.4.2 signs with b_i, which re-encryption reveals to all readers. One division then gives P1, which signs
    anything. With the secret t, the same division gives nothing.
    """
    group, pair, b_i = scene.parameters.groups.g2, scene.pairs[0], 777
    blind = group.power(scene.parameters.message(b"m"), b_i)
    as_in_the_thesis = group.multiply(pair.p1, blind)
    assert group.equal(group.multiply(as_in_the_thesis, group.inverse(blind)), pair.p1)
    ours = group.decode(scene.under.sign(b"m", scene.pairs, scene.rng)[48:144])
    assert not group.equal(group.multiply(ours, group.inverse(blind)), pair.p1)


def test_a_generator_that_repeats_itself_does_not_repeat_the_exponent(scene: Scene) -> None:
    one = scene.under.sign(b"m", scene.pairs, Random(5))
    two = scene.under.sign(b"n", scene.pairs, Random(5))
    assert one[:48] != two[:48]


# --- set-up -----------------------------------------------------------------------------------------------------------


def test_parameters_and_secret_survive_their_encoding() -> None:
    parameters, master = foundations()
    again = Parameters.decode(FAST, parameters.encode())
    assert again.digest == parameters.digest
    kept = MasterSecret.decode(FAST, master.encode())
    assert (kept.phi, kept.psi, kept.seed) == (master.phi, master.psi, master.seed)
    assert FAST.g2.equal(kept.g2_alpha, master.g2_alpha)
    assert kept.logarithm(b"c") == master.logarithm(b"c")
    assert repr(master.phi) not in repr(master)


def test_the_master_secret_knows_the_logarithms_that_the_parameters_hide() -> None:
    parameters, master = foundations()
    found = FAST.g1.power(FAST.g1.generator, master.logarithm(b"a credential"))
    assert FAST.g1.equal(found, parameters.in_g1(b"a credential"))


def test_the_prepared_are_bounded() -> None:
    parameters, master = foundations()
    under = Scheme(parameters, credentials_kept=2, tag_key=master.tag_key)
    for _ in range(2):
        under.encapsulate(IDENTITIES, b"h", Random(1))
    assert len(under._prepared) == 2
