"""`check_plan` on random plans: it accepts each valid one, and refuses it once any single rule is broken."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from maps import database, link_states

from plait_broker.overlay.dissemination.strategy import (
    Envelope,
    GroupCopy,
    LinkCopy,
    Plan,
    PlanInvalid,
    Topology,
    check_plan,
)
from plait_broker.overlay.dissemination.views import OverlayTopology
from plait_broker.overlay.topology.forwarding_table import ForwardingTable
from plait_broker.overlay.topology.neighbours import Neighbour
from plait_core import Event
from plait_core.wire import Confirm, Destination, Publish, encode_block
from plait_core.wire.frame_types.overlay_frames import LinkState

EVENT = Publish(Confirm.NONE, encode_block(Event({"x": 1}, b"", 9, 1, 0)))
RANDOMS = st.randoms(use_true_random=False)
FAR = 1000
"""A broker that no graph has."""


class Case:
    """A broker of a random graph, destinations of an event, and a valid plan for them with all four parts."""

    def __init__(self, states: list[LinkState], rng: Random) -> None:
        map = database(states)
        brokers = [state.origin for state in states]
        self.rng = rng
        self.me = rng.choice(brokers)
        neighbours = {hop: Neighbour(hop, "", hop, 0.0, delay_us=1) for hop in map.costs_us(self.me)}
        self.topology: Topology = OverlayTopology(self.me, map, ForwardingTable(self.me, map, neighbours))
        path = tuple(broker for broker in brokers if broker != self.me and rng.random() < 0.1)
        self.envelope = Envelope(EVENT, self.me, 0, 0, 0, path)
        homes = [broker for broker in brokers if broker != self.me and rng.random() < 0.7]
        self.to = [(home, rng.randint(0, 9), 0) for home in homes]
        self.links: list[LinkCopy] = []
        self.groups: list[GroupCopy] = []
        self.unreachable: list[Destination] = []
        self.forbidden: list[Destination] = []
        self._fill()

    def _fill(self) -> None:
        by: dict[int, list[Destination]] = {}
        cast: list[list[Destination]] = [[], []]
        for destination in self.to:
            hop = self.topology.next_hop(destination[0], self.envelope.path)
            part = self.rng.choice([*cast, self.unreachable, self.forbidden])
            if hop is None or self.rng.random() < 0.3:
                part.append(destination)
            else:
                by.setdefault(hop, []).append(destination)
        self.links = [LinkCopy(hop, named) for hop, named in by.items()]
        self.groups = [GroupCopy(("239.255.0.1", port), named) for port, named in enumerate(cast) if named]

    @property
    def plan(self) -> Plan:
        return Plan(self.links, self.groups, self.unreachable, self.forbidden)

    @property
    def parts(self) -> list[list[Destination]]:
        """All lists of destinations, as they are in the plan."""
        inside = [list(copy.destinations) for copy in self.links]
        self.links = [copy._replace(destinations=named) for copy, named in zip(self.links, inside, strict=True)]
        cast = [list(copy.destinations) for copy in self.groups]
        self.groups = [copy._replace(destinations=named) for copy, named in zip(self.groups, cast, strict=True)]
        return [*inside, *cast, self.unreachable, self.forbidden]

    def check(self, topology: Topology | None) -> None:
        check_plan(self.plan, self.envelope, self.to, topology)


def twice(case: Case) -> None:
    """Repeat a destination in the same part or in another one."""
    assume(case.to)
    case.rng.choice(case.parts).append(case.rng.choice(case.to))


def missing(case: Case) -> None:
    parts = [part for part in case.parts if part]
    assume(parts)
    part = case.rng.choice(parts)
    part.pop(case.rng.randrange(len(part)))
    case.links = [copy for copy in case.links if copy.destinations]
    case.groups = [copy for copy in case.groups if copy.destinations]


def added(case: Case) -> None:
    case.rng.choice(case.parts).append((FAR, 0, 0))


def exchanged(case: Case) -> None:
    """Replace a destination by a broker that the event has no destination at: the number of both is the same."""
    parts = [part for part in case.parts if part]
    assume(parts)
    part = case.rng.choice(parts)
    part[case.rng.randrange(len(part))] = (FAR, 0, 0)


def moved(case: Case) -> None:
    """Give a destination the position of another event."""
    parts = [part for part in case.parts if part]
    assume(parts)
    part = case.rng.choice(parts)
    at = case.rng.randrange(len(part))
    broker, position, proof = part[at]
    part[at] = (broker, position + 1, proof)


def two_for_one(case: Case) -> None:
    """Split the copy for one neighbour into two."""
    long = [copy for copy in case.links if len(copy.destinations) > 1]
    assume(long)
    copy = case.rng.choice(long)
    at = case.rng.randrange(1, len(copy.destinations))
    case.links.remove(copy)
    case.links += [copy._replace(destinations=part) for part in (copy.destinations[:at], copy.destinations[at:])]


def empty_copy(case: Case) -> None:
    case.links.append(LinkCopy(FAR, []))


def empty_group(case: Case) -> None:
    case.groups.append(GroupCopy(("239.255.0.1", 9), []))


def back(case: Case) -> None:
    """Put the neighbour of a copy on the path."""
    assume(case.links)
    copy = case.rng.choice(case.links)
    case.envelope = case.envelope._replace(path=(*case.envelope.path, copy.neighbour))


def further(case: Case) -> None:
    """Send a copy to a neighbour that is not strictly closer to one of its destinations, or to no neighbour at all."""
    assume(case.links)
    at = case.rng.randrange(len(case.links))
    homes = [home for home, _, _ in case.links[at].destinations]
    used = {copy.neighbour for copy in case.links} | set(case.envelope.path)
    wrong = [
        hop
        for hop in (*case.topology.neighbours(case.me), FAR)
        if hop not in used and not all(hop in case.topology.feasible(home) for home in homes)
    ]
    case.links[at] = case.links[at]._replace(neighbour=case.rng.choice(wrong))


ALWAYS = [twice, missing, added, exchanged, moved, two_for_one, empty_copy, empty_group]
LOOP_FREE = [back, further]


@given(link_states(brokers_max=15), RANDOMS)
def test_a_valid_plan_is_accepted(states: list[LinkState], rng: Random) -> None:
    case = Case(states, rng)
    case.check(None)
    case.check(case.topology)


@pytest.mark.parametrize("broken", [*ALWAYS, *LOOP_FREE], ids=lambda broken: broken.__name__)
@given(link_states(brokers_max=15), RANDOMS)
def test_a_broken_plan_is_refused(broken: Callable[[Case], None], states: list[LinkState], rng: Random) -> None:
    case = Case(states, rng)
    broken(case)
    with pytest.raises(PlanInvalid):
        case.check(case.topology)
    if broken in ALWAYS:
        with pytest.raises(PlanInvalid):
            case.check(None)
    else:
        case.check(None)  # a rule for strategies that declare themselves loop-free
