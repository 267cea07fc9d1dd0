"""What is so in a simulated overlay, whatever its brokers think: who can reach whom, since when nothing has changed,
and whose interest must be known where.

An event is owed to a broker whose interest in it was installed, when nothing has changed for a while and there is a way
between the two; and when its publisher's broker must once have known that interest, however parted they are since. So
the overlay's own tables decide nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .overlay_nodes import Node, Pipe
    from .overlays import OverlayWorld

CALM_S: Final = 6.0
"""Without any change for so long, dead links have been found out (3 s), and who is there has been told of it all."""

HEARTBEAT_S: Final = 0.5
ROUNDS: Final = 3
"""After the last change, tables are right within so many heartbeats, and what frames take on their way."""

TRIPS: Final = 4
"""How often something goes through the whole overlay until then: a sheet, a want, its answer, and one to spare."""


class GroundTruth:
    """Of one history."""

    def __init__(self, world: OverlayWorld, *, forgets: bool) -> None:
        """`forgets`: whether brokers are away for so long that the others may forget them."""
        self._world = world
        self._forgets = forgets
        self.changed_at = 0.0
        """When a link or a broker last came, went, or became slower."""
        self._known: set[tuple[Node, int, Node, int, int, int]] = set()
        """Of broker and life, broker and life: an offer of the one that the other's want must have been told for."""

    def change(self) -> None:
        """Something has changed, or has begun to."""
        self.changed_at = self._world.timeline.now

    @property
    def calm(self) -> bool:
        """Whether nothing has changed for long."""
        return self._world.timeline.now - self.changed_at >= CALM_S

    @property
    def settled_at(self) -> float:
        """When tables are to be right, if nothing changes any more."""
        return self.changed_at + ROUNDS * HEARTBEAT_S + TRIPS * max(map(self._farthest_s, self._world.nodes))

    def reached(self, node: Node) -> set[Node]:
        """Those that a broker can reach, itself included."""
        return set(self._distances(node))

    def owes(self, root: Node, home: Node, offers: list[int], wants: list[int]) -> bool:
        """Whether what these offers promised, and these wants want, must be on its way now."""
        pairs = {(root, root.lives, home, home.lives, offer, want) for offer in offers for want in wants}
        if self.calm and home in self.reached(root):
            self._known |= pairs
            return bool(pairs)
        return not self._forgets and not pairs.isdisjoint(self._known)

    def _farthest_s(self, node: Node) -> float:
        return max(self._distances(node).values())

    def _distances(self, node: Node) -> dict[Node, float]:
        """In seconds; by Bellman and Ford's algorithm, which knows nothing of the one that is judged."""
        found = {node: 0.0} if node.runs else {}
        for _ in self._world.nodes:
            for pipe in self._world.pipes:
                if _leads(pipe):
                    for near, far in (pipe.ends, pipe.ends[::-1]):
                        way_s = found.get(near, float("inf")) + pipe.delay_s
                        if way_s < found.get(far, float("inf")):
                            found[far] = way_s
        return found or {node: 0.0}


def _leads(pipe: Pipe) -> bool:
    return pipe.up and not pipe.silent and all(node.runs for node in pipe.ends)
