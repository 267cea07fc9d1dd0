"""Flooding of documents: link states, advertisements, durable interest, and kinds that this version does not know.

Only its origin makes versions of a document, and their numbers only rise. A broker that receives a newer version relays
it to all neighbours but the sender, so a link carries a version at most once in each direction. When a link comes up,
both ends send a database summary, and each gets what it lacks.

Documents are stored and relayed as the bytes that arrived (`Signed`), once the origin's signature is verified. So a
relay keeps the fields that it does not know. A document of an unknown kind, or one that cannot be read, is stored
within `UNREAD_MAX` and `UNREAD_BYTES_MAX` and relayed like any other.

A broker stores at most `ORIGIN_DOCUMENTS_MAX` documents of one origin, and `ORIGIN_BYTES_MAX` bytes. It refuses those
beyond: new ones, and versions that are longer than the one before. Link states and withdrawals always pass.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from plait_core.errors import FrameError
from plait_core.limits import BROKERS_MAX, ORIGIN_BYTES_MAX, ORIGIN_DOCUMENTS_MAX, SUMMARY_DOCUMENTS_MAX
from plait_core.wire.frame_types.envelope_frames import ADVERTISEMENT, LINK_STATE, Signed, read_document
from plait_core.wire.frame_types.overlay_frames import Advertisement, DatabaseSummary, Document, LinkState

from ..security.identity import Forged
from ..security.message_auth import MessageAuth
from ..transport.neighbour_sender import NeighbourSender

Key: TypeAlias = tuple[int, int, int]
"""Origin, kind and number: the name of a document over all its versions."""

VERSIONS_MAX: Final = 1 << 62
"""The greatest valid version: no origin counts so far. A document with a higher one is dropped: its origin could not
outbid it."""

UNREAD_MAX: Final = 4096
"""Documents that this broker stores without being able to read them: a few new kinds for each of a thousand brokers."""

UNREAD_BYTES_MAX: Final = 16 << 20
"""Bytes of their bodies. A document beyond either bound is refused and not relayed."""


def key_of(signed: Signed) -> Key:
    """Return the name of a document over all its versions."""
    return signed.origin, signed.kind, signed.number


def link_state_key(broker: int) -> Key:
    """Return the name of a broker's link state."""
    return broker, LINK_STATE, 0


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """One document: the bytes to relay, and their meaning."""

    signed: Signed
    document: Document | None
    """None when this version cannot read it."""

    @property
    def withdrawn(self) -> bool:
        return not self.signed.body


@dataclass(slots=True)
class OriginUse:
    """What one origin's documents take."""

    documents: int = 0
    bytes: int = 0
    refused: bool = False
    """Whether one was refused."""


