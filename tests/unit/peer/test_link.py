"""Links between processes of peers: what strangers get, limits on unfinished links, and broken ones. No sockets."""

from __future__ import annotations

from random import Random

import pytest
from peer_processes import Processes

from plait_core.space import DzSet, IntRange, Schema
from plait_core.wire import VERSION_MAX, VERSION_MIN, Hello, Role, encode_frame
from plait_core.wire.frame_types.connection_frames import Close
from plait_peer.group import Group
from plait_peer.link import HANDSHAKE_S, IDLE_S, Stage
from plait_peer.link_cipher import HANDSHAKE_BYTES, NoiseCipher
from plait_peer.link_table import HALF_OPEN_MAX
from plait_peer.node import Node
from plait_peer.server import LIVE

GROUP = Group("group", None, "swordfish")
HELLO = encode_frame(Hello(VERSION_MIN, VERSION_MAX, Role.PEER, "group", 7, nonce=bytes(16)), 0)


def node(group: Group = GROUP, seed: int = 1) -> Node:
    made = Node(group, f"canary-host-{seed}:1", Random(seed), LIVE, now=0.0)
    made.add(DzSet.of(["0101"]), 3.0, None, 0.0)
    return made


class Wire:
    """A connection from one node to another. `sent` are the bytes in each direction."""

    def __init__(self, dialler: Node, acceptor: Node, id: int = 1) -> None:
        self.ends = (dialler, acceptor)
        self.id = id
        self.sent = (bytearray(), bytearray())
        dialler.connected(id, acceptor.address, 0.0)
        acceptor.connected(id, "", 0.0)

    def carry(self, end: int, now: float = 0.0) -> bytes:
        """Carry what one end has written to the other, and return it."""
        link = self.ends[end].links[self.id]
        data = link.take()
        if data:
            self.sent[end].extend(data)
            self.ends[1 - end].received(self.id, data, now)
        return data

    def run(self, now: float = 0.0) -> None:
        while self.carry(0, now) or self.carry(1, now):
            pass

    def stage(self, end: int) -> Stage:
        return self.ends[end].links[self.id].stage


def test_two_members_open_a_link_and_nothing_of_it_can_be_read() -> None:
    wire = Wire(node(seed=1), node(seed=2))
    wire.run()
    assert [wire.stage(end) for end in (0, 1)] == [Stage.OPEN, Stage.OPEN]
    for place in (0, 1):
        assert b"canary" not in wire.sent[place]
        assert b"group" not in wire.sent[place]
        assert wire.ends[place].links[1].address == wire.ends[1 - place].address


def test_the_acceptor_sends_only_keys_until_the_dialler_has_proved_the_secret() -> None:
    wire = Wire(node(seed=1), node(seed=2))
    assert len(wire.carry(0)) == HANDSHAKE_BYTES
    assert len(wire.carry(1)) == HANDSHAKE_BYTES
    assert wire.carry(1) == b""
    assert wire.stage(1) is Stage.KEYS
    wire.carry(0)
    assert wire.stage(1) is Stage.MEETING
    assert len(wire.carry(1)) > 2 * HANDSHAKE_BYTES, "Welcome and Meeting"


def strangers_bytes() -> dict[str, bytes]:
    """Return what strangers may send first."""

    def first(group: Group) -> bytes:
        other = node(group, seed=3)
        other.connected(1, "somewhere:1", 0.0)
        return other.links[1].take()

    recorded = bytearray(first(GROUP))
    recorded[-1] ^= 1
    return {
        "another secret": first(Group("group", None, "haddock")),
        "no secret": first(Group("group")),
        "another group": first(Group("other", None, "swordfish")),
        "a changed tag": bytes(recorded),
        "a Hello": HELLO,
        "a Close": encode_frame(Close("bye", ""), 0) + bytes(64),
        "http": b"GET / HTTP/1.1\r\nHost: canary-host\r\nAccept: */*\r\n\r\n",
        "zeros": bytes(1000),
    }


@pytest.mark.parametrize("kind", strangers_bytes())
def test_a_stranger_gets_no_byte_whatever_it_sends(kind: str) -> None:
    acceptor = node()
    acceptor.connected(1, "", 0.0)
    acceptor.received(1, strangers_bytes()[kind], 0.1)
    assert acceptor.links[1].take() == b""
    assert acceptor.link_table.take_closing() == [1]
    assert acceptor.refusal is not None
    assert acceptor.refusal.message == "the group's secret was not proved", "one reason for all"
    acceptor.received(1, HELLO, 0.2)
    assert acceptor.links[1].take() == b""


