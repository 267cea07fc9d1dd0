"""What floods: sheets, offers, what durable subscriptions want, each by its origin alone, in versions that only rise.

Whoever learns of a newer version tells all neighbours but the one who said it, so a link carries it at most once in
each direction. When a link comes up, both ends say what they know (a digest), and each gets what it does not have.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from plait_core.limits import BROKERS_MAX, DIGEST_MAX
from plait_core.wire import ControlFrame
from plait_core.wire.frame_types.overlay_frames import Advertisement, DatabaseSummary, DurableInterest, LinkState

from ..security.identity import Forged
from ..security.message_auth import MessageAuth

Document: TypeAlias = LinkState | Advertisement | DurableInterest
Key: TypeAlias = tuple[int, int]
"""Origin, and number: 0 is the sheet."""

VERSIONS_MAX: Final = 1 << 62
"""Nobody gets there by counting: what says so is a lie, and to answer it would need a version above the highest."""


def key_of(document: Document) -> Key:
    """What names a document over all its versions."""
    return document.origin, 0 if isinstance(document, LinkState) else document.number


class Flooding:
    """All documents of the overlay, as far as they are known here."""

    def __init__(
        self,
        me: int,
        send: Callable[[int, ControlFrame], None],
        learned: Callable[[Document, Document | None], None],
        trust: MessageAuth | None = None,
        counts: Counter[str] | None = None,
    ) -> None:
        """`send` takes a neighbour and a frame; `learned` hears of each newer document, with the one before."""
        self._me = me
        self._trust = trust or MessageAuth(me, None)
        self._counts = Counter() if counts is None else counts
        self._send = send
        self._learned = learned
        self._documents: dict[Key, Document] = {}
        self._sheets = 0
        self._neighbours: dict[int, None] = {}
        self._doubtful: dict[int, None] = {}
        """Neighbours to compare all with anew."""
        self._answered: dict[int, None] = {}
        self._asking: dict[int, dict[Key, int]] = {}
        """Neighbours whose digests were answered since the last beat, and digests that came since."""
        self._forgotten: dict[int, None] = {}
        """Brokers whose documents were forgotten, and of which nothing was heard since."""
        self._dead: dict[int, None] = {}
        """Brokers that will never come back under this id: others that do not know it yet may still tell of them, and
        without this two that learn it at different times would tell each other for ever."""
        self._digests: dict[int, dict[Key, int]] = {}
        """By neighbour, the digest that is coming in."""
        self._withdrawn: dict[Key, float] = {}
        """Offers and the like that were withdrawn, since when as far as `forget_withdrawn` knows."""

    def __len__(self) -> int:
        return len(self._documents)

    def document(self, key: Key) -> Document | None:
        """One of them."""
        return self._documents.get(key)

    def next_version(self, key: Key) -> int:
        """What a newer version of a document is to have."""
        known = self._documents.get(key)
        return 1 if known is None else known.version + 1

    def say(self, document: Document) -> None:
        """Tell everyone a document of our own."""
        document = self._trust.sign(document)
        self._store(document)
        self._relay(document, but=None)

    def hear(self, document: Document, neighbour: int) -> None:
        """A neighbour tells a document; Forged when it is not its origin's."""
        if document.version > VERSIONS_MAX or document.origin in self._dead:
            return
        known = self._documents.get(key_of(document))
        if known is not None and known.version >= document.version:
            if known.version > document.version:
                self._send(neighbour, known)
        elif known is None and isinstance(document, LinkState) and self._sheets >= BROKERS_MAX:
            self._counts["brokers_refused"] += 1
        elif not self._trust.check(document):
            return
        elif document.origin == self._me:
            self._contest(document)
        else:
            before = self._store(document)
            self._relay(document, but=neighbour)
            self._learned(document, before)
            if document.origin in self._forgotten:  # others tell us no more than what is new, and may remember
                del self._forgotten[document.origin]  # what was withdrawn meanwhile
                self._doubtful.update(self._neighbours)
            if self._trust.awaited(document.origin):
                self._doubtful[neighbour] = None

    def recall(self, document: Document) -> bool:
        """What was known before this broker started; whether it is worth anything still."""
        try:
            if document.origin in self._dead or key_of(document) in self._documents or self._sheets >= BROKERS_MAX:
                return False
            if not self._trust.check(document):
                return False
        except Forged:
            return False
        self._learned(document, self._store(document))
        return True

    def link_up(self, neighbour: int) -> None:
        """A link to a broker stands: compare what both know."""
        self._neighbours[neighbour] = None
        self._compare(neighbour)

    def link_down(self, neighbour: int) -> None:
        """It stands no more."""
        for known in (self._neighbours, self._digests, self._doubtful, self._answered, self._asking):
            known.pop(neighbour, None)

    def hear_digest(self, digest: DatabaseSummary, neighbour: int) -> None:
        """What a neighbour knows; it gets what it does not."""
        if digest.first:
            self._digests[neighbour] = {}
        known = self._digests.get(neighbour)
        if known is None:
            return
        for origin, number, version in zip(digest.origins, digest.numbers, digest.versions, strict=True):
            if (origin, number) in self._documents:
                known[origin, number] = version
        if digest.last:
            self._asking[neighbour] = self._digests.pop(neighbour)
            if neighbour not in self._answered:
                self._answer(neighbour)

    def beat(self) -> None:
        """Once in a while: compare with neighbours what may be out of date, and answer those that have asked again. A
        few bytes of a neighbour's must not be worth everything that is known here more often than that."""
        self._answered.clear()
        for neighbour in list(self._asking):
            self._answer(neighbour)
        for neighbour in self._doubtful:
            if neighbour in self._neighbours:
                self._compare(neighbour)
        self._doubtful.clear()

    def _answer(self, neighbour: int) -> None:
        self._answered[neighbour] = None
        known = self._asking.pop(neighbour)
        for key in sorted(self._documents):
            document = self._documents[key]
            has = known.get(key)
            if (key not in self._withdrawn) if has is None else has < document.version:
                self._send(neighbour, document)

    def forget(self, origin: int, *, dead: bool = False) -> list[Document]:
        """A broker is gone, for all we know, or dead for good: its documents, which are forgotten."""
        gone = [document for key, document in self._documents.items() if key[0] == origin]
        for document in gone:
            self._sheets -= isinstance(document, LinkState)
            del self._documents[key_of(document)]
            self._withdrawn.pop(key_of(document), None)
        remembered = self._dead if dead else self._forgotten
        remembered[origin] = None
        if len(remembered) > BROKERS_MAX:
            del remembered[next(iter(remembered))]
        return gone

    def forget_withdrawn(self, now: float, after_s: float) -> None:
        """Forget what was withdrawn long ago. Should someone still tell of it, its origin withdraws it once more."""
        for key, since in list(self._withdrawn.items()):
            if since == math.inf:
                self._withdrawn[key] = now
            elif now - since >= after_s:
                del self._withdrawn[key]
                del self._documents[key]

    def _compare(self, neighbour: int) -> None:
        """Say what we know; whoever hears it tells us what we do not."""
        keys = sorted(self._documents)
        for start in range(0, max(len(keys), 1), DIGEST_MAX):
            part = keys[start : start + DIGEST_MAX]
            self._send(
                neighbour,
                DatabaseSummary(
                    start == 0,
                    start + DIGEST_MAX >= len(keys),
                    tuple(origin for origin, _ in part),
                    tuple(number for _, number in part),
                    tuple(self._documents[key].version for key in part),
                ),
            )

    def _contest(self, document: Document) -> None:
        """Something of ours that we do not know any more, or never said: it is withdrawn, or said anew, above that."""
        own = self._documents.get(key_of(document))
        if not isinstance(document, LinkState):
            filter = "" if own is None or isinstance(own, LinkState) else own.filter
            above = replace(document, version=document.version + 1, filter=filter, signature=b"")
            self._learned(above, own)
            self.say(above)
        elif isinstance(own, LinkState):
            anew = replace(own, version=document.version + 1)
            self.say(anew)
            self._learned(anew, own)

    def _store(self, document: Document) -> Document | None:
        key = key_of(document)
        before = self._documents.get(key)
        self._sheets += before is None and isinstance(document, LinkState)
        self._documents[key] = document
        if not isinstance(document, LinkState) and not document.filter:
            self._withdrawn[key] = math.inf
        else:
            self._withdrawn.pop(key, None)
        return before

    def _relay(self, document: Document, but: int | None) -> None:
        for neighbour in self._neighbours:
            if neighbour != but:
                self._send(neighbour, document)
