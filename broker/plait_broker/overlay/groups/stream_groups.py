"""Stream groups: events with more destinations than a header should name travel along one tree, in one numbering.

- The publisher's broker, the root, opens a group once an event has too many destinations (`destinations_max`). From
  then on all its events for a member are in the group's numbering, so that their order stays.
- Batches go down the tree, acks come up. Brokers on the way forward the one and gather the other.
- A member that does not ack in time, or whose path in the tree has lost a link, is served by its own stream again: the
  root sends it what it has not acked. The member leaves out what it has.
- A member whose ack is wrong is named, and served by its own stream. Others keep the group (`spoiled_acks.py`).
- After a while a new group is opened, with a new tree and all members. Its events come after those of the one before.

`group_root.py` is the root's end, `group_branch.py` that of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from struct import Struct, pack
from typing import Final

from plait_core.wire import Destination
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch, GroupOpen, GroupRepair
from plait_core.wire.frame_types.overlay_frames import ACK_NOW, CONFIRM
from plait_core.wire.group_events import (
    DELAY_US_MAX,
    GroupMember,
    bytes_of_set,
    claim_of,
    pack_members,
    set_of_bytes,
    unpack_members,
)

from ..outputs import Acked, LogRemark, SendBatch
from ..security.identity import Forged
from ..security.message_auth import MessageAuth
from ..topology.link_state import LinkStateDatabase
from ..transport.neighbour_sender import NeighbourSender
from ..transport.own_streams import OwnStreams
from ..transport.reliable_stream import ReceivedEvent, Unacked
from .group_acks import TOGETHER_S
from .group_branch import GROUP, GroupBranch
from .group_root import ACK_CLAIM, GroupRoot, Kept, ack_claim
from .group_tree import DEPTH_MAX, Subtree, bits_of, shortest_path_tree
from .member_sets import MemberSets

OPEN_S: Final = 5.0
"""Least time between the openings of two groups of a root: the tree of one is sent to all members."""

JOIN_S: Final = 15.0
"""A member that has left a group may join the next one after this."""

CHECK_S: Final = 0.05
"""Time after a change of the map until the links of the tree are looked at: changes come in bursts."""

KNOWN_MAX: Final = 16_384
"""Events of a group that a member remembers, to recognise those that come again by its own stream: as many as a root
keeps."""

WRONG_S: Final = 300.0
"""A member whose ack was wrong joins no group for so long, so it spoils the acks of others once in this time."""

NAMED_MAX: Final = 3
"""Brokers that one remark about wrong acks names."""

GROUPS_MAX: Final = 2
"""Groups of one root that a broker is in: the present one, and the one before until all is acked."""

PLACE_CLAIM: Final = 0xFE
"""The kind of the MAC of a member's place in the tree."""

_PLACE: Final = Struct(">QQQQH")


