"""Thesis Algorithm 4 in a peer: a new subscriber begins with at most theta sub-spaces (`test_space_*`: the mapping)."""

from __future__ import annotations

from random import Random

import pytest

from plait_core.space import DzSet
from plait_peer import Peer
from plait_peer.protocol.subspaces import covers

WANTED = ["000111", "001101", "001111", "01001", "010110", "0110", "100101", "11000"]


@pytest.mark.parametrize("theta", [1, 2, 3, 5, 8, 20])
def test_properties_1_and_2(theta: int) -> None:
    peer = Peer(1, DzSet.of(WANTED), 3.0, randomness=Random(1), theta=theta)
    assert len(peer.dz) <= theta
    assert all(covers(peer.dz, dz) for dz in peer.state.interest)


def test_without_theta_it_is_exact() -> None:
    peer = Peer(1, DzSet.of(WANTED), 3.0, randomness=Random(1))
    assert peer.dz == peer.state.interest == tuple(dz.text for dz in DzSet.of(WANTED))


def test_other_peers_see_the_subscription_limited_by_theta() -> None:
    peer = Peer(1, DzSet.of(WANTED), 3.0, randomness=Random(1), theta=2)
    assert peer.state.profile.dz == peer.dz
