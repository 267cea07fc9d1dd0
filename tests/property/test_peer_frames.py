"""Every frame between peers survives encoding and decoding. (The simulator passes the objects themselves.)"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_core.errors import FrameError
from plait_core.wire import VERSION_MAX, FrameDecoder, encode_frame
from plait_core.wire.frame_header import PREFIX
from plait_core.wire.frame_types.peer_frames import (
    Accept,
    Beat,
    Connect,
    DetectCycle,
    Disconnect,
    Enrol,
    Enrolled,
    Gossip,
    PeerEvent,
    PeerFrame,
    PotentialParent,
    Profile,
    Pulse,
    Taken,
)
from plait_core.wire.msgpack_codec import pack
from plait_peer.protocol.subspaces import merged

ids = st.integers(1, 2**64 - 1)
texts = st.text("01", max_size=12)
sets = st.lists(texts, max_size=8).map(merged)
some = st.lists(texts, min_size=1, max_size=8).map(merged)
delays = st.floats(0, 1e6) | st.just(math.inf)
names = st.text(max_size=20)


@st.composite
def profiles(draw: st.DrawFn, bounds: st.SearchStrategy[float] = delays) -> Profile:
    dz = draw(sets)
    rates = tuple(draw(st.lists(st.floats(0, 1e6), min_size=len(dz), max_size=len(dz)))) if draw(st.booleans()) else ()
    recent = draw(st.lists(st.tuples(ids, texts), max_size=8))
    numbers, places = tuple(n for n, _ in recent), tuple(dz for _, dz in recent)
    free = draw(st.integers(0, 300))
    return Profile(draw(ids), draw(ids), dz, draw(bounds), draw(delays), free, rates, numbers, places, draw(names))


@st.composite
def gossips(draw: st.DrawFn) -> Gossip:
    entries = draw(st.lists(st.tuples(profiles(), st.integers(0, 1000)), max_size=4))
    adverts = draw(st.lists(st.tuples(profiles(st.just(0.0)), st.integers(0, 1000)), max_size=3))
    return Gossip(
        draw(st.booleans()),
        tuple(profile for profile, _ in entries),
        tuple(age for _, age in entries),
        tuple(profile for profile, _ in adverts),
        tuple(age for _, age in adverts),
    )


@st.composite
def sourced(draw: st.DrawFn) -> PeerFrame:
    pairs = draw(st.lists(st.tuples(ids, delays), max_size=5))
    sources, late = tuple(source for source, _ in pairs), tuple(delay for _, delay in pairs)
    if draw(st.booleans()):
        return Accept(draw(profiles()), draw(sets), sources, late)
    return Beat(draw(ids), sources, late, draw(st.none() | profiles()))


frames: st.SearchStrategy[PeerFrame] = st.one_of(
    gossips(),
    sourced(),
    st.builds(Connect, profiles(), some),
    st.builds(
        PotentialParent,
        st.booleans(),
        sets,
        st.lists(profiles(), max_size=3).map(tuple),
        st.floats(0, 100),
        delays,
    ),
    st.builds(Disconnect, names),
    st.builds(DetectCycle, ids, texts, delays, st.integers(0, 64)),
    st.builds(Pulse, ids, st.none() | profiles()),
    st.builds(PeerEvent, ids, ids, texts, delays, st.integers(0, 64), st.binary(max_size=100), st.integers(0, 100)),
    st.builds(Enrol, ids, sets),
    st.builds(Enrolled, ids),
    st.builds(Taken, st.lists(ids, max_size=20).map(tuple)),
)


@given(frames)
def test_every_frame_comes_back(frame: PeerFrame) -> None:
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(encode_frame(frame))
    assert decoder.take() == [frame]


ONE = Profile(1, 1, ("0",), 3.0)


@pytest.mark.parametrize(
    "frame",
    [
        Connect(Profile(1, 1, ("0", "01"), 3.0), ("0",)),  # one covers another
        Connect(Profile(1, 1, ("1", "0"), 3.0), ("0",)),  # out of order
        Connect(Profile(1, 1, ("0",), 3.0, rates=(1.0, 2.0)), ("0",)),
        Connect(ONE, ()),
        Connect(ONE, ("2",)),
        Gossip(False, (ONE,), ()),
        Gossip(False, (), (), (ONE,), (1,)),  # not a publisher
        Beat(1, (1,), ()),
        DetectCycle(1, "0", 3.0, 65),
        PeerEvent(1, 1, "x", 1.0, 1),
        Connect(Profile(1, 1, ("0",), math.nan), ("0",)),
    ],
    ids=repr,
)
def test_invalid_frames_are_not_encoded(frame: PeerFrame) -> None:
    with pytest.raises(ValueError, match=type(frame).__name__):
        encode_frame(frame)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=10,
)


@given(
    st.sampled_from(range(0x60, 0x6E)),
    st.dictionaries(st.sampled_from(["profile", "dz", "profiles", "ages"]), json_like),
)
def test_all_input_is_frames_or_a_frame_error(number: int, fields: dict[str, Any]) -> None:
    body = bytes(pack({"number": 1, "reply": False, **fields}))
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(PREFIX.pack(len(body), VERSION_MAX, number, 0) + body)
    try:
        decoder.take()
    except FrameError:
        return
