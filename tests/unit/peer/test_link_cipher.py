"""The encryption of links: any cut of the bytes, any change of them, replay, reflection and strangers."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_peer.group import Group
from plait_peer.link_cipher import (
    FIRST_RECORD_BYTES_MAX,
    HANDSHAKE_BYTES,
    PLAINTEXT_BYTES_MAX,
    REKEY_RECORDS,
    CipherFault,
    LinkCipher,
    NoiseCipher,
    new_noise_cipher,
)

GROUP = Group("group", None, "swordfish")
HELLO = b"hello"


def new(dials: bool, group: Group = GROUP, seed: int = 0) -> LinkCipher:
    return new_noise_cipher(group, Random(2 * seed + dials), dials)


def exchanged(seed: int = 0) -> tuple[LinkCipher, LinkCipher]:
    """Return a dialler and an acceptor after the key exchange and the dialler's first record."""
    dialler, acceptor = new(True, seed=seed), new(False, seed=seed)
    acceptor.decrypt(dialler.write_handshake())
    dialler.decrypt(acceptor.write_handshake())
    assert acceptor.decrypt(dialler.encrypt(HELLO)) == HELLO
    return dialler, acceptor


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(ends)]


writes = st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=6)
places = st.lists(st.integers(0, 10_000), max_size=12)


@given(writes, places, places)
def test_any_cut_of_the_stream_decodes_the_same(written: list[bytes], exchange: list[int], later: list[int]) -> None:
    dialler, acceptor = new(True), new(False)
    for piece in cut(dialler.write_handshake(), exchange):
        assert acceptor.decrypt(piece) == b""
    for piece in cut(acceptor.write_handshake(), exchange):
        assert dialler.decrypt(piece) == b""
    stream = b"".join(dialler.encrypt(data) for data in written)
    assert b"".join(acceptor.decrypt(piece) for piece in cut(stream, later)) == b"".join(written)
    back = b"".join(acceptor.encrypt(data) for data in written)
    assert b"".join(dialler.decrypt(piece) for piece in cut(back, later)) == b"".join(written)


@given(writes, st.integers(0), places)
def test_any_changed_bit_ends_the_link(written: list[bytes], bit: int, later: list[int]) -> None:
    dialler, acceptor = exchanged()
    stream = b"".join(dialler.encrypt(data) for data in written)
    changed = (int.from_bytes(stream) ^ 1 << bit % (8 * len(stream))).to_bytes(len(stream))
    got = b""
    with pytest.raises(CipherFault):
        # A greater length waits for bytes that follow, so some follow.
        for piece in [*cut(changed, later), dialler.encrypt(bytes(PLAINTEXT_BYTES_MAX)), bytes(1 << 16)]:
            got += acceptor.decrypt(piece)
    assert b"".join(written).startswith(got), "only what came before the change"
    with pytest.raises(CipherFault):
        acceptor.decrypt(b"")


@given(st.integers(0, 8 * HANDSHAKE_BYTES - 1), st.booleans())
def test_any_changed_bit_of_the_key_exchange_ends_it(bit: int, answer: bool) -> None:
    dialler, acceptor = new(True), new(False)
    message, reader = dialler.write_handshake(), acceptor
    if answer:
        acceptor.decrypt(message)
        message, reader = acceptor.write_handshake(), dialler
    changed = (int.from_bytes(message) ^ 1 << bit).to_bytes(len(message))
    with pytest.raises(CipherFault, match="secret was not proved"):
        reader.decrypt(changed)
    assert not reader.proven
    assert reader.write_handshake() == b"", "a stranger gets no byte"


@pytest.mark.parametrize("group", [Group("group", None, "haddock"), Group("group"), Group("other", None, "swordfish")])
def test_another_secret_or_name_ends_the_exchange_in_the_same_way(group: Group) -> None:
    dialler, acceptor = new(True, group), new(False)
    with pytest.raises(CipherFault, match="the group's secret was not proved"):
        acceptor.decrypt(dialler.write_handshake())
    assert acceptor.write_handshake() == b""


@given(st.binary(min_size=HANDSHAKE_BYTES, max_size=300))
def test_no_other_bytes_are_answered(data: bytes) -> None:
    acceptor = new(False)
    with pytest.raises(CipherFault, match="the group's secret was not proved"):
        acceptor.decrypt(data)
    assert acceptor.write_handshake() == b""


def test_the_acceptor_sends_nothing_but_keys_before_the_dialler_has_proved_itself() -> None:
    dialler, acceptor = new(True), new(False)
    acceptor.decrypt(dialler.write_handshake())
    assert not acceptor.proven, "the first message may be a recorded one"
    with pytest.raises(AssertionError):
        acceptor.encrypt(b"profiles")
    dialler.decrypt(acceptor.write_handshake())
    acceptor.decrypt(dialler.encrypt(HELLO))
    assert acceptor.proven
    assert dialler.decrypt(acceptor.encrypt(b"profiles")) == b"profiles"