def test_who_repeats_a_members_first_message_gets_a_key_and_nothing_else() -> None:
    member, acceptor = node(seed=1), node(seed=2)
    wire = Wire(member, acceptor)
    wire.run()
    acceptor.connected(2, "", 1.0)
    acceptor.received(2, bytes(wire.sent[0][:HANDSHAKE_BYTES]), 1.0)
    assert len(acceptor.links[2].take()) == HANDSHAKE_BYTES
    acceptor.received(2, bytes(wire.sent[0][HANDSHAKE_BYTES:]), 1.1)
    assert acceptor.links[2].take() == b""
    assert acceptor.link_table.take_closing() == [2]
    assert wire.stage(1) is Stage.OPEN, "the member's own link stays"


def test_a_dialler_that_is_refused_says_that_name_or_secret_may_differ() -> None:
    dialler = node(Group("group", None, "haddock"))
    dialler.connected(1, "there:1", 0.0)
    dialler.disconnected(1, 0.1)
    assert dialler.refusal is not None
    assert dialler.refusal.message == "there:1 closed the link during the key exchange"
    assert dialler.refusal.hint == "all members of a group have one name and one secret"


def test_a_member_of_another_space_is_told_so() -> None:
    space = Schema.of({"x": IntRange(0, 7)})
    wire = Wire(node(seed=1), node(Group("group", space, "swordfish"), seed=2))
    wire.run()
    for end in wire.ends:
        assert end.refusal is not None
        assert "another event space" in end.refusal.message


def test_a_stranger_that_sends_byte_by_byte_has_as_little_time() -> None:
    acceptor = node()
    acceptor.connected(1, "", 0.0)
    now = 0.0
    while not acceptor.link_table.take_closing():
        now += 0.5
        acceptor.received(1, b"x", now)
        acceptor.tick(now)
        assert now <= HANDSHAKE_S + 1.0
    assert acceptor.links[1].take() == b""


def test_an_open_link_ends_when_it_is_idle() -> None:
    wire = Wire(node(seed=1), node(seed=2))
    wire.run()
    link = wire.ends[0].links[1]
    assert not link.expired(HANDSHAKE_S + 1.0)
    assert link.expired(IDLE_S + 1.0)


def test_strangers_that_do_nothing_keep_no_member_out() -> None:
    acceptor = node(seed=1)
    for id in range(2, 3 * HALF_OPEN_MAX):
        acceptor.connected(id, "", 0.0)
        for closing in acceptor.link_table.take_closing():
            acceptor.disconnected(closing, 0.0)
    assert len(acceptor.links) == HALF_OPEN_MAX
    wire = Wire(node(seed=2), acceptor)
    wire.run()
    assert wire.stage(1) is Stage.OPEN
    assert acceptor.link_table.take_closing() == [2 * HALF_OPEN_MAX], "the oldest one makes place"


def test_a_changed_record_ends_the_link_at_once_and_without_an_answer() -> None:
    group = Processes("one", "two")
    group.run(3.0)
    one, two = (process.node for process in group.all)
    (id,) = [id for id, link in one.links.items() if link.stage is Stage.OPEN][:1]
    data = bytearray(one.links[id]._cipher.encrypt(b"changed on its way"))
    data[-1] ^= 1
    two.links[id].take()
    two.received(id, bytes(data), group.now)
    assert two.refusal is not None
    assert two.refusal.message == "a record does not authenticate"
    assert two.links[id].stage is Stage.CLOSED
    assert two.links[id].take() == b"", "not even a Close"
    assert id in two.link_table.take_closing()
    assert not two.links[id].closed_cleanly


def test_a_link_that_is_cut_is_lost_and_one_that_is_closed_is_not() -> None:
    for cut in (True, False):
        wire = Wire(node(seed=1), node(seed=2))
        wire.run()
        one, two = wire.ends
        if not cut:
            one.leave(1.0)
        data = one.links[1].take()
        two.received(1, data[: len(data) // 2] if cut else data, 1.0)
        assert two.links[1].closed_cleanly is not cut


def test_queued_frames_are_encrypted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(node(seed=1), node(seed=2))
    wire.run()
    calls: list[int] = []
    encrypt = NoiseCipher.encrypt
    monkeypatch.setattr(NoiseCipher, "encrypt", lambda self, data: calls.append(len(data)) or encrypt(self, data))
    link = wire.ends[0].links[1]
    for _ in range(100):
        link._write(encode_frame(Close("bye", ""), VERSION_MAX))
    size = link.size
    assert len(link.take()) == size + 18
    assert calls == [size]
