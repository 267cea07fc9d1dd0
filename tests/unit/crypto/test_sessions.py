"""Sealing sessions: one encapsulated key for many events, a signature per batch, and bounds on all of it."""

from __future__ import annotations

import struct

import pytest
from sealed_world import HOUR_US, World, quotes, sides

from plait_crypto import Draft, Keyring, Sealed, SealedMember, Sealer, SessionSealer, Unopenable, merkle
from plait_crypto.envelope import Member
from plait_crypto.hazmat.hashing import digest
from plait_crypto.limits import BATCH_MAX, SESSION_US_MAX
from plait_crypto.plaintext import Plaintext, bound_digest

MINUTE_US = 60_000_000


class Scene:
    """A publisher that seals in sessions, and a reader."""

    def __init__(self, filter: str = "side == 'buy'", **bounds: int) -> None:
        self.world = World.of(sides())
        self.sealer: Sealer = self.world.publisher()
        self.sessions = SessionSealer(self.sealer, **bounds)
        self.ring = self.world.reader(filter)
        self.sequence = 0

    def seal(self, count: int, side: str = "buy", **more: object) -> list[SealedMember]:
        drafts = []
        for _ in range(count):
            self.sequence += 1
            drafts.append(Draft({"side": side, "n": self.sequence}, b"p", self.sequence, **more))  # type: ignore[arg-type]
        return self.sessions.seal(drafts, now_us=self.world.now_us, randomness=self.world.rng)

    def begin(self, opening: bytes, ring: Keyring | None = None) -> None:
        (ring or self.ring).begin(opening, now_us=self.world.now_us, randomness=self.world.rng)

    def open(self, member: SealedMember, ring: Keyring | None = None) -> int:
        return self.world.open(ring or self.ring, Sealed(member.clear, member.envelope)).sequence

    def refused(self, member: SealedMember | Sealed, bound: bytes = b"") -> None:
        with pytest.raises(Unopenable) as caught:
            self.world.open(self.ring, Sealed(member.clear, member.envelope), bound)
        assert str(caught.value) == "a sealed event that does not open here"


def numbers(members: list[SealedMember]) -> list[int]:
    """Return the numbers of events in their sessions. A session begins with 0."""
    return [Member.decode(member.envelope).head.number for member in members]


def test_a_session_has_one_opening_and_many_events() -> None:
    scene = Scene()
    members = scene.seal(200)
    assert numbers(members) == list(range(200))
    assert {(member.session, member.opening) for member in members} == {(members[0].session, members[0].opening)}
    scene.begin(members[0].opening)
    assert [scene.open(member) for member in members] == list(range(1, 201))
    (more,) = scene.seal(1)
    assert (more.session, scene.open(more)) == (members[0].session, 201)


@pytest.mark.parametrize("count", [0, BATCH_MAX, 2 * BATCH_MAX, 2 * BATCH_MAX + 1])
def test_full_batches_leave_nothing_over(count: int) -> None:
    assert numbers(Scene().seal(count)) == list(range(count))


def test_each_event_opens_without_the_others() -> None:
    scene = Scene()
    members = scene.seal(BATCH_MAX - 1)
    scene.begin(members[0].opening)
    for member in reversed(members[::7]):
        scene.open(member)


def test_a_session_is_of_one_vector_of_credentials() -> None:
    scene = Scene()
    buys, sells = scene.seal(2), scene.seal(2, side="sell")
    assert buys[0].session != sells[0].session
    scene.begin(buys[0].opening)
    assert scene.open(buys[0]) == 1
    with pytest.raises(Unopenable):
        scene.begin(sells[0].opening)
    scene.refused(sells[0])
    both = scene.seal(1) + scene.seal(1, side="sell")
    assert [member.session for member in both] == [buys[0].session, sells[0].session]
    assert len(scene.sessions.openings()) == 2


def test_an_event_without_a_session_shares_its_key_with_no_other() -> None:
    scene = Scene()
    (before,) = scene.seal(1)
    one, two = scene.seal(2, session=False)
    (after,) = scene.seal(1)
    assert len({member.session for member in (before, one, two)}) == 3
    assert len({member.opening for member in (before, one, two)}) == 3
    assert (after.session, numbers([before, one, two, after])) == (before.session, [0, 0, 0, 1])
    assert len(scene.sessions.openings()) == 1, "it takes no place of another session"
    for member in (before, one, two, after):
        scene.begin(member.opening)
    assert [scene.open(member) for member in (before, one, two, after)] == [1, 2, 3, 4]
    session = scene.sessions.begin(
        Draft({"side": "buy"}, session=False), now_us=scene.world.now_us, randomness=scene.world.rng
    )
    assert session.seal(Draft({"side": "buy"}), scene.world.now_us)
    assert session.seal(Draft({"side": "buy"}), scene.world.now_us) is None


