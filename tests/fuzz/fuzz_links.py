"""Coverage-guided fuzzing of the links of peers: the key exchange, records, and what an attacker between them can do.

python tests/fuzz/fuzz_links.py -runs=1000000 tests/fuzz/corpus/links
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))


def check(data: bytes) -> None:
    """Check that bytes without the secret are refused with the one error, and that records arrive once, in order, as
    they were written, or end the link."""
    ways: list[Callable[[bytes], None]] = [_exchange, _stranger, _ciphers, _links]
    if data:
        ways[data[0] % len(ways)](data[1:])


def _exchange(data: bytes) -> None:
    """Read any bytes as a message of the key exchange, and as a message under a key."""
    from plait_peer.noise import KEY_BYTES, CipherState, HandshakeState, NotAuthentic

    for initiator in (False, True):
        end = HandshakeState(bytes(KEY_BYTES), b"canary", b"\1" * KEY_BYTES, initiator=initiator)
        if initiator:
            end.write_message()
        attempts: list[Callable[[], bytes]] = [
            lambda end=end: end.read_message(data),  # type: ignore[misc]
            lambda: CipherState(bytes(KEY_BYTES)).decrypt(data),
        ]
        for attempt in attempts:
            try:
                attempt()
            except NotAuthentic as error:
                assert (error.args, error.__cause__) == ((), None)
            else:
                raise AssertionError("nobody has written this message")


def _stranger(data: bytes) -> None:
    """Write any bytes to both ends, in pieces."""
    from link_attacks import ciphers

    size = 1 + data[0] if data else 1
    for end in ciphers():
        keys = end.take()
        for at in range(0, len(data), size):
            end.receive(data[at : at + size])
        assert not end.cipher.proven
        assert not any(end.read)
        assert end.take() == b"", "a stranger gets no answer"
        assert len(keys) in (0, 48)
        assert end.failed or len(data) < 48


def _ciphers(data: bytes) -> None:
    from link_attacks import Attack, ciphers

    Attack(ciphers()).run(data)


def _links(data: bytes) -> None:
    from link_attacks import Attack, links

    Attack(links()).run(data)


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["plait_peer.noise", "plait_peer.link", "plait_peer.link_cipher"]):
        import link_attacks  # noqa: F401
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
