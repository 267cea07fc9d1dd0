"""Custody of events whose publisher wants to know that all subscribers have them (`confirm="subscribers"`).

Taken goes up once a peer and all to whom it passed an event on have it. What would make that untrue is told first:
whoever loses a child, or hears that one further below was lost or has moved, says so in a Roster ahead of every Taken.
The publisher keeps an event until one round of it was taken by all, with nobody shaken off meanwhile and nobody missing
who was below before; else it sends a new round down the healed tree, where each delivers it once all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from plait_core.limits import ACKNOWLEDGED_MAX, PEER_DZ_MAX, PEER_ROSTER_MAX
from plait_core.wire.peer_frames import Happening, Member, Roster, Taken

from .incoming import Incoming
from .myself import Myself
from .outgoing import Outgoing
from .outputs import Confirmed, PeerId
from .subspaces import Texts, covers, merged

Key: TypeAlias = tuple[PeerId, int]

HELD_MAX = 16_384
"""Events on their way through one peer: four publishers' windows. The oldest is forgotten, and comes again."""
KEPT_MAX = 4096
"""Events that a publisher keeps; the face lets the application wait."""
ROUND_PERIODS = 4
"""Without an answer for so long, a new round: the tree needs three to notice a silent death."""
MISSING_PERIODS = 12
"""Whoever has not come back into the tree after so long is taken for dead, and not waited for."""
KEPT_PERIODS = 100
"""Then it is given up, and its publisher told so."""


@dataclass(slots=True)
class Held:
    """An event that has come, and is not taken by all below yet."""

    round: int
    uppers: list[PeerId]
    waiting: set[PeerId]
    mine: bool
    """Whether it is dealt with here."""


@dataclass(slots=True)
class Kept:
    """An event of our own."""

    event: Happening
    waiting: set[PeerId]
    since: int
    sent: int
    shaken: bool = False