def test_mixed_batches_come_back_in_their_order() -> None:
    scene = Scene("true")
    drafts = [Draft({"side": side}, b"", sequence) for sequence, side in enumerate(["buy", "sell"] * 100, 1)]
    members = scene.sessions.seal(drafts, now_us=scene.world.now_us, randomness=scene.world.rng)
    for opening in scene.sessions.openings():
        scene.begin(opening)
    assert [scene.open(member) for member in members] == list(range(1, 201))


def test_an_event_of_an_unknown_session_waits_for_its_opening() -> None:
    scene = Scene()
    first, second = scene.seal(2)
    assert not scene.ring.knows(second.envelope, first.opening)
    scene.refused(second)
    scene.begin(first.opening)
    scene.begin(first.opening)
    assert scene.ring.knows(second.envelope, first.opening)
    assert scene.open(second) == 2


def test_a_session_ends_after_its_events_its_time_and_its_slot() -> None:
    scene = Scene(events_max=3, life_us=MINUTE_US)
    members = scene.seal(7)
    assert numbers(members) == [0, 1, 2, 0, 1, 2, 0]
    assert len({member.session for member in members}) == 3
    scene.world.now_us += MINUTE_US
    assert numbers(scene.seal(2)) == [0, 1]

    world = World.of(quotes(slot_bits=3))
    sessions = SessionSealer(world.publisher())
    world.now_us = 15 * HOUR_US - 1
    for expected in (0, 1):
        assert numbers(sessions.seal([Draft({"side": "buy"})], now_us=world.now_us, randomness=world.rng)) == [expected]
    world.now_us += 1
    assert numbers(sessions.seal([Draft({"side": "buy"})], now_us=world.now_us, randomness=world.rng)) == [0]


def test_events_after_the_end_of_their_session_are_refused() -> None:
    scene = Scene(life_us=MINUTE_US)
    first, second, third = scene.seal(3)
    scene.begin(first.opening)
    scene.world.now_us += MINUTE_US + HOUR_US - 1
    assert scene.open(second) == 2
    scene.world.now_us += 1
    scene.refused(third)
    scene.ring.forget(scene.world.now_us)
    assert not scene.ring.knows(third.envelope, first.opening)


def test_a_session_that_promises_too_much_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    monkeypatch.setattr("plait_crypto.sessions.SESSION_US_MAX", 10 * HOUR_US)
    long = SessionSealer(scene.sealer, life_us=SESSION_US_MAX * 200)
    (member,) = long.seal([Draft({"side": "buy"})], now_us=scene.world.now_us, randomness=scene.world.rng)
    with pytest.raises(Unopenable):
        scene.begin(member.opening)


