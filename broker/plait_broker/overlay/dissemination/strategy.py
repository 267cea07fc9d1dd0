"""The interface of dissemination strategies: destinations and the overlay go in, a plan of copies comes out.

A strategy only plans. Streams below it number, store, send and retransmit events (`transport/event_streams.py`), and a
retransmission always follows shortest paths. So no strategy can lose, repeat or reorder an event. `check_plan` verifies
what every strategy must keep to, in one place, in production as well.

To add a strategy, write a class with this interface in a file of its own and put it into `registry.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from plait_core.filters import Filter
from plait_core.wire import Destination, EventFrame

BrokerId: TypeAlias = int

TreeId: TypeAlias = int
"""The tree that a copy follows. 0 is the shortest-path tree of the event's root; other ids belong to a strategy."""

GroupAddress: TypeAlias = tuple[str, int]
"""A multicast address and a UDP port."""


class Envelope(NamedTuple):
    """One event at one broker, as strategies see it."""

    frame: EventFrame
    root: BrokerId
    tree: TreeId
    delay_us: int
    flags: int
    path: tuple[BrokerId, ...]
    """Brokers that the copy has passed, the root first; empty at the root."""


EnvelopeFields: TypeAlias = tuple[EventFrame, BrokerId, TreeId, int, int, tuple[BrokerId, ...]]
"""The fields of an `Envelope` as a plain tuple: most events take no plan, and need no more."""


class LinkCopy(NamedTuple):
    """One copy for one neighbour, which becomes responsible for exactly these destinations."""

    neighbour: BrokerId
    destinations: Sequence[Destination]
    tree: TreeId = 0


class GroupCopy(NamedTuple):
    """One datagram to a multicast group. Streams repair over links what a member misses."""

    group: GroupAddress
    destinations: Sequence[Destination]


class Plan(NamedTuple):
    """Everything that one broker sends for one event. Each destination is in exactly one of the four parts."""

    links: Sequence[LinkCopy] = ()
    groups: Sequence[GroupCopy] = ()
    unreachable: Sequence[Destination] = ()
    """No path exists now; their streams retransmit later."""
    forbidden: Sequence[Destination] = ()
    """No permitted path exists: the event is given up for these destinations, counted and reported."""


class NextHop(NamedTuple):
    """A feasible neighbour."""

    neighbour: BrokerId
    cost_us: int
    """The delay of the whole path through it, as measured now."""


class Topology(Protocol):
    """The read-only view of the overlay. With the same revision it gives the same answers."""

    @property
    def me(self) -> BrokerId: ...

    @property
    def revision(self) -> int:
        """Counts changes of links and of their delays."""
        ...

    @property
    def links_revision(self) -> int:
        """Counts additions and removals of links, but not changes of delays."""
        ...

    def next_hop(self, to: BrokerId, passed: Sequence[BrokerId] = ()) -> BrokerId | None:
        """Return the chosen feasible neighbour, or None. The choice has hysteresis."""
        ...

    def next_hops(self, to: BrokerId, passed: Sequence[BrokerId] = ()) -> Sequence[NextHop]:
        """Return the feasible neighbours (strictly closer to `to`), fastest first."""
        ...

    def feasible(self, to: BrokerId) -> Collection[BrokerId]:
        """Return the ids of the feasible neighbours."""
        ...

    def neighbours(self, broker: BrokerId) -> Mapping[BrokerId, int]:
        """Return the neighbours of a broker with the costs of the links, in microseconds."""
        ...

    def cost_us(self, near: BrokerId, far: BrokerId) -> int | None: ...

    def distance_us(self, near: BrokerId, far: BrokerId) -> int | None: ...


class InterestView(Protocol):
    """The read-only view of filters: those of this broker's clients, and those that others installed here."""

    @property
    def revision(self) -> int: ...

    def brokers(self) -> Sequence[BrokerId]:
        """Return the brokers that have installed filters here."""
        ...

    def filters(self, broker: BrokerId) -> Sequence[Filter]:
        """Return the filters that a broker has installed here."""
        ...

    def local_advertisements(self) -> dict[int, Filter]:
        """Return this broker's own advertisements, by number."""
        ...

    def local_filters(self) -> dict[int, Filter]:
        """Return the covering set of this broker's own subscriptions, by number."""
        ...


