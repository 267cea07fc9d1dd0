"""Encrypted links of simulated peers: the same histories, nothing readable on the way, and planted defects are seen."""

from __future__ import annotations

import pytest

from plait_core.wire.frame_types.peer_frames import PeerFrame, Profile
from plait_lab.simulation import history_hashes
from plait_lab.simulation.peers.confirmed_delivery import ConfirmationTerms, ConfirmationTrial
from plait_lab.simulation.peers.links import EncryptedLinks, Parcel
from plait_peer import PeerId
from plait_peer.link_cipher import CipherFault
from plait_peer.noise import CipherState


@pytest.mark.parametrize("number", [0, 1, 2])
def test_encryption_changes_no_history(number: int) -> None:
    encrypted, plain = (history_hashes.peers(number, encrypted=each).hash() for each in (True, False))
    assert encrypted == plain == history_hashes.read()["peers"][number]


def texts_of(frame: PeerFrame) -> set[bytes]:
    """Return the interests and the places of events in a frame, where they are long enough to search for."""
    profiles: list[Profile] = []
    for name in ("profiles", "adverts", "hints"):
        profiles += getattr(frame, name, ())
    profile = getattr(frame, "profile", None)
    dz = [text for each in [*profiles, *([profile] if profile else [])] for text in (*each.dz, *each.recent_dz)]
    own = getattr(frame, "dz", ())
    return {text.encode() for text in [*dz, *([own] if isinstance(own, str) else own)] if len(text) >= 6}


def test_no_interest_can_be_read_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = ConfirmationTrial(ConfirmationTerms("crash", 8, seed=1, encrypted=True))
    sent: list[bytes] = []
    hidden: set[bytes] = set()
    send = EncryptedLinks.send

    def watched(self: EncryptedLinks, sender: PeerId, to: PeerId, frame: PeerFrame) -> Parcel:
        parcel = send(self, sender, to, frame)
        assert isinstance(parcel, bytes)
        sent.append(parcel)
        hidden.update(texts_of(frame))
        return parcel

    monkeypatch.setattr(EncryptedLinks, "send", watched)
    trial.play()
    wire = b"\n".join(sent)
    assert len(sent) > 1000
    assert hidden
    assert not [text for text in hidden if text in wire]


def test_a_nonce_that_does_not_go_on_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a sender that uses each nonce twice."""
    encrypt = CipherState.encrypt

    def repeating(self: CipherState, plaintext: bytes | memoryview, ad: bytes = b"") -> bytes:
        ciphertext = encrypt(self, plaintext, ad)
        if self.nonce % 2:
            self.nonce -= 1
        return ciphertext

    monkeypatch.setattr(CipherState, "encrypt", repeating)
    with pytest.raises(CipherFault):
        ConfirmationTrial(ConfirmationTerms("crash", 8, seed=1, encrypted=True)).play()
