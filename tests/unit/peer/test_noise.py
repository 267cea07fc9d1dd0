"""The key exchange and ciphers of Noise, beside its published test vector and each step by hand."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from plait_peer.noise import CipherState, HandshakeState, NotAuthentic, hkdf

# The vector of cacophony (vectors/cacophony.txt) for Noise_NNpsk0_25519_ChaChaPoly_SHA256. The names of economists are
# the payloads.
PROLOGUE = bytes.fromhex("4a6f686e2047616c74")
PSK = bytes.fromhex("54686973206973206d7920417573747269616e20706572737065637469766521")
INITIATOR = bytes.fromhex("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a")
RESPONDER = bytes.fromhex("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b")
HANDSHAKE_HASH = "f4d03dc34495c95729ea6de9e1b59004b59733102488b3e24bc441e0be208eaf"
MESSAGES = [
    (
        b"Ludwig von Mises",
        "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c794479b962b8aff8485742ac32f905ba45369e2465fb59e138"
        "a93d67a0d1266b6a54",
    ),
    (
        b"Murray Rothbard",
        "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843d6062704d5a9c422a8e834423f8c1feada7e8d0d910a1a"
        "2cd030fb584221e3",
    ),
    (b"F. A. Hayek", "e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f"),
    (b"Carl Menger", "64c6bee32ea91c8474bb4c21d7a700109ad45af77b29764ba5eb1e"),
    (b"Jean-Baptiste Say", "e2fa0bed0603b62d3ccac2ecabbf3fe33f3e86514909b323361626266cb2471cc8"),
    (
        "Eugen B\xf6hm von Bawerk".encode("latin-1"),
        "0c01dc9cec1fe4ddd692e8dd32188aa351088dc91183639a53b57aa4692b5ebdef8b8ca111",
    ),
]


def ends(
    psk: bytes = PSK, other_psk: bytes = PSK, prologue: bytes = PROLOGUE, other_prologue: bytes = PROLOGUE
) -> tuple[HandshakeState, HandshakeState]:
    return (
        HandshakeState(psk, prologue, INITIATOR, initiator=True),
        HandshakeState(other_psk, other_prologue, RESPONDER, initiator=False),
    )


def test_the_published_vector() -> None:
    initiator, responder = ends()
    (first, first_sent), (second, second_sent), *rest = MESSAGES
    assert initiator.write_message(first).hex() == first_sent
    assert responder.read_message(bytes.fromhex(first_sent)) == first
    assert responder.write_message(second).hex() == second_sent
    assert initiator.read_message(bytes.fromhex(second_sent)) == second
    assert initiator.hash.hex() == responder.hash.hex() == HANDSHAKE_HASH
    sending, receiving = zip(initiator.split(), reversed(responder.split()), strict=True)
    for number, (payload, sent) in enumerate(rest):
        source, reader = (sending, receiving)[number % 2][:: 1 if number % 2 == 0 else -1]
        assert source.encrypt(payload).hex() == sent
        assert reader.decrypt(bytes.fromhex(sent)) == payload


def test_hkdf_is_that_of_section_4_3() -> None:
    temporary = hmac.digest(b"c" * 32, b"input", hashlib.sha256)
    one = hmac.digest(temporary, b"\x01", hashlib.sha256)
    two = hmac.digest(temporary, one + b"\x02", hashlib.sha256)
    three = hmac.digest(temporary, two + b"\x03", hashlib.sha256)
    assert hkdf(b"c" * 32, b"input", 2) == [one, two]
    assert hkdf(b"c" * 32, b"input", 3) == [one, two, three]


def test_the_nonce_is_four_zeros_and_a_little_endian_count() -> None:
    cipher, plain = CipherState(b"k" * 32), ChaCha20Poly1305(b"k" * 32)
    for count in range(3):
        assert cipher.encrypt(b"text") == plain.encrypt(bytes(4) + count.to_bytes(8, "little"), b"text", b"")


def test_a_new_key_is_the_encryption_of_zeros_and_the_count_goes_on() -> None:
    cipher, plain = CipherState(b"k" * 32), ChaCha20Poly1305(b"k" * 32)
    cipher.encrypt(b"text")
    cipher.rekey()
    key = plain.encrypt(bytes(4) + b"\xff" * 8, bytes(32), b"")[:32]
    assert cipher.encrypt(b"text") == ChaCha20Poly1305(key).encrypt(bytes(4) + (1).to_bytes(8, "little"), b"text", b"")


def test_a_failed_decryption_leaves_the_nonce() -> None:
    source, reader = CipherState(b"k" * 32), CipherState(b"k" * 32)
    message = source.encrypt(b"text")
    with pytest.raises(NotAuthentic):
        reader.decrypt(bytes(len(message)))
    assert reader.decrypt(message) == b"text"


@pytest.mark.parametrize("other", [{"other_psk": b"p" * 32}, {"other_prologue": b"another group"}])
def test_another_key_or_prologue_fails_at_the_first_message(other: dict[str, bytes]) -> None:
    initiator, responder = ends(**other)
    with pytest.raises(NotAuthentic):
        responder.read_message(initiator.write_message())


@given(st.integers(0, 48 * 8 - 1), st.booleans())
def test_no_changed_message_is_accepted(bit: int, second: bool) -> None:
    initiator, responder = ends()
    message, reader = initiator.write_message(), responder
    if second:
        responder.read_message(message)
        message, reader = responder.write_message(), initiator
    changed = (int.from_bytes(message) ^ 1 << bit).to_bytes(len(message))
    with pytest.raises(NotAuthentic):
        reader.read_message(changed)


def test_a_message_that_comes_back_is_refused() -> None:
    initiator, _ = ends()
    message = initiator.write_message()
    with pytest.raises(NotAuthentic):
        initiator.read_message(message)


def test_a_key_of_low_order_is_refused() -> None:
    initiator, responder = ends()
    responder._symmetric.mix_key_and_hash(PSK)
    responder._symmetric.mix_hash(bytes(32))
    responder._symmetric.mix_key(bytes(32))
    responder._remote = bytes(32)
    with pytest.raises(NotAuthentic):
        responder.write_message()
    assert len(initiator.write_message()) == 48


def test_two_exchanges_share_no_key() -> None:
    def sent(ephemeral: bytes) -> bytes:
        initiator = HandshakeState(PSK, PROLOGUE, ephemeral, initiator=True)
        responder = HandshakeState(PSK, PROLOGUE, X25519PrivateKey.generate().private_bytes_raw(), initiator=False)
        responder.read_message(initiator.write_message())
        initiator.read_message(responder.write_message())
        return initiator.split()[0].encrypt(b"text")

    assert sent(INITIATOR) != sent(INITIATOR), "the other end's key is new"