def test_a_recorded_exchange_is_answered_with_keys_alone_and_its_records_are_refused() -> None:
    dialler, acceptor = new(True), new(False)
    first = dialler.write_handshake()
    acceptor.decrypt(first)
    dialler.decrypt(acceptor.write_handshake())
    record = dialler.encrypt(HELLO)
    again = new(False, seed=1)
    again.decrypt(first)
    assert len(again.write_handshake()) == HANDSHAKE_BYTES
    with pytest.raises(CipherFault):
        again.decrypt(record)
    assert not again.proven


def test_a_repeated_left_out_or_exchanged_record_ends_the_link() -> None:
    for order in ([0, 0], [1], [1, 0]):
        dialler, acceptor = exchanged()
        records = [dialler.encrypt(b"one"), dialler.encrypt(b"two")]
        with pytest.raises(CipherFault, match="does not authenticate"):
            acceptor.decrypt(b"".join(records[place] for place in order))


def test_own_bytes_that_come_back_are_refused() -> None:
    dialler = new(True)
    with pytest.raises(CipherFault):
        dialler.decrypt(dialler.write_handshake())
    dialler, acceptor = exchanged()
    for end in (dialler, acceptor):
        with pytest.raises(CipherFault):
            end.decrypt(end.encrypt(b"mine"))


def test_a_man_in_the_middle_without_the_secret_fails_towards_both() -> None:
    """He exchanges keys of his own with each end, as would work without a pre-shared key."""
    dialler, acceptor = new(True), new(False)
    guessed = Group("group", None, "guess")
    with pytest.raises(CipherFault):
        acceptor.decrypt(new(True, guessed, seed=1).write_handshake())
    his = new(False, guessed, seed=2)
    with pytest.raises(CipherFault):
        his.decrypt(dialler.write_handshake())
    # He may put his public key into the dialler's message, and its tag stays: it does not fit.
    acceptor, own = new(False), new(True, seed=3).write_handshake()
    with pytest.raises(CipherFault):
        acceptor.decrypt(own[:32] + new(True).write_handshake()[32:])


def test_what_strangers_make_the_acceptor_buffer_is_bounded() -> None:
    dialler, acceptor = new(True), new(False)
    acceptor.decrypt(dialler.write_handshake())
    with pytest.raises(CipherFault):
        acceptor.decrypt((FIRST_RECORD_BYTES_MAX + 1).to_bytes(2))
    with pytest.raises(CipherFault):
        exchanged()[1].decrypt((16).to_bytes(2))  # without plaintext


@pytest.mark.parametrize("size", [1, PLAINTEXT_BYTES_MAX, PLAINTEXT_BYTES_MAX + 1, 3 * PLAINTEXT_BYTES_MAX + 7])
def test_one_write_is_as_many_records_as_it_needs(size: int) -> None:
    dialler, acceptor = exchanged()
    data = Random(size).randbytes(size)
    sent = dialler.encrypt(data)
    assert len(sent) == size + 18 * -(-size // PLAINTEXT_BYTES_MAX)
    assert acceptor.decrypt(sent) == data
    assert dialler.encrypt(b"") == b""


def test_each_direction_gets_new_keys_after_a_number_of_records_of_its_own() -> None:
    dialler, acceptor = exchanged()
    assert isinstance(dialler, NoiseCipher)
    assert isinstance(acceptor, NoiseCipher)

    def keys(end: NoiseCipher) -> tuple[object, object]:
        assert end._sending is not None
        assert end._receiving is not None
        return end._sending._aead, end._receiving._aead

    before = keys(dialler)
    for number in range(2 * REKEY_RECORDS + 3):
        data = number.to_bytes(4)
        assert acceptor.decrypt(dialler.encrypt(data)) == data
    sending, receiving = keys(dialler)
    assert sending is not before[0]
    assert receiving is before[1], "nothing came back"
    for number in range(REKEY_RECORDS + 3):
        data = number.to_bytes(4)
        assert dialler.decrypt(acceptor.encrypt(data)) == data
    assert keys(dialler)[1] is not before[1]


def test_a_link_key_depends_on_the_secret_alone_and_is_not_the_secret() -> None:
    assert Group("a", None, "s").link_key == Group("b", None, "s").link_key != Group("a", None, "t").link_key
    assert Group("a", None, "s").link_prologue != Group("b", None, "s").link_prologue
    assert len(Group("a", None, "s").link_key) == 32
