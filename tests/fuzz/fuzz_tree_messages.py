"""Coverage-guided fuzzing of the tree tables' messages.

    python tests/fuzz/fuzz_tree_messages.py -runs=1000000 tests/fuzz/corpus/tree_messages

An input is a sequence of messages, each after two bytes with its length, which a hostile neighbour sends to one broker.
"""

from __future__ import annotations

import sys
from pathlib import Path

SUPPORT = Path(__file__).parent.parent / "support"


def cut(data: bytes) -> list[bytes]:
    """Return the messages of an input."""
    found = []
    while data:
        length = int.from_bytes(data[:2], "big")
        found.append(data[2 : 2 + length])
        data = data[2 + length :]
    return found


def check(data: bytes) -> None:
    """Check that each message is taken or raises FrameError, that bounds hold, and that an event reaches everybody."""
    from strategy_net import StrategyNet

    from plait_broker.overlay.dissemination.tree_messages import decode_message, encode_message
    from plait_broker.overlay.dissemination.tree_tables import TreeTablesStrategy
    from plait_core.errors import FrameError

    net = StrategyNet({(1, 2): 1000, (2, 3): 1000, (1, 3): 5000, (3, 4): 1000}, TreeTablesStrategy)
    net.advertise(1, 1, "x >= 0")
    net.subscribe(4, 1, "x >= 0")
    net.run()
    for body in cut(data):
        try:
            message = decode_message(body)
        except FrameError:
            try:
                net.inject(2, 3, body)
            except FrameError:
                continue
            raise AssertionError("a strategy takes what cannot be decoded") from None
        assert decode_message(encode_message(message)) == message
        net.inject(2, 3, body)
        assert net.publish(1, {"x": 1}, [2, 3, 4]).reached == {2: 1, 3: 1, 4: 1}
    net.run()
    assert net.publish(1, {"x": 1}, [2, 3, 4]).reached == {2: 1, 3: 1, 4: 1}
    for broker in net.sites:
        tables = net.tables(broker)
        assert all(entry.root in net.sites for entry in tables.srt.values())
        assert all(
            home in net.sites and tree in tables.srt
            for (home, _), entry in tables.prt.items()
            for tree in entry.last_hops
        )


def main() -> None:
    import atheris

    sys.path.insert(0, str(SUPPORT))
    with atheris.instrument_imports(include=["plait_broker.overlay.dissemination", "plait_core.wire.msgpack_codec"]):
        import plait_broker.overlay.dissemination.tree_tables  # noqa: F401
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