class JoinGroup(NamedTuple):
    group: GroupAddress


class LeaveGroup(NamedTuple):
    group: GroupAddress


class SendControl(NamedTuple):
    """A message to the same strategy at a neighbour."""

    to: BrokerId
    body: bytes


Action: TypeAlias = JoinGroup | LeaveGroup | SendControl


class DisseminationStrategy(Protocol):
    """A dissemination algorithm."""

    name: ClassVar[str]
    """Its name in `[overlay] dissemination`."""

    loop_free: ClassVar[bool]
    """Whether all its next hops are feasible, which `check_plan` then verifies. Without this promise a strategy starts
    only where `[overlay] laboratory = true`."""

    independent: ClassVar[bool]
    """Whether the next hop of a destination does not depend on the other destinations and the copies have tree 0. An
    event with one destination then takes `next_hop` in place of `plan`."""

    passive: ClassVar[bool]
    """Whether it keeps no state: it then has no timers and requests no actions, and need not be told of interest."""

    counts: Counter[str]
    """Counters of unusual occurrences. The metric of the overlay's incidents adds them to its own."""

    def plan(self, envelope: Envelope, to: Sequence[Destination], now: float) -> Plan:
        """Plan the copies of one event. It is called at the root, with an empty path, and at every hop for copies of
        other trees than 0. Copies of tree 0 follow shortest paths from their first neighbour on."""
        ...

    def next_hop(self, to: BrokerId, passed: Sequence[BrokerId]) -> BrokerId | None:
        """Return the neighbour for one destination. It is called only if the strategy is independent."""
        ...

    def topology_changed(self, now: float) -> None:
        """Note that links or their delays changed."""
        ...

    def interest_changed(self, broker: BrokerId, now: float) -> None:
        """Note that a broker installed or removed filters here. This broker's own id means its clients' filters or
        advertisements."""
        ...

    def receive_control(self, source: BrokerId, body: bytes, now: float) -> None:
        """Handle a message from the same strategy at a neighbour. Raise FrameError if it is malformed."""
        ...

    def tick(self, now: float) -> None: ...

    def next_deadline(self) -> float | None: ...

    def take_actions(self) -> Sequence[Action]:
        """Return the actions that the strategy has requested since the last call."""
        ...


class StrategyFactory(Protocol):
    """A class of strategies. It makes the strategy of one broker."""

    @property
    def name(self) -> str: ...

    @property
    def loop_free(self) -> bool: ...

    def __call__(self, topology: Topology, interest: InterestView, /) -> DisseminationStrategy: ...


class PlanInvalid(AssertionError):
    """A strategy broke a rule that all strategies must keep: a defect of the strategy."""


def check_plan(plan: Plan, envelope: Envelope, to: Sequence[Destination], topology: Topology | None) -> None:
    """Raise PlanInvalid unless each destination is planned exactly once, and every copy goes where it may.

    `topology` is given for strategies that declare themselves loop-free: the neighbour of each copy must then be off
    the path and strictly closer to each of its destinations.
    """
    copies: list[LinkCopy | GroupCopy] = [*plan.links, *plan.groups]
    planned = [destination for copy in copies for destination in copy.destinations]
    planned += [*plan.unreachable, *plan.forbidden]
    if len(planned) != len(to) or set(planned) != set(to):
        raise PlanInvalid("a destination is planned twice, not at all, or was added or changed")
    if not all(copy.destinations for copy in copies):
        raise PlanInvalid("a copy without destinations")
    if len({copy.neighbour for copy in plan.links}) != len(plan.links):
        raise PlanInvalid("two copies for one neighbour")
    if topology is None:
        return
    for copy in plan.links:
        if copy.neighbour in envelope.path:
            raise PlanInvalid("a copy would return to a broker that it has passed")
        if not all(copy.neighbour in topology.feasible(d[0]) for d in copy.destinations):
            raise PlanInvalid("a neighbour that is not closer to the destination")
