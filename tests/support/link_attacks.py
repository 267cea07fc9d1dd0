"""An attacker between the two ends of a link of peers, who knows no secret: the steps that a fuzzer composes.

A step is four bytes: what to do, in which direction, and two numbers. `seed_ways.py` writes such inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Protocol

from plait_core.errors import FrameError
from plait_core.wire.frame_types.peer_frames import Disconnect
from plait_peer.group import Group
from plait_peer.link import Link, LinkRefused, Stage
from plait_peer.link_cipher import FIRST_RECORD_BYTES_MAX, HANDSHAKE_BYTES, CipherFault, NoiseCipher

CANARY = b"canary"
"""Part of everything that is to be secret: the group's name, addresses, and what the ends write."""
GROUP = Group("the canary group", None, "swordfish")
STEP_BYTES = 4
STEPS_MAX = 200
REASON_BYTES = 100
"""Bytes that a link's end writes at once: the reason in a Disconnect."""


class Step(IntEnum):
    DELIVER = 0  # `first` bytes in flight; all if it is 255
    WRITE = 1  # the end writes 10 * `first` bytes, if it may
    FLIP = 2  # the bits `second` of the byte at `first`
    DROP = 3  # `second` bytes from `first` on
    REPEAT = 4  # the same bytes, at the end
    INSERT = 5  # `second` zeros at `first`
    REFLECT = 6  # what the end itself has sent, from `first` on, `second` bytes
    REPLAY = 7  # what was in flight before, likewise
    CUT = 8  # everything from `first` on
    SWAP = 9  # what is before `first` and what is behind it


def step(kind: Step, way: int = 0, first: int = 0, second: int = 0) -> bytes:
    """Encode a step. `way` 0 leads to the acceptor."""
    return bytes((kind, way, first, second))


class End(Protocol):
    """One end of a link, as the attack sees it."""

    cipher: NoiseCipher
    failed: bool
    """Whether it has refused what arrived. Then it must not accept anything."""
    written: list[bytes]
    read: list[bytes]

    def write(self, data: bytes) -> None: ...
    def receive(self, data: bytes) -> None: ...
    def take(self) -> bytes: ...


class CipherEnd:
    """A cipher without frames."""

    def __init__(self, cipher: NoiseCipher) -> None:
        self.cipher = cipher
        self.failed = False
        self.written: list[bytes] = []
        self.read: list[bytes] = []
        self._records = b""

    def write(self, data: bytes) -> None:
        if self.cipher.proven:
            self.written.append(data)
            self._records += self.cipher.encrypt(data)

    def receive(self, data: bytes) -> None:
        try:
            self.read.append(self.cipher.decrypt(data))
        except CipherFault:
            self.failed = True
        else:
            assert not self.failed, "a fault is for good"

    def take(self) -> bytes:
        records, self._records = self._records, b""
        return self.cipher.write_handshake() + records


class LinkEnd:
    """A link with its handshake and frames."""

    def __init__(self, *, dials: bool) -> None:
        self.cipher = NoiseCipher(GROUP.link_key, GROUP.link_prologue, bytes((1 + dials,)) * 32, dials=dials)
        self._link = Link(GROUP, 7 + dials, f"canary-{dials}:1", self.cipher, tuple, dials=dials)
        self.failed = False
        self.written: list[bytes] = []
        self.read: list[bytes] = []

    def write(self, data: bytes) -> None:
        if self._link.stage is Stage.OPEN:
            self.written.append(data[:REASON_BYTES])
            self._link.send(1, 2, Disconnect(data[:REASON_BYTES].decode()))

    def receive(self, data: bytes) -> None:
        was_closed = self._link.stage is Stage.CLOSED
        try:
            _, frames = self._link.receive(data)
        except LinkRefused:
            self.failed = True
            return
        except FrameError:
            raise AssertionError("the other end writes no wrong frame") from None
        assert not (was_closed and frames)
        self.read += [frame.reason.encode() for frame in frames if isinstance(frame, Disconnect)]

    def take(self) -> bytes:
        return self._link.take()


class Attack:
    """Two ends that share the secret, and what is in flight between them. 0 is the dialler."""

    def __init__(self, ends: tuple[End, End]) -> None:
        self.ends = ends
        self.flight = (bytearray(), bytearray())
        """By sender, the bytes on their way to the other end."""
        self.sent = (bytearray(), bytearray())
        self._collect()

    def run(self, data: bytes) -> None:
        """Carry out the steps, and check after each of them."""
        for number, (kind, way, first, second) in enumerate(_steps(data)):
            self._carry_out(Step(kind % len(Step)), way & 1, first, second, number)
            self._collect()
            self._check()

    def _carry_out(self, kind: Step, sender: int, first: int, second: int, number: int) -> None:
        flight = self.flight[sender]
        match kind:
            case Step.DELIVER:
                size = len(flight) if first == 255 else first
                arriving = bytes(flight[:size])
                del flight[:size]
                self.ends[1 - sender].receive(arriving)
            case Step.WRITE:
                self.ends[sender].write((CANARY + b" %d " % number).ljust(10 * first, b"."))
            case Step.FLIP if first < len(flight):
                flight[first] ^= second
            case Step.DROP:
                del flight[first : first + second]
            case Step.REPEAT:
                flight += flight[first : first + second]
            case Step.INSERT:
                flight[first:first] = bytes(second)
            case Step.REFLECT:
                flight += self.sent[1 - sender][first : first + second]
            case Step.REPLAY:
                flight += self.sent[sender][first : first + second]
            case Step.CUT:
                del flight[first:]
            case Step.SWAP:
                flight[:] = flight[first:] + flight[:first]

    def _collect(self) -> None:
        for sender, end in enumerate(self.ends):
            taken = end.take()
            if not end.cipher.proven:
                assert len(self.sent[sender]) + len(taken) <= HANDSHAKE_BYTES, "a stranger gets one key, and no more"
            self.sent[sender].extend(taken)
            self.flight[sender].extend(taken)

    def _check(self) -> None:
        dialler, acceptor = self.ends
        assert not dialler.cipher.proven or len(self.sent[1]) >= HANDSHAKE_BYTES, (
            "only the acceptor can prove the secret"
        )
        assert not acceptor.cipher.proven or len(self.sent[0]) > HANDSHAKE_BYTES, "the dialler's first record proves it"
        assert acceptor.cipher.proven or len(acceptor.cipher._pending) < 2 + FIRST_RECORD_BYTES_MAX, "it keeps no more"
        for end, other in ((dialler, acceptor), (acceptor, dialler)):
            assert b"".join(other.written).startswith(b"".join(end.read)), "only what was written, in order"
        assert not any(CANARY in sent for sent in self.sent), "nothing is in the clear"


def ciphers() -> tuple[CipherEnd, CipherEnd]:
    """Return two ends that share the secret."""
    dialler, acceptor = (
        NoiseCipher(GROUP.link_key, GROUP.link_prologue, bytes((number,)) * 32, dials=number == 1) for number in (1, 2)
    )
    return CipherEnd(dialler), CipherEnd(acceptor)


def links() -> tuple[LinkEnd, LinkEnd]:
    """Return two ends with frames."""
    return LinkEnd(dials=True), LinkEnd(dials=False)


def _steps(data: bytes) -> Iterator[bytes]:
    for at in range(0, min(len(data), STEPS_MAX * STEP_BYTES) - STEP_BYTES + 1, STEP_BYTES):
        yield data[at : at + STEP_BYTES]