class Flooding:
    """The documents of the overlay that this broker knows, and their relaying."""

    def __init__(
        self,
        me: int,
        sender: NeighbourSender,
        message_auth: MessageAuth,
        counts: Counter[str],
    ) -> None:
        self.learned: deque[Document] = deque()
        """Newer documents, in order. The caller takes them after each call."""
        self.exceeded: deque[int] = deque()
        """Origins whose documents were refused for the first time. The caller takes them after each call."""
        self._origins: dict[int, OriginUse] = {}
        self._me = me
        self._sender = sender
        self._message_auth = message_auth
        self._counts = counts
        self._documents: dict[Key, KnownDocument] = {}
        self._link_states = 0
        self._unread = 0
        self._unread_bytes = 0
        self._neighbours: dict[int, None] = {}
        self._doubtful: dict[int, None] = {}
        """Neighbours that get a summary at the next beat."""
        self._answered: dict[int, None] = {}
        """Neighbours whose summaries were answered since the last beat."""
        self._asking: dict[int, dict[Key, int]] = {}
        """By neighbour, a complete summary that came after that and is answered at the next beat."""
        self._forgotten: dict[int, None] = {}
        """Brokers whose documents were forgotten and have not come again since."""
        self._dead: dict[int, None] = {}
        """Brokers that will never come back under this id. Their documents are dropped on arrival: otherwise brokers
        that learn of a death at different times would relay them to each other for ever."""
        self._summaries: dict[int, dict[Key, int]] = {}
        """By neighbour, the summary that is coming in."""
        self.holds = False
        """Whether documents to relay are held until `release`."""
        self._held: dict[Key, dict[int, None]] = {}
        """By document that is held, the neighbours that have sent its version."""
        self._withdrawn: dict[Key, float] = {}
        """Withdrawn documents, each with the time at which `forget_withdrawn` first saw it (inf: not yet)."""

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def keys(self) -> list[Key]:
        """The names of all documents, in order."""
        return sorted(self._documents)

    def stored(self, key: Key) -> KnownDocument | None:
        """Return a document with the bytes that are relayed."""
        return self._documents.get(key)

    def link_state(self, broker: int) -> LinkState | None:
        """Return the newest link state of a broker."""
        stored = self._documents.get(link_state_key(broker))
        return stored.document if stored is not None and isinstance(stored.document, LinkState) else None

    def advertisement(self, broker: int, number: int) -> Advertisement | None:
        """Return the newest version of an advertisement."""
        stored = self._documents.get((broker, ADVERTISEMENT, number))
        return stored.document if stored is not None and isinstance(stored.document, Advertisement) else None

    def next_version(self, key: Key) -> int:
        """Return the version for the next change of a document."""
        known = self._documents.get(key)
        return 1 if known is None else known.signed.version + 1

    def originate(self, document: Document) -> None:
        """Sign a document of our own and flood it."""
        stored = KnownDocument(self._message_auth.envelop(document), document)
        self._flood(stored)
        self._report(stored)

    def originate_raw(self, signed: Signed) -> None:
        """Sign a document of our own that is in its envelope already, and flood it."""
        self._flood(KnownDocument(self._message_auth.sign(signed), _read(signed)))

    def receive(self, signed: Signed, neighbour: int) -> None:
        """Store and relay a neighbour's document if it is newer. Raise Forged if its origin did not sign it, FrameError
        if it is a document that no honest broker relays."""
        if signed.version > VERSIONS_MAX or signed.origin in self._dead:
            return
        known = self._documents.get(key_of(signed))
        if known is not None and known.signed.version >= signed.version:
            self._receive_old(signed, known.signed, neighbour)
            return
        if known is None and signed.kind == LINK_STATE and self._link_states >= BROKERS_MAX:
            self._counts["brokers_refused"] += 1
            return
        document = self._verified(signed)
        if document is None:
            return
        if signed.origin == self._me:
            self._outbid(signed)
            return
        if document.document is None and not self._has_room(signed, known):
            self._counts["documents_refused"] += 1
            return
        if not self._origin_has_room(signed, known):
            return
        self._store(document)
        self._relay_or_hold(signed, neighbour)
        self._report(document)
        if signed.origin in self._forgotten:  # neighbours send only newer documents, and may still
            del self._forgotten[signed.origin]  # store ones that were withdrawn meanwhile
            self._doubtful.update(self._neighbours)
        if self._message_auth.awaited(signed.origin):
            self._doubtful[neighbour] = None

    def release(self) -> None:
        """Relay the newest versions of the documents that are held, each to the neighbours that have not sent it."""
        held, self._held, self.holds = self._held, {}, False
        for key, senders in held.items():
            stored = self._documents.get(key)
            if stored is not None:
                for neighbour in self._neighbours:
                    if neighbour not in senders:
                        self._sender.send(neighbour, stored.signed)

    def recall(self, signed: Signed) -> bool:
        """Load a document that was stored before this broker started. Return whether it was accepted."""
        if signed.origin in self._dead or key_of(signed) in self._documents or self._link_states >= BROKERS_MAX:
            return False
        try:
            document = self._verified(signed)
        except (Forged, FrameError):
            return False
        if document is None or document.document is None or not self._origin_has_room(signed, None):
            return False
        self._store(document)
        self._report(document)
        return True

    def link_up(self, neighbour: int) -> None:
        """Send the summary to a new neighbour."""
        self._neighbours[neighbour] = None
        self._send_summary(neighbour)

    def link_down(self, neighbour: int) -> None:
        """Forget a neighbour."""
        for known in (self._neighbours, self._summaries, self._doubtful, self._answered, self._asking):
            known.pop(neighbour, None)

    def receive_summary(self, summary: DatabaseSummary, neighbour: int) -> None:
        """Send a neighbour the documents that its summary lacks."""
        if summary.first:
            self._summaries[neighbour] = {}
        known = self._summaries.get(neighbour)
        if known is None:
            return
        keys = zip(summary.origins, summary.kinds, summary.numbers, strict=True)
        for key, version in zip(keys, summary.versions, strict=True):
            if key in self._documents:
                known[key] = version
        if summary.last:
            self._asking[neighbour] = self._summaries.pop(neighbour)
            if neighbour not in self._answered:
                self._answer(neighbour)

    def beat(self) -> None:
        """Send summaries to neighbours that may be out of date, and answer summaries that came since the last beat.

        A summary is a few bytes, and its answer may be all documents: so each neighbour gets one answer per beat.
        """
        self._answered.clear()
        for neighbour in list(self._asking):
            self._answer(neighbour)
        for neighbour in self._doubtful:
            if neighbour in self._neighbours:
                self._send_summary(neighbour)
        self._doubtful.clear()

    def forget(self, origin: int, *, dead: bool = False) -> list[Document]:
        """Forget the documents of a broker that is gone, or dead for good. Return those that were readable."""
        gone = [stored for key, stored in self._documents.items() if key[0] == origin]
        for stored in gone:
            self._drop(key_of(stored.signed))
        remembered = self._dead if dead else self._forgotten
        remembered[origin] = None
        if len(remembered) > BROKERS_MAX:
            del remembered[next(iter(remembered))]
        return [stored.document for stored in gone if stored.document is not None]

    def forget_withdrawn(self, now: float, after_s: float) -> None:
        """Forget documents that were withdrawn long ago. If a broker still relays one, its origin withdraws it
        again."""
        for key, since in list(self._withdrawn.items()):
            if since == math.inf:
                self._withdrawn[key] = now
            elif now - since >= after_s:
                self._drop(key)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _verified(self, signed: Signed) -> KnownDocument | None:
        """Return a document that its origin signed, or None while the origin's keys are awaited.

        The neighbour has verified the same signature. So a body that cannot be read comes from a faulty origin or a
        newer version, and is relayed. A link state is the exception: its keys are in its body, so a relay that cannot
        read it cannot verify it, and the FrameError is the neighbour's fault.
        """
        if signed.kind == LINK_STATE:
            document = read_document(signed)
            assert isinstance(document, LinkState)
            return KnownDocument(signed, document) if self._message_auth.check(signed, document) else None
        return KnownDocument(signed, _read(signed)) if self._message_auth.check(signed) else None

    def _has_room(self, signed: Signed, known: KnownDocument | None) -> bool:
        """Return whether a document that cannot be read may be stored."""
        if known is not None and known.document is None:
            return self._unread_bytes - len(known.signed.body) + len(signed.body) <= UNREAD_BYTES_MAX
        return self._unread < UNREAD_MAX and self._unread_bytes + len(signed.body) <= UNREAD_BYTES_MAX

    def _origin_has_room(self, signed: Signed, known: KnownDocument | None) -> bool:
        """Return whether a document fits into the bounds of its origin. Count a refusal, and note the first one."""
        use = self._origins.get(signed.origin)
        if use is None or signed.kind == LINK_STATE or (known is not None and not signed.body):
            return True
        more = len(signed.body) - (0 if known is None else len(known.signed.body))
        if use.documents + (known is None) <= ORIGIN_DOCUMENTS_MAX and (
            more <= 0 or use.bytes + more <= ORIGIN_BYTES_MAX
        ):
            return True
        self._counts["origin_refused"] += 1
        if not use.refused:
            use.refused = True
            self.exceeded.append(signed.origin)
        return False

    def _flood(self, stored: KnownDocument) -> None:
        self._origin_has_room(stored.signed, self._documents.get(key_of(stored.signed)))  # ours: notes it for the log
        self._store(stored)
        self._relay(stored.signed, exclude=None)

    def _answer(self, neighbour: int) -> None:
        self._answered[neighbour] = None
        known = self._asking.pop(neighbour)
        for key in sorted(self._documents):
            signed = self._documents[key].signed
            has = known.get(key)
            if (key not in self._withdrawn) if has is None else has < signed.version:
                self._sender.send(neighbour, signed)

    def _send_summary(self, neighbour: int) -> None:
        keys = sorted(self._documents)
        for start in range(0, max(len(keys), 1), SUMMARY_DOCUMENTS_MAX):
            part = keys[start : start + SUMMARY_DOCUMENTS_MAX]
            self._sender.send(
                neighbour,
                DatabaseSummary(
                    start == 0,
                    start + SUMMARY_DOCUMENTS_MAX >= len(keys),
                    tuple(origin for origin, _, _ in part),
                    tuple(kind for _, kind, _ in part),
                    tuple(number for _, _, number in part),
                    tuple(self._documents[key].signed.version for key in part),
                ),
            )

    def _outbid(self, signed: Signed) -> None:
        """Replace an unknown document in our name: flood our own body, or a withdrawal, with a higher version."""
        own = self._documents.get(key_of(signed))
        if own is None and signed.kind == LINK_STATE:
            return
        above = replace(signed, version=signed.version + 1, body=b"" if own is None else own.signed.body)
        anew = KnownDocument(self._message_auth.sign(above), _read(above))
        self._flood(anew)
        self._report(anew)

    def _report(self, stored: KnownDocument) -> None:
        if stored.document is None:
            self._counts["unknown_documents"] += 1
        else:
            self.learned.append(stored.document)

    def _store(self, stored: KnownDocument) -> None:
        key = key_of(stored.signed)
        self._count(stored, 1)
        self._count(self._documents.get(key), -1)
        self._documents[key] = stored
        if stored.withdrawn:
            self._withdrawn[key] = math.inf
        else:
            self._withdrawn.pop(key, None)

    def _drop(self, key: Key) -> None:
        self._count(self._documents.pop(key), -1)
        self._withdrawn.pop(key, None)

    def _count(self, stored: KnownDocument | None, by: int) -> None:
        if stored is None:
            return
        use = self._origins.setdefault(stored.signed.origin, OriginUse())
        use.documents += by
        use.bytes += by * len(stored.signed.body)
        if use.refused and use.documents <= ORIGIN_DOCUMENTS_MAX // 2 and use.bytes <= ORIGIN_BYTES_MAX // 2:
            use.refused = False
            self._doubtful.update(self._neighbours)  # the documents that were refused come again
        if not use.documents:
            del self._origins[stored.signed.origin]
        self._link_states += by if stored.signed.kind == LINK_STATE else 0
        if stored.document is None:
            self._unread += by
            self._unread_bytes += by * len(stored.signed.body)

    def _receive_old(self, signed: Signed, newest: Signed, neighbour: int) -> None:
        """Take a version that is not newer: answer an older one, and note who needs no held one."""
        if newest.version > signed.version:
            self._sender.send(neighbour, newest)
        elif self._held and (senders := self._held.get(key_of(signed))) is not None:
            senders[neighbour] = None

    def _relay_or_hold(self, signed: Signed, neighbour: int) -> None:
        if self.holds:
            self._held[key_of(signed)] = {neighbour: None}
        else:
            self._relay(signed, exclude=neighbour)

    def _relay(self, signed: Signed, exclude: int | None) -> None:
        for neighbour in self._neighbours:
            if neighbour != exclude:
                self._sender.send(neighbour, signed)


def _read(signed: Signed) -> Document | None:
    """Return the document of an envelope, None when this version cannot read it."""
    try:
        return read_document(signed)
    except FrameError:
        return None
