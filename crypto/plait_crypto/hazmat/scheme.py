"""The equations (thesis 5.5.4, 5.5.5, in type-3 groups): encapsulated keys, tags for routing, and signatures.

    seal     seed random;  b_i = H(seed, context, i);  b = sum b_i;  CT2 = h**b;  CT_i = g**b_i;  CT_ij = F(c_ij)**b_i
             tag_ij = H4(e(k**b_i, H3(c_ij))), sorted in each row
             masked = seed xor H(e(g1, g2)**b);  secret = KDF(seed, all of that)
    open     e(CT2, S4) / prod [ e(CT_i, S1_i) / e(CT_ici, S2_i) ] = e(g1, g2)**b;  then all used parts are recomputed
    sign     T = G1's g**t;  A_i = P1_i * M2(m)**t,  B_i = P2_i                       t fresh
    verify   e(g, A_i) = e(g1, g2) * e(F(c_i), B_i) * e(T, M2(m)), all i at once with random weights

The seed makes sealing secure against chosen ciphertexts (Fujisaki and Okamoto, 1999): a capsule that does not
re-encrypt to the same parts opens to an unused secret. The seed also reveals the b_i to every reader. So signatures
have an exponent of their own: under b_i, as in the thesis, A_i / M2(m)**b_i is the publisher's private key. One t
serves all A_i of a message; each equation is then an identity-based signature of Paterson and Schuldt (2006) on one
message.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from plait_core import Randomness

from .backend import G1, G1_BYTES, G2, G2_BYTES, Groups
from .capsule import SEED_BYTES, TAG_BYTES, Capsule
from .combs import ByteTables, Comb, columns
from .hashing import derive, digest, exponent
from .issuing import PublisherPair, SubscriberPart
from .parameters import Parameters, message_digest
from .prepared import CREDENTIALS_KEPT, PreparedCredentials

WEIGHT_BITS: Final = 128
"""Bits of the random weights: a false equation passes with a probability of 2**-128."""

POINTS_KEPT: Final = 1024
"""Decoded publisher keys B_i in the cache: all events of a publisher have the same."""

SECRET_BYTES: Final = 32


class SignatureInvalid(ValueError):
    """A signature that these credentials did not make on this message."""


class Rejected(ValueError):
    """A part of a capsule that is not a point."""


def signature_bytes(rows: int) -> int:
    """Return the size of a signature by this many credentials."""
    return G1_BYTES + 2 * G2_BYTES * rows


class Scheme:
    """The equations under one set of parameters, with caches shared by events. Not thread-safe.

    Publishers have a tag key, to encapsulate.
    """

    def __init__(
        self, parameters: Parameters, credentials_kept: int = CREDENTIALS_KEPT, *, tag_key: G1 | None = None
    ) -> None:
        self.parameters = parameters
        self.groups = parameters.groups
        self._g = Comb(self.groups.g1.generator, self.groups.g1.multiply, tables=4)
        self._h = Comb(parameters.h, self.groups.g1.multiply, tables=4)
        self._k = None if tag_key is None else Comb(tag_key, self.groups.g1.multiply, tables=4)
        self._e = Comb(self.groups.pair([(parameters.g1, parameters.g2)]), self.groups.gt.multiply, tables=4)
        self._messages = ByteTables(self.groups.g2.multiply, parameters.m2)
        self._prepared = PreparedCredentials(parameters, tag_key, credentials_kept)
        self._publisher_points: OrderedDict[bytes, G2] = OrderedDict()

    # --- the key ------------------------------------------------------------------------------------------------------

    def encapsulate(
        self, rows: Sequence[Sequence[bytes]], header: bytes, randomness: Randomness
    ) -> tuple[Capsule, bytes]:
        """Return a new capsule and the secret in it. One set of keys with a credential of each row opens it.

        `rows` are identities of credentials, the whole attribute's first.
        """
        seed = randomness.getrandbits(8 * SEED_BYTES).to_bytes(SEED_BYTES, "big")
        context = self._context(header)
        exponents = self._exponents(seed, context, len(rows))
        encode = self.groups.g1.encode
        made: list[bytes] = []
        for identities, b_i in zip(rows, exponents, strict=True):
            made += self._row(identities, b_i)
        total = columns(sum(exponents) % self.groups.order)
        masked = _xor(seed, self._mask(self.groups.gt.encode(self._e.power(total)), context))
        encoded = b"".join([encode(self._h.power(total)), masked, *made])
        capsule = Capsule(tuple(map(len, rows)), encoded)
        return capsule, derive(seed, b"secret", self._transcript(context, capsule), SECRET_BYTES)

    def decapsulate(
        self,
        capsule: Capsule,
        header: bytes,
        s4: G2,
        chosen: Sequence[tuple[int, bytes, SubscriberPart]],
    ) -> bytes:
        """Return the secret in a capsule, by keys of one set: for each row a place, its credential's identity and its
        key.

        Keys that do not fit, and capsules that `encapsulate` did not make, give a secret that nobody knows. Bytes that
        are not points raise Rejected.
        """
        assert len(chosen) == len(capsule.shape), "one key for each row"
        decode, group = self._decode, self.groups.g1
        context = self._context(header)
        ct2 = decode(capsule.ct2)
        cts = [decode(capsule.ct(row)) for row in range(len(chosen))]
        parts = [decode(capsule.part(row, place)) for row, (place, _, _) in enumerate(chosen)]
        pairs = [(ct2, s4)]
        for ct, part, (_, _, key) in zip(cts, parts, chosen, strict=True):
            pairs += [(group.inverse(ct), key.s1), (part, key.s2)]
        carried = self.groups.gt.encode(self.groups.pair(pairs))
        seed = _xor(capsule.masked, self._mask(carried, context))
        again = self._reencrypt(seed, context, [identity for _, identity, _ in chosen])
        true = all([group.equal(a, b) for a, b in zip(again, [ct2, *cts, *parts], strict=True)])
        transcript = self._transcript(context, capsule)
        secrets = [
            derive(self.groups.g2.encode(s4), b"nobody's secret", transcript, SECRET_BYTES),
            derive(seed, b"secret", transcript, SECRET_BYTES),
        ]
        return secrets[true]

    def _row(self, identities: Sequence[bytes], b_i: int) -> list[bytes]:
        digits = columns(b_i)
        credentials = [self._prepared.use(identity) for identity in identities]
        assert self._k is not None, "only publishers make tags"
        k_power = self._k.power(digits)
        encode = self.groups.g1.encode
        parts = [encode(each.part(b_i, digits)) for each in credentials]
        tags = sorted(tag_bytes(self.groups.gt.encode(each.under_tag(k_power, digits))) for each in credentials)
        return [encode(self._g.power(digits)), *parts, *tags]

    def _reencrypt(self, seed: bytes, context: bytes, identities: Sequence[bytes]) -> list[G1]:
        exponents = self._exponents(seed, context, len(identities))
        digits = list(map(columns, exponents))
        used = zip(identities, exponents, digits, strict=True)
        parts = [self._prepared.use(identity).part(b_i, columns_of) for identity, b_i, columns_of in used]
        return [self._h.power(columns(sum(exponents) % self.groups.order)), *map(self._g.power, digits), *parts]

    def _exponents(self, seed: bytes, context: bytes, rows: int) -> list[int]:
        return [exponent(self.groups.order, b"b", seed, context, row.to_bytes(2, "big")) for row in range(rows)]

    def _context(self, header: bytes) -> bytes:
        return digest(b"context", self.parameters.digest, header)

    def _mask(self, carried: bytes, context: bytes) -> bytes:
        return derive(carried, b"mask", context, SEED_BYTES)

    def _transcript(self, context: bytes, capsule: Capsule) -> bytes:
        shape = b"".join(places.to_bytes(2, "big") for places in capsule.shape)
        return digest(b"transcript", context, shape, capsule.encoded)

    # --- routing ------------------------------------------------------------------------------------------------------

    def tag(self, ct: bytes, s3: G2) -> bytes:
        """Return the tag of a row with this CT_i at the credential of `s3`; raise Rejected if CT_i is not a point."""
        return tag_of(self.groups, self._decode(ct), s3)

    # --- signatures ---------------------------------------------------------------------------------------------------

    def sign(self, message: bytes, pairs: Sequence[PublisherPair], randomness: Randomness) -> bytes:
        """Return a signature by all these keys: T, then A_i and B_i of each.

        t also depends on the keys and the message, so that a repeating random generator does not repeat t.
        """
        group = self.groups.g2
        drawn = randomness.getrandbits(256).to_bytes(32, "big")
        t = exponent(self.groups.order, b"t", drawn, message, *(group.encode(pair.p1) for pair in pairs))
        blind = group.power(self._message(message), t)
        signed = [self.groups.g1.encode(self._g.power(columns(t)))]
        for pair in pairs:
            signed += [group.encode(group.multiply(pair.p1, blind)), group.encode(pair.p2)]
        return b"".join(signed)

    def verify(self, message: bytes, identities: Sequence[bytes], signature: bytes, randomness: Randomness) -> None:
        """Raise SignatureInvalid unless all these credentials signed the message."""
        if len(signature) != signature_bytes(len(identities)) or not identities:
            raise SignatureInvalid("a signature of another size")
        one, two = self.groups.g1, self.groups.g2
        try:
            t = one.decode(signature[:G1_BYTES])
            ends = range(G1_BYTES, len(signature), 2 * G2_BYTES)
            made = [two.decode(signature[at : at + G2_BYTES]) for at in ends]
            keys = [self._publisher_point(signature[at + G2_BYTES : at + 2 * G2_BYTES]) for at in ends]
        except ValueError:
            raise SignatureInvalid("a signature with a part that is no point") from None
        # The first weight may be 1: the random weights of the others prevent that errors cancel out.
        weights = [1, *(randomness.getrandbits(WEIGHT_BITS) + 1 for _ in identities[1:])]
        total = sum(weights)
        product = made[0] if total == 1 else two.product(made, weights)
        power = t if total == 1 else one.power(t, total)
        pairs = [(one.generator, product), (one.inverse(power), self._message(message))]
        for identity, weight, key in zip(identities, weights, keys, strict=True):
            prepared = self._prepared.use(identity)
            part = prepared.f if weight == 1 else prepared.part(weight, columns(weight))
            pairs.append((one.inverse(part), key))
        encode = self.groups.gt.encode
        if encode(self.groups.pair(pairs)) != encode(self._e.power(columns(total))):
            raise SignatureInvalid("a signature of other credentials, or on another message")

    def _message(self, message: bytes) -> G2:
        """Return M2(m)."""
        return self._messages.product(message_digest(message))

    def _publisher_point(self, encoded: bytes) -> G2:
        point = self._publisher_points.get(encoded)
        if point is None:
            point = self._publisher_points[encoded] = self.groups.g2.decode(encoded)
            if len(self._publisher_points) > POINTS_KEPT:
                self._publisher_points.popitem(last=False)
        return point

    def _decode(self, encoded: bytes) -> G1:
        try:
            return self.groups.g1.decode(encoded)
        except ValueError:
            raise Rejected("a part of a capsule that is no point") from None


def tag_of(groups: Groups, ct: G1, s3: G2) -> bytes:
    """Return the tag of a row with this CT_i at the credential of `s3`.

    Brokers can compute it, as it needs no parameters.
    """
    return tag_bytes(groups.gt.encode(groups.pair([(ct, s3)])))


def tag_bytes(encoded: bytes) -> bytes:
    """Return H4."""
    return digest(b"H4", encoded)[:TAG_BYTES]


def _xor(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).to_bytes(len(a), "big")