class Custody:
    """One peer's part in it."""

    def __init__(self, me: Myself, incoming: Incoming, outgoing: Outgoing) -> None:
        self._me = me
        self._incoming = incoming
        self._outgoing = outgoing
        self._held: dict[Key, Held] = {}
        self._done: dict[Key, int] = {}
        self._before: dict[Key, int] = {}
        """What was done when `_done` was begun anew."""
        self._kept: dict[int, Kept] = {}
        self._rosters: dict[PeerId, dict[PeerId, Texts]] = {}
        self._told: dict[PeerId, dict[PeerId, Texts]] = {}
        self._shaken: dict[PeerId, Texts] = {}
        self._missing: dict[PeerId, tuple[Texts, int]] = {}
        self._answers: dict[tuple[PeerId, PeerId], list[tuple[int, int]]] = {}
        self.pass_on: Callable[[Happening], list[PeerId]] | None = None
        """Sends an event to all children that want it; to whom it went."""

    @property
    def full(self) -> bool:
        """Whether a publisher keeps as much as it may."""
        return len(self._kept) >= KEPT_MAX

    # --- a publisher's own --------------------------------------------------------------------------------------------

    def keep(self, event: Happening, children: Iterable[PeerId]) -> None:
        """An event goes out for the first time."""
        assert self._me.publisher, "custody begins at the publisher"
        assert event.round, "an event in custody has a round"
        period = self._me.period
        kept = self._kept[event.number] = Kept(event, set(children), period, period)
        self._settle(kept)

    def _settle(self, kept: Kept) -> None:
        """Confirmed when one round has come through undisturbed, and nobody is missing whom it is for."""
        if kept.waiting or kept.shaken or self._lacking(kept.event.dz):
            return
        del self._kept[kept.event.number]
        self._me.out.append(Confirmed(kept.event.number, self._below(kept.event.dz)))

    def _below(self, dz: str) -> int:
        return len({peer for roster in self._rosters.values() for peer, texts in roster.items() if covers(texts, dz)})

    def _lacking(self, dz: str) -> bool:
        return any(covers(texts, dz) for texts, _ in self._missing.values())

    def _rounds(self) -> None:
        """Once a period: what is shaken or unanswered goes out again, unless somebody is still missing."""
        me = self._me
        for kept in list(self._kept.values()):
            if me.period - kept.since > KEPT_PERIODS:
                del self._kept[kept.event.number]
                me.out.append(Confirmed(kept.event.number, None))
                continue
            if self._lacking(kept.event.dz):
                continue
            waited = me.period - kept.sent >= ROUND_PERIODS
            if (kept.shaken and not kept.waiting) or (kept.waiting and waited):
                self._again(kept)
            else:
                self._settle(kept)

    def _again(self, kept: Kept) -> None:
        me, old = self._me, kept.event
        kept.event = Happening(old.publisher, old.number, old.dz, 0.0, 0, old.block, old.round + 1)
        kept.sent, kept.shaken = me.period, False
        assert self.pass_on is not None, "whoever keeps events can send them"
        kept.waiting = set(self.pass_on(kept.event))
        self._settle(kept)

    # --- on the way ---------------------------------------------------------------------------------------------------

    def comes(self, sender: PeerId, event: Happening) -> bool:
        """Whether an event in custody goes on from here: it is new, or in a new round."""
        key = (event.publisher, event.number)
        held = self._held.get(key)
        if held is not None and event.round <= held.round:
            if sender not in held.uppers:
                held.uppers.append(sender)
            return False
        if held is None and (self._done.get(key) or self._before.get(key, 0)) >= event.round:
            self._tell(sender, key, event.round)
            return False
        return True

    def hold(self, sender: PeerId, event: Happening, waiting: Iterable[PeerId], *, delivered: bool) -> None:
        """It has gone on to these. `delivered`: whether the application has been given it just now."""
        key = (event.publisher, event.number)
        before = self._held.pop(key, None)
        mine = before.mine if before is not None and not delivered else not delivered
        self._held[key] = held = Held(event.round, [sender], set(waiting), mine)
        self._finish(key, held)
        if len(self._held) > HELD_MAX:
            del self._held[next(iter(self._held))]

    def dealt_with(self, publisher: PeerId, number: int) -> None:
        """The application has taken it, or does not want it."""
        held = self._held.get((publisher, number))
        if held is not None:
            held.mine = True
            self._finish((publisher, number), held)

    def taken(self, sender: PeerId, frame: Taken, now: float) -> None:
        """Somebody to whom we passed events on has them, with all below."""
        for number, round in zip(frame.numbers, frame.rounds, strict=True):
            if frame.publisher == self._me.id:
                kept = self._kept.get(number)
                if kept is not None and kept.event.round == round:
                    kept.waiting.discard(sender)
                    self._settle(kept)
                continue
            key = (frame.publisher, number)
            held = self._held.get(key)
            if held is not None and held.round == round:
                held.waiting.discard(sender)
                self._finish(key, held)

    def _finish(self, key: Key, held: Held) -> None:
        if held.waiting or not held.mine:
            return
        del self._held[key]
        self._done[key] = held.round
        if len(self._done) >= HELD_MAX:
            self._done, self._before = {}, self._done
        for upper in held.uppers:
            self._tell(upper, key, held.round)

    def _tell(self, upper: PeerId, key: Key, round: int) -> None:
        """It is said with the next output, together with what else was taken by then."""
        self._answers.setdefault((upper, key[0]), []).append((key[1], round))

    def speak(self) -> None:
        """Say what there is to say, losses first: whoever hears Taken has heard of them."""
        if not self._answers:
            return
        answers, self._answers = self._answers, {}
        for (upper, publisher), rows in answers.items():
            if upper in self._shaken:
                self._call_roll(upper)
            for start in range(0, len(rows), ACKNOWLEDGED_MAX):
                part = rows[start : start + ACKNOWLEDGED_MAX]
                taken = Taken(publisher, tuple([number for number, _ in part]), tuple([round for _, round in part]))
                self._me.send(upper, taken)

    # --- who is below -------------------------------------------------------------------------------------------------

    def roster(self, sender: PeerId, frame: Roster, now: float) -> None:
        """A child says who is below it."""
        if sender not in self._outgoing.children:
            return
        new = {member.peer: member.dz for member in frame.members if member.peer != self._me.id}
        self._replace(sender, new, frame.shaken)

    def joined(self, peer: PeerId, dz: Texts) -> None:
        """A child has come; it says itself who else is below it."""
        self._rosters.setdefault(peer, {}).setdefault(peer, dz)

    def narrowed(self, peer: PeerId, dz: Texts) -> None:
        """A child wants less of us than before: the rest comes to it another way."""
        rows = ((member, _shared(texts, dz)) for member, texts in self._rosters.get(peer, {}).items())
        self._replace(peer, {member: kept for member, kept in rows if kept}, ())

    def lost(self, peer: PeerId) -> None:
        """A child is gone, and what it would have passed on with it."""
        self._replace(peer, {}, ())
        self._rosters.pop(peer, None)
        self._told.pop(peer, None)
        self._shaken.pop(peer, None)
        for key, held in list(self._held.items()):
            if peer in held.waiting:
                held.waiting.discard(peer)
                self._finish(key, held)
        for kept in list(self._kept.values()):
            if peer in kept.waiting:
                kept.waiting.discard(peer)
                kept.shaken = True

    def _replace(self, child: PeerId, new: dict[PeerId, Texts], shaken: Texts) -> None:
        old = self._rosters.get(child, {})
        if new:
            self._rosters[child] = new
        gone = {peer: dz for peer, texts in old.items() if (dz := _without(texts, new.get(peer, ())))}
        shaken = merged((*shaken, *[dz for texts in gone.values() for dz in texts]))
        if not shaken:
            return
        if self._me.publisher:
            until = self._me.period + MISSING_PERIODS
            self._missing |= {peer: (dz, until) for peer, dz in gone.items()}
            for kept in self._kept.values():
                kept.shaken |= covers(shaken, kept.event.dz)
        for peer in self._incoming.parents:
            self._shaken[peer] = merged((*self._shaken.get(peer, ()), *shaken))

    def period(self) -> None:
        """Once a period: rosters that have changed are told, events in custody looked after."""
        if not self._me.settings.confirming:
            return
        if self._me.publisher:
            self._find_missing()
            self._rounds()
            return
        for parent in self._incoming.parents:
            if parent in self._shaken or self._roll(parent) != self._told.get(parent):
                self._call_roll(parent)

    def _find_missing(self) -> None:
        """Who is below again, elsewhere perhaps, is not missing any more; nor is who does not come back."""
        for peer, (dz, until) in list(self._missing.items()):
            there = merged(each for roster in self._rosters.values() for each in roster.get(peer, ()))
            left = _without(dz, there)
            if not left or until < self._me.period:
                del self._missing[peer]
            elif left != dz:
                self._missing[peer] = (left, until)

    def _roll(self, parent: PeerId) -> dict[PeerId, Texts]:
        """What that parent is to know: who receives what through it."""
        given = self._incoming.parents[parent].dz
        found: dict[PeerId, Texts] = {self._me.id: given}
        for child, roster in self._rosters.items():
            if child in self._outgoing.children:
                for peer, texts in roster.items():
                    if dz := _shared(texts, given):
                        found[peer] = merged((*found.get(peer, ()), *dz))
        return found

    def _call_roll(self, parent: PeerId) -> None:
        shaken = self._shaken.pop(parent, ())
        if parent not in self._incoming.parents:
            return
        roll = self._told[parent] = self._roll(parent)
        members = tuple([Member(peer, dz[:PEER_DZ_MAX]) for peer, dz in roll.items()][:PEER_ROSTER_MAX])
        self._me.send(parent, Roster(members, shaken[:PEER_DZ_MAX] if len(shaken) <= PEER_DZ_MAX else ("",)))


def _shared(texts: Texts, other: Texts) -> Texts:
    """The points of both."""
    found = [one for one in texts if covers(other, one)]
    found += [two for two in other if covers(texts, two) and two not in found]
    return merged(found)


def _without(texts: Texts, other: Texts) -> Texts:
    """Those of `texts` that are not wholly in `other`."""
    return tuple([dz for dz in texts if not covers(other, dz)])