class StreamGroups:
    """The groups that begin at one broker or pass it."""

    def __init__(
        self,
        me: int,
        destinations_max: int,
        map: LinkStateDatabase,
        message_auth: MessageAuth,
        streams: OwnStreams,
        sender: NeighbourSender,
    ) -> None:
        self.me = me
        self.root: GroupRoot | None = None
        """The present group of this broker's own events."""
        self.before: GroupRoot | None = None
        """The group before, until all of it is acked."""
        self.branches: dict[int, list[GroupBranch]] = {}
        """By root, this broker's places in its groups, the latest last."""
        self.moved: list[tuple[int, list[tuple[int, Unacked]]]] = []
        """Members that are served by their own streams again, each with the events that it has not acked and the
        positions that name them. `EventStreams` sends these, before anything else."""
        self.streams = streams
        self._destinations_max = destinations_max
        self._map = map
        self._neighbours = sender.neighbours
        self._message_auth = message_auth
        self._sender = sender
        self._outputs = sender.outputs
        self._counts = sender.counts
        self._opened_at = -inf
        self._outside_since = inf
        """Since when a destination of the group's root is not served by the group."""
        self._sets = MemberSets()
        self._wrong: dict[int, float] = {}
        """By broker whose ack was wrong, until when it joins no group."""
        self._revision = -1
        self._check_at = inf
        self._changed = False
        """Whether batches, acks or held events are to be looked at in this turn."""
        self._known: dict[int, dict[tuple[int, int], int]] = {}
        """By root, the latest events that came by a group: their positions by publisher and sequence number."""
        self._aliases: dict[tuple[int, int], int] = {}
        """By root and position in a group, the position of the same event in its own stream."""

    # --- the root -----------------------------------------------------------------------------------------------------

    def publish(self, homes: list[int], unacked: Unacked, now: float) -> tuple[list[int], list[Destination]]:
        """Append an event to the group for those destinations that it serves. Return the others, and the served ones
        with positions if the publisher waits for confirmation."""
        if self.root is None and len(homes) <= self._destinations_max:
            return homes, []
        members, others = self._sets.find(homes, self.root)
        if self._may_open(others, now):
            self._open(now)
            members, others = self._sets.find(homes, self.root)
        root = self.root
        if others and self._outside_since == inf:
            self._outside_since = now
        if root is None or not members:
            return homes, []
        urgent = bool(unacked[1] & (CONFIRM | ACK_NOW))
        position = GROUP | root.add(unacked, members, now, urgent=urgent)
        self._changed = True
        ids = root.tree.ids
        return others, [(ids[index], position, 0) for index in bits_of(members)] if urgent else []

    @property
    def filling(self) -> float:
        """Return the unacked events of the fullest group, as a share of its bound."""
        return max((group.filling for group in self._groups()), default=0.0)

    @property
    def members(self) -> set[int]:
        """The members that groups serve."""
        return {group.tree.ids[index] for group in self._groups() for index in bits_of(group.active)}

    @property
    def membership(self) -> tuple[int, ...]:
        """Return a value that changes when `members` does."""
        return tuple([number for group in self._groups() for number in (group.epoch, group.active)])

    def leave(self, broker: int, now: float) -> None:
        """Serve a member by its own stream again."""
        root = self.root or self.before
        if root is not None:
            self._move_out([broker], now)

    def is_pending(self, home: int, position: int) -> bool:
        """Return whether a member has not acked an event of a group."""
        for group in self._groups():
            index = group.tree.index.get(home)
            if index is not None and group.active >> index & 1 and group.epoch <= position ^ GROUP < group.next:
                return group.acked_up_to(index) < position ^ GROUP
        return False

    def receive_ack(self, child: int, ack: GroupAck, now: float) -> None:
        """Take acks from below. Raise Forged if they are false."""
        if ack.root != self.me:
            self._gather(child, ack, now)
            return
        self._changed = True
        for group in self._groups():
            if group.epoch == ack.epoch:
                before = self._confirming(group)
                try:
                    for index, acked in group.receive_ack(child, ack, now):
                        self._confirm(group, before, index, acked, ack.up_to)
                finally:
                    self._exclude_wrong(group, now)
        if self.before is not None and not self.before.kept:
            self.before = None

    # --- from the parent ----------------------------------------------------------------------------------------------

    def receive_open(self, parent: int, open: GroupOpen, now: float) -> None:
        """Take this broker's place in a group, and pass the children their parts. Raise Forged if the root has not
        given it."""
        if not self._is_path(open, parent):
            return
        members = unpack_members(open.members)
        if open.root not in self._map:  # it is forgotten with its groups, so there are no more roots than brokers
            self._counts["group_strays"] += 1
            return
        me = members[0]
        claimed = _place(open, parent, me)
        expected = self._message_auth.prove_claim(open.root, open.root, open.epoch, PLACE_CLAIM, claimed)
        if me.id != self.me or me.proof != expected:
            raise Forged("a place in a stream group that its root has not given")
        known = self.branches.get(open.root, [])
        if known and (known[-1].epoch >= open.epoch or now < known[-1].opened_at + OPEN_S / 2):
            return  # it is old, or its root opens more groups than the children should get from here
        self.branches[open.root] = known
        branch = GroupBranch(open, parent, members, now)
        known.append(branch)
        del known[:-GROUPS_MAX]
        self._known.setdefault(open.root, {})
        for child, link in branch.links.items():
            self._send_open(child, link.subtree, members, open)

    def receive_batch(self, parent: int, batch: GroupBatch, link_us: int, now: float) -> None:
        """Take a batch, deliver what is for this broker, and forward it. Raise Forged if the root has not signed it."""
        branch = self._branch(batch.root, batch.epoch)
        if branch is None or branch.parent != parent:
            self._counts["group_strays"] += 1
            return
        if not branch.takes(batch):
            if branch.misses(batch):
                self._counts["group_repairs"] += 1
                self._send(parent, GroupRepair(branch.root, branch.epoch, branch.last))
            return
        read, apart = branch.read(batch), set_of_bytes(batch.apart, branch.size)
        if read is not None and self._message_auth.strict:
            if not read.signature:  # such a batch has no digests, so it cannot be checked
                raise Forged("a batch without a signature")
            self._message_auth.check_batch(branch.root, claim_of(branch.root, branch.epoch, read), read.signature)
        age_us = min(batch.waited_us + link_us, DELAY_US_MAX)
        events = branch.advance(batch, read, age_us, now)
        if batch.asks:
            branch.acks.ask(batch.last, apart)
        for child, link in branch.links.items():
            frame = link.send(read, batch.last, now, asks=batch.asks, age_us=age_us, apart=apart)
            if frame is not None:
                self._send_batch(child, frame, now, link.priority)
        if events and not branch.left:
            branch.hold(events)
        self._changed = True

    def receive_repair(self, child: int, repair: GroupRepair, now: float) -> None:
        """Send a child again what it has missed, if that is remembered."""
        holder: GroupRoot | GroupBranch | None = None
        if repair.root == self.me:
            holder = next((group for group in self._groups() if group.epoch == repair.epoch), None)
        else:
            holder = self._branch(repair.root, repair.epoch)
        link = None if holder is None else holder.links.get(child)
        for frame in () if link is None else link.again(repair.up_to, now):
            self._send_batch(child, frame, now)

    # --- the member ---------------------------------------------------------------------------------------------------

    def own_events(self, root: int, events: list[ReceivedEvent]) -> tuple[list[ReceivedEvent], list[int]]:
        """Take events of a root's own stream to this broker. Return those that have not come by a group, and the
        positions of those that have, and are acknowledged already."""
        self._changed = True  # events of a group may have waited for these
        branches = self.branches[root]
        new: list[ReceivedEvent] = []
        done: list[int] = []
        known = self._known[root]
        for event in events:
            if event.frame.publisher == root:
                new.append(event)
                continue
            for branch in branches:
                if event.position > branch.after:  # it would have come by the group
                    branch.leave()
            number = known.get((event.frame.publisher, event.frame.sequence))
            if number is None:
                new.append(event)
            elif self._is_open(root, number):
                self._aliases[root, number] = event.position
            else:
                done.append(event.position)
        return new, done

    def acknowledge(self, root: int, number: int) -> int | None:
        """Note that this broker has charge of an event of a group. Return its position in its own stream if it came by
        that, too."""
        position = number ^ GROUP
        for branch in self.branches.get(root, ()):
            branch.acknowledge(position)
        self._changed = True
        return self._aliases.pop((root, number), None) if self._aliases else None

    def gone(self, broker: int) -> list[ReceivedEvent]:
        """Forget a broker, which has left the group. Return its events that have waited for others: nothing sends them
        again."""
        held = [event for branch in self.branches.pop(broker, ()) for event in branch.release()]
        self._known.pop(broker, None)
        self._wrong.pop(broker, None)
        self._aliases = {key: at for key, at in self._aliases.items() if key[0] != broker}
        return held

    # --- time ---------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether events wait for a batch."""
        return any(group.pending for group in self._groups())

    @property
    def busy(self) -> bool:
        """Whether there is any group."""
        return self.root is not None or self.before is not None or bool(self.branches)

    def settle(self, now: float) -> None:
        """Send what follows from this turn: batches that are due, acks, and events that have waited for others."""
        if self._map.revision != self._revision:
            self._revision, self._check_at = self._map.revision, min(self._check_at, now + CHECK_S)
        if not self._changed:
            return
        self._changed = False
        for group in self._groups():
            if now >= group.send_at:
                self._send_batches(group, now)
        for branches in self.branches.values():
            for branch in branches:
                self._release(branch)
                self._answer(branch, now)

    def tick(self, now: float) -> None:
        """Send batches and acks that are due, and serve members that are late by their own streams."""
        for group in self._groups():
            if now >= group.send_at:
                self._send_batches(group, now)
            late = group.late(now)
            if late:
                self._move_out([group.tree.ids[index] for index in bits_of(late)], now)
        if now >= self._check_at:
            self._check_at = inf
            self._check_tree(now)
        for branches in self.branches.values():
            for branch in branches:
                self._answer(branch, now)

    def send_all(self, now: float) -> None:
        """Send all events that wait for a batch, and all acks that wait for those of others: this broker stops."""
        self._send_pending(now)
        for branches in self.branches.values():
            for branch in branches:
                self._answer(branch, now, now + TOGETHER_S)

    @property
    def due_at(self) -> float:
        """When to call `tick`, at the latest."""
        times = [self._check_at, *(group.due_at for group in self._groups())]
        times += [branch.acks.due_at for branches in self.branches.values() for branch in branches]
        return min(times)

    # --- inside: the root ---------------------------------------------------------------------------------------------

    def _groups(self) -> list[GroupRoot]:
        return [group for group in (self.before, self.root) if group is not None]

    def _may_open(self, others: list[int], now: float) -> bool:
        """Return whether a group is to be opened, since this event has too many destinations outside the present one,
        or since some have been outside for long."""
        if self.before is not None or now < self._opened_at + OPEN_S:
            return False
        if self._wrong:
            others = [home for home in others if self._wrong.get(home, -inf) <= now]
        if len(others) > self._destinations_max:
            return True
        return now >= self._outside_since + JOIN_S and any(self._map.reaches(self.me, home) for home in others)

    def _open(self, now: float) -> None:
        """Open a group with all brokers that can be reached."""
        tree = shortest_path_tree(self._map, self.me)
        children = [child for child in tree.children if child.broker in self._neighbours]
        if not children:
            return
        before = self.root
        if before is not None:
            before.ask(now)
            self._send_batches(before, now)
            before.settle()
            self.before = before if before.kept else None
        epoch = max(1, round(now * 1_000_000), 0 if before is None else before.next)
        root = self.root = GroupRoot(self.me, tree, epoch, self._message_auth)
        self._wrong = {broker: until for broker, until in self._wrong.items() if until > now}
        self._opened_at, self._outside_since = now, inf
        self._sets.forget()
        self._counts["groups_opened"] += 1
        after = (0, 0) if before is None else (before.epoch, before.last)
        open = GroupOpen(self.me, epoch, (), b"", *after)
        members = [self._member(root, before, index, open) for index in range(len(tree.ids))]
        for child in tree.children:
            if child in children:
                self._send_open(child.broker, child, members, open)
            else:
                self._move_out([tree.ids[at] for at in range(child.start, child.start + child.size)], now)

    def _member(self, root: GroupRoot, before: GroupRoot | None, index: int, open: GroupOpen) -> GroupMember:
        tree = root.tree
        broker, size = tree.ids[index], tree.sizes[index]
        if broker == self.me:
            return GroupMember(broker, 0, 0, size, 0)
        at = None if before is None else before.tree.index.get(broker)
        follows = int(before is not None and at is not None and before.active >> at & 1)
        after = self.streams.last_position(broker)
        if after is None:  # it joins the next group
            root.remove(index)
        if broker in self._wrong:
            root.remove(index)
            root.spoiled.exclude(index)
        member = GroupMember(broker, after or 0, 0, size, follows)
        claimed = _place(open, tree.parents[index], member)
        proof = self._message_auth.prove_claim(broker, self.me, open.epoch, PLACE_CLAIM, claimed)
        return member._replace(proof=proof)

    def _send_pending(self, now: float) -> None:
        """Send all events that wait for a batch."""
        for group in self._groups():
            if group.pending:
                self._send_batches(group, now)

    def _send_batches(self, group: GroupRoot, now: float) -> None:
        for child, frame in group.batches(now):
            self._send_batch(child, frame, now, group.links[child].priority)

    def _check_tree(self, now: float) -> None:
        """Serve the members behind a link that has failed by their own streams."""
        for group in self._groups():
            tree = group.tree
            lost = 0
            for index in range(1, len(tree.ids)):
                broker, parent = tree.ids[index], tree.parents[index]
                direct = parent != self.me or broker in self._neighbours
                if not direct or broker not in self._map.costs_us(parent):
                    lost |= tree.subtree(index)
            if lost & group.active:
                self._move_out([tree.ids[index] for index in bits_of(lost & group.active)], now)

    def _move_out(self, brokers: list[int], now: float) -> None:
        """Serve members by their own streams again: send each what it has not acked."""
        self._send_pending(now)
        for broker in brokers:
            unacked: list[Kept] = []
            for group in self._groups():
                index = group.tree.index.get(broker)
                if index is not None and group.active >> index & 1:
                    unacked += group.remove(index)
                    self._counts["group_members_moved"] += 1
            if unacked:
                self.moved.append((broker, [(GROUP | kept.position, kept.unacked) for kept in unacked]))
        for group in self._groups():
            group.settle()
        if self.before is not None and not self.before.kept:
            self.before = None
        self._sets.forget()
        self._outside_since = min(self._outside_since, now)

    def _exclude_wrong(self, group: GroupRoot, now: float) -> None:
        """Serve members whose own acks are wrong by their own streams, and name them."""
        wrong = [group.tree.ids[index] for index in group.spoiled.take_new()]
        if not wrong:
            return
        self._counts["group_acks_wrong"] += len(wrong)
        named = [broker for broker in wrong if self._wrong.get(broker, -inf) <= now]
        self._wrong.update(dict.fromkeys(wrong, now + WRONG_S))
        if named:
            names = ", ".join(self._path_of(group, broker) for broker in named[:NAMED_MAX])
            more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
            text = (
                f"acks of a stream group are wrong, by the last broker of each of these paths or one before it: {names}"
            )
            self._outputs.append(LogRemark(f"{text}{more}; these brokers get their events by their own streams"))
        self._move_out(wrong, now)

    def _path_of(self, group: GroupRoot, broker: int) -> str:
        """Return the names of the brokers from the root's child to a member."""
        path = [broker]
        while (parent := group.tree.parents[group.tree.index[path[-1]]]) != self.me:
            path.append(parent)
        return " -> ".join(self._map.name(one) or f"{one:016x}" for one in reversed(path))

    def _confirming(self, group: GroupRoot) -> list[Kept]:
        """Return the events whose publishers wait."""
        return [kept for kept in group.kept if kept.unacked[1] & (CONFIRM | ACK_NOW)]

    def _confirm(self, group: GroupRoot, events: list[Kept], index: int, after: int, up_to: int) -> None:
        news = [
            (GROUP | kept.position, kept.unacked)
            for kept in events
            if after < kept.position <= up_to and kept.members >> index & 1
        ]
        if news:
            self._outputs.append(Acked(group.tree.ids[index], news))

    # --- inside: relays and members -----------------------------------------------------------------------------------

    def _branch(self, root: int, epoch: int) -> GroupBranch | None:
        return next((branch for branch in self.branches.get(root, ()) if branch.epoch == epoch), None)

    def _is_path(self, open: GroupOpen, parent: int) -> bool:
        """Return whether a path leads from the root to the parent, and is no longer than the paths of a tree."""
        path = open.path
        ends = bool(path) and path[0] == open.root and path[-1] == parent
        return ends and self.me not in path and len(path) <= DEPTH_MAX

    def _send_open(self, child: int, subtree: Subtree, members: Sequence[GroupMember], open: GroupOpen) -> None:
        part = pack_members(members[subtree.start : subtree.start + subtree.size])
        path = (*open.path, self.me)
        self._send(child, GroupOpen(open.root, open.epoch, path, part, open.after_epoch, open.after_position))

    def _send(self, to: int, frame: GroupOpen | GroupRepair) -> None:
        if to in self._neighbours:
            self._sender.send(to, frame)

    def _send_batch(self, to: int, frame: GroupBatch, now: float, priority: int = 0) -> None:
        neighbour = self._neighbours.get(to)
        if neighbour is not None:
            neighbour.sent += 1
            self._outputs.append(SendBatch(neighbour.link, frame, now, priority))

    def _gather(self, child: int, ack: GroupAck, now: float) -> None:
        branch = self._branch(ack.root, ack.epoch)
        link = None if branch is None else branch.links.get(child)
        if branch is None or link is None:
            return
        members = set_of_bytes(ack.members, link.subtree.size)
        if not members:
            return
        proofs = ack.proofs
        if proofs and len(proofs) != members.bit_count():
            return
        if not branch.acks.add(ack.up_to, members << link.subtree.start, ack.proof, now, proofs):
            self._counts["group_acks_twice"] += 1
        self._changed = True

    def _release(self, branch: GroupBranch) -> None:
        """Deliver events that have waited for those before them."""
        if not branch.held or not self._precedes(branch):
            return
        held = branch.release()
        self._outputs += held
        known = self._known[branch.root]
        for event in held:
            known[event.frame.publisher, event.frame.sequence] = event.position
        while len(known) > KNOWN_MAX:
            del known[next(iter(known))]

    def _precedes(self, branch: GroupBranch) -> bool:
        """Return whether all that comes before a group's events has come."""
        if branch.follows is not None:
            epoch, last = branch.follows
            before = self._branch(branch.root, epoch)
            if before is None or before.left or before.last < last or before.held:
                return False
            branch.follows = None
        return not branch.after or self.streams.has_reached(branch.root, branch.after)

    def _answer(self, branch: GroupBranch, now: float, due_by: float | None = None) -> None:
        """Ack what was asked for, and send the acks that are complete or have waited, or will have by a time."""
        for up_to, record in () if branch.left else branch.answers():
            claimed = ack_claim(branch.epoch, record)
            proof = self._message_auth.prove_claim(branch.root, self.me, up_to, ACK_CLAIM, claimed)
            branch.acks.add(up_to, 1, proof, now)
        for up_to, members, proof, apart in branch.acks.due(now if due_by is None else due_by):
            named = bytes_of_set(members, branch.size)
            ack = GroupAck(branch.root, branch.epoch, up_to, named, proof, pack(f">{len(apart)}Q", *apart) or None)
            if branch.parent in self._neighbours:
                self._sender.relay(branch.parent, ack, now)  # within a rate: brokers below may send any number

    def _is_open(self, root: int, number: int) -> bool:
        return any(branch.is_open(number ^ GROUP) for branch in self.branches.get(root, ()))


def _place(open: GroupOpen, parent: int, member: GroupMember) -> bytes:
    """Return what the MAC of a member's place covers."""
    return _PLACE.pack(parent, member.after, open.after_epoch, open.after_position, member.follows)
