"""What is kept of other brokers beyond this one's own life: what their durable subscriptions want, and the sheets that
it is believed by. A home hears that we know what it wants only when that is stored here: both may die the next moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from plait_core.wire.frame_types.overlay_frames import DurableInterest, InterestAck, LinkState

from ..host import Host
from ..topology.flooding import Document, Flooding, Key, key_of
from ..transport.control_unicast import ControlUnicast
from .durable_interest import RemoteDurableInterest


class DurableInterestStore:
    """One broker's memory of the others, as its host keeps it."""

    def __init__(
        self, me: int, host: Host, flooding: Flooding, theirs: RemoteDurableInterest, errands: ControlUnicast
    ) -> None:
        self._me = me
        self._host = host
        self._flooding = flooding
        self._theirs = theirs
        self._errands = errands
        self._kept: dict[int, dict[int, int]] = {}
        """By origin and number, the version of what is kept; number 0 is the sheet, of which any version will do."""
        self._storing: Counter[int] = Counter()
        """By origin, how much of it is being stored."""
        self._withheld: dict[int, tuple[InterestAck, int]] = {}

    def recall(self, documents: Iterable[Document]) -> None:
        """What an earlier life of this broker has kept."""
        by: dict[int, list[Document]] = {}
        for document in sorted(documents, key=key_of):
            by.setdefault(document.origin, []).append(document)
            self._kept.setdefault(document.origin, {})[key_of(document)[1]] = document.version
        for told in sorted(by.values(), key=_born):  # of one log's lives the last comes last
            for document in told:
                self._flooding.recall(document)
        for origin in [origin for origin in self._kept if origin not in self._theirs]:
            self._discard(origin)

    def learn(self, document: DurableInterest) -> bool:
        """Keep what a broker tells, or drop what it takes back; whether it can be read."""
        readable = self._theirs.learn(document)
        kept = self._kept.setdefault(document.origin, {})
        if readable and document.filter:
            sheet = self._flooding.document((document.origin, 0))
            if 0 not in kept and sheet is not None:
                self._keep(sheet)
            if kept.get(document.number) != document.version:
                self._keep(document)
        elif document.number in kept:
            del kept[document.number]
            self._host.remember(key_of(document), None)
        if document.origin not in self._theirs:
            self._discard(document.origin)
        return readable

    def learn_sheet(self, sheet: LinkState) -> None:
        """A sheet comes late."""
        if sheet.origin in self._theirs and 0 not in self._kept.get(sheet.origin, ()):
            self._keep(sheet)

    def told(self, home: int) -> None:
        """A home has said all that it wants: its former lives are done with."""
        for former in self._theirs.told(home):
            self._discard(former)

    def forget(self, broker: int) -> None:
        """A broker is no more."""
        if self._theirs.forget(broker):
            for origin in [origin for origin in self._kept if origin not in self._theirs]:
                self._discard(origin)

    def answer(self, heard: InterestAck, tries: int) -> None:
        """Tell a home that what it wants is known here, once that is stored."""
        if heard.to in self._storing:
            self._withheld[heard.to] = (heard, tries)
        else:
            self._errands.say(heard, tries)

    def stored(self, keys: Iterable[Key]) -> None:
        """The host has stored these, or cannot: a broken disk here is no reason to keep others waiting."""
        for origin, _ in keys:
            self._storing[origin] -= 1
            if self._storing[origin] <= 0:
                del self._storing[origin]
                withheld = self._withheld.pop(origin, None)
                if withheld is not None:
                    self._errands.say(*withheld)

    def _keep(self, document: Document) -> None:
        key = key_of(document)
        self._kept.setdefault(key[0], {})[key[1]] = document.version
        if self._host.remember(key, document):
            self._storing[key[0]] += 1

    def _discard(self, origin: int) -> None:
        for number in self._kept.pop(origin, ()):
            self._host.remember((origin, number), None)


def _born(told: list[Document]) -> int:
    return max((document.born for document in told if isinstance(document, LinkState)), default=0)
