"""Persistent storage of other brokers' durable interest, and of the link states with the keys that verify it.

An interest update is acked only once the durable interest of its home broker is stored here. So the interest survives
if both brokers die right after the ack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from plait_core.errors import FrameError
from plait_core.wire.frame_types.envelope_frames import DURABLE_INTEREST, LINK_STATE, Signed, read_document
from plait_core.wire.frame_types.overlay_frames import DurableInterest, InterestAck, LinkState

from ..outputs import DocumentKey, Output, StoreDocument
from ..topology.flooding import Flooding, link_state_key
from .durable_interest import RemoteDurableInterest
from .interest_acks import InterestAcks


class DurableInterestStore:
    """Keeps this broker's log in step with the durable interest that floods."""

    def __init__(
        self,
        flooding: Flooding,
        remote: RemoteDurableInterest,
        acks: InterestAcks,
        outputs: list[Output],
        *,
        stores: bool,
    ) -> None:
        """`stores`: whether this broker has a log to store documents in."""
        self._flooding = flooding
        self._remote = remote
        self._acks = acks
        self._outputs = outputs
        self._stores = stores
        self._kept: dict[int, dict[int, int]] = {}
        """By origin and number, the stored version. For the link state, number 0, any version is good enough."""
        self._storing: dict[int, dict[int, int]] = {}
        """By origin and number, the version that is being stored. An origin without numbers waits for a deletion."""
        self._withheld: dict[int, tuple[InterestAck, int]] = {}

    def recall(self, documents: Iterable[Signed]) -> int:
        """Load the documents that were stored before this broker restarted. Return how many cannot be read."""
        by: dict[int, list[Signed]] = {}
        born: dict[int, int] = {}
        bad = 0
        for signed in sorted(documents, key=lambda signed: (signed.origin, signed.number)):
            try:
                document = read_document(signed)
            except FrameError:
                document = None
            if not isinstance(document, LinkState | DurableInterest):
                bad += 1
                continue
            by.setdefault(signed.origin, []).append(signed)
            if isinstance(document, LinkState):
                born[signed.origin] = document.born
            self._kept.setdefault(signed.origin, {})[signed.number] = signed.version
        for origin in sorted(by, key=lambda origin: born.get(origin, 0)):  # lives of one log: the latest comes last
            for signed in by[origin]:
                self._flooding.recall(signed)
        return bad

    def discard_unused(self) -> None:
        """Delete the stored documents of brokers without durable interest."""
        for origin in [origin for origin in self._kept if origin not in self._remote]:
            self._discard(origin)

    def learn(self, document: DurableInterest) -> bool:
        """Store a broker's durable interest, or delete it when it is withdrawn. Return whether it can be parsed."""
        readable = self._remote.learn(document)
        kept = self._kept.setdefault(document.origin, {})
        if readable and document.filter:
            if 0 not in kept:
                self._store(link_state_key(document.origin))
            if kept.get(document.number) != document.version:
                self._store((document.origin, DURABLE_INTEREST, document.number))
        elif document.number in kept:
            del kept[document.number]
            self._delete((document.origin, document.number))
        if document.origin not in self._remote:
            self._discard(document.origin)
        return readable

    def learn_link_state(self, origin: int) -> None:
        """Store a link state that comes after the durable interest of its origin."""
        if origin in self._remote and 0 not in self._kept.get(origin, ()):
            self._store(link_state_key(origin))

    def complete(self, home: int) -> None:
        """Delete the documents of a home broker's predecessors: its own interest is complete."""
        for former in self._remote.complete(home):
            self._discard(former)

    def forget(self, broker: int) -> None:
        """Forget a broker."""
        if self._remote.forget(broker):
            self.discard_unused()

    def answer(self, ack: InterestAck, tries: int, now: float) -> None:
        """Send the ack of an interest update, once the durable interest of its home is stored."""
        if ack.to in self._storing:
            self._withheld[ack.to] = (ack, tries)
        else:
            self._acks.send(ack, tries, now)

    def stored(self, documents: Mapping[DocumentKey, Signed | None], now: float) -> None:
        """Send the acks that waited for these documents.

        They are stored, or that has failed: a broken disk here must not delay others. A later version of one may be on
        its way to the disk still; acks wait for that one.
        """
        for (origin, number), document in documents.items():
            storing = self._storing.get(origin)
            if storing is None:
                continue
            if document is not None and storing.get(number, inf) <= document.version:
                del storing[number]
            if not storing:
                del self._storing[origin]
                withheld = self._withheld.pop(origin, None)
                if withheld is not None:
                    ack, tries = withheld
                    self._acks.send(ack, tries, now)

    def _store(self, key: tuple[int, int, int]) -> None:
        stored = self._flooding.stored(key)
        if stored is None:
            return
        origin, kind, number = key
        self._kept.setdefault(origin, {})[0 if kind == LINK_STATE else number] = stored.signed.version
        if self._stores:
            self._outputs.append(StoreDocument((origin, number), stored.signed))
            self._storing.setdefault(origin, {})[number] = stored.signed.version

    def _discard(self, origin: int) -> None:
        for number in self._kept.pop(origin, ()):
            self._delete((origin, number))

    def _delete(self, key: DocumentKey) -> None:
        if self._stores:
            self._outputs.append(StoreDocument(key, None))
            origin, number = key
            self._storing.get(origin, {}).pop(number, None)  # the deletion replaces it