def test_a_flipped_bit_of_any_byte_is_refused() -> None:
    scene = Scene()
    members = scene.seal(5)
    scene.begin(members[0].opening)
    envelope = members[3].envelope
    for bit in range(8 * len(envelope)):
        flipped = bytearray(envelope)
        flipped[bit // 8] ^= 1 << bit % 8
        scene.refused(Sealed(members[3].clear, bytes(flipped)))
    assert scene.open(members[3]) == 4
    for bit in range(0, 8 * len(envelope), 5):  # also when its root is known
        flipped = bytearray(members[4].envelope)
        flipped[bit // 8] ^= 1 << bit % 8
        scene.refused(Sealed(members[4].clear, bytes(flipped)))


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(9))
def test_every_flipped_bit_of_nine_hundred_envelopes_is_refused(part: int) -> None:
    scene = Scene()
    for number in range(100):
        members = scene.seal(1 + (part + number) % 7)
        scene.begin(members[0].opening)
        for bit in range(8 * len(members[-1].envelope)):
            flipped = bytearray(members[-1].envelope)
            flipped[bit // 8] ^= 1 << bit % 8
            scene.refused(Sealed(members[-1].clear, bytes(flipped)))
        assert scene.open(members[-1]) == scene.sequence


def test_a_flipped_opening_begins_nothing() -> None:
    scene = Scene()
    opening = scene.seal(1)[0].opening
    for place in range(0, len(opening), 3):
        flipped = bytearray(opening)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(Unopenable):
            scene.begin(bytes(flipped))


def test_every_cut_is_refused() -> None:
    scene = Scene()
    members = scene.seal(5)
    scene.begin(members[0].opening)
    for length in range(len(members[1].envelope)):
        scene.refused(Sealed(members[1].clear, members[1].envelope[:length]))


def test_clear_attributes_are_authenticated() -> None:
    scene = Scene()
    (member,) = scene.seal(1, hidden=["n"], bound=b"noon")
    scene.begin(member.opening)
    for changed in ({"side": "sell"}, {}, {"side": "buy", "n": 1}, {"side": "buy", "x": 1}):
        scene.refused(Sealed(changed, member.envelope), b"noon")
    scene.refused(member)
    opened = scene.world.open(scene.ring, Sealed(member.clear, member.envelope), b"noon")
    assert opened.attributes == {"side": "buy", "n": 1}


def test_a_draft_that_cannot_be_encoded_takes_its_batch_along_and_no_number() -> None:
    scene = Scene()
    for sequence in (2**70, -1):
        drafts = [Draft({"side": "buy"}, b"not sent", 1), Draft({"side": "buy"}, sequence=sequence)]
        with pytest.raises(struct.error):
            scene.sessions.seal(drafts, now_us=scene.world.now_us, randomness=scene.world.rng)
    (member,) = scene.seal(1)
    assert numbers([member]) == [2], "the first events of both batches have drawn a number"
    scene.begin(member.opening)
    assert scene.open(member) == 1


def test_a_replay_is_refused() -> None:
    scene = Scene()
    (member,) = scene.seal(1)
    scene.begin(member.opening)
    scene.open(member)
    scene.refused(member)
    with pytest.raises(Unopenable):
        scene.world.open(scene.ring, Sealed({}, scene.sessions.openings()[0]))


def test_a_reader_of_a_session_cannot_write_in_it() -> None:
    """The reader has the session's key, but neither the publisher's keys nor the session's signing key."""
    scene = Scene()
    first, second = scene.seal(2)
    scene.begin(first.opening)
    state = scene.ring._sessions._sessions[first.session]
    member = Member.decode(second.envelope)
    clear_digest = bound_digest({}, b"")
    body = state.cipher.encrypt(
        member.head.number.to_bytes(12, "big"),
        Plaintext({"side": "buy", "n": 2}, b"forged").encode(),
        member.head.encode() + clear_digest,
    )
    forged = Member(member.head, member.leaf, member.leaves, member.siblings, member.root_signature, body)
    scene.refused(Sealed({}, forged.encode()))
    alone = Member(member.head, 0, 1, (), member.root_signature, body)
    scene.refused(Sealed({}, alone.encode()))
    assert scene.open(second) == 2


def test_a_publisher_cannot_smuggle_other_attributes_into_a_session() -> None:
    """An event whose values lie on other paths than the session's opening is refused, though its signature is valid."""
    scene = Scene()
    (first,) = scene.seal(1)
    scene.begin(first.opening)
    (kept,) = scene.sessions._sessions.values()
    scene.sessions.begin = lambda *_, **__: kept  # type: ignore[method-assign]
    scene.refused(scene.seal(1, side="sell")[0])
    assert scene.open(scene.seal(1)[0]) == 3


def test_sessions_are_bounded_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_crypto.sessions.SESSIONS_SEALED_MAX", 1)
    monkeypatch.setattr("plait_crypto.session_readers.SESSIONS_OPENED_MAX", 1)
    scene = Scene("true")
    buy, sell = scene.seal(1)[0], scene.seal(1, side="sell")[0]
    assert len(scene.sessions.openings()) == 1
    assert scene.seal(1)[0].session != buy.session
    scene.begin(buy.opening)
    scene.begin(sell.opening)
    assert not scene.ring.knows(buy.envelope, buy.opening)
    assert scene.ring.knows(sell.envelope, sell.opening)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 63, 64])
def test_proofs_lead_to_the_root_and_nowhere_else(count: int) -> None:
    leaves = [digest(b"leaf", bytes((k,))) for k in range(count)]
    levels = merkle.grow(leaves)
    (root,) = levels[-1]
    for k, leaf in enumerate(leaves):
        proof = merkle.proof(levels, k)
        assert merkle.climb(leaf, k, proof) == root
        others = [j for j in range(count) if j != k]
        assert all(merkle.climb(leaf, j, proof) != root for j in others)
        assert all(merkle.climb(leaves[j], k, proof) != root for j in others)
