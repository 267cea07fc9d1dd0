"""The links of one process, and the routes of remote peers over them. No I/O.

A route leads a peer's frames to the link over which that peer was first received. Without a route, the peer's address
leads to a link; without a link, the address is dialled and the frames wait for the connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from typing import Final, TypeAlias

from plait_core.errors import FrameError, FrameFault
from plait_core.wire.frame_types.session_frames import Code

from .address_book import ADDRESSES_MAX
from .link import Link, LinkRefused, Stage
from .protocol.outputs import PeerId, Send

LinkId: TypeAlias = int
Waiting: TypeAlias = tuple[PeerId, Send]
"""A frame that waits for a dialled connection, with its sender."""

LINKS_MAX: Final = 512
"""Links of one process: a quarter of its usual file descriptors, since peers connect in crowds."""
HALF_OPEN_MAX: Final = 64
"""Accepted links whose other end has not proved the group's secret. Beyond it the oldest is closed: a member needs one
round trip, so strangers that do nothing keep no member out."""
WAITING_MAX: Final = 256
"""Frames that wait for one dialled connection: one of each local peer."""


@dataclass(frozen=True, slots=True)
class Dial:
    """A request to open a connection; `Node.connected` or `Node.unreachable` follows."""

    address: str


class LinkTable:
    """All links of one process."""

    def __init__(self, address: str, counts: Counter[str]) -> None:
        """`counts` are the node's refusals by reason."""
        self.links: Final[dict[LinkId, Link]] = {}
        self.routes: Final[dict[PeerId, LinkId]] = {}
        """The link over which a remote peer was first received."""
        self.processes: Final[dict[str, int]] = {}
        """The ids of processes with a Meeting, by address."""
        self.writable: dict[LinkId, None] = {}
        """The links with queued bytes."""
        self._address = address
        self._counts = counts
        self._by_address: dict[str, LinkId] = {}
        self._waiting: dict[str, list[Waiting]] = {}
        """Frames that wait, by the address that is dialled."""
        self._dials: list[Dial] = []
        self._closing: list[LinkId] = []

    def find(self, peer: PeerId) -> Link | None:
        """Return the link over which a peer was first received."""
        return self.links.get(self.routes.get(peer, 0))

    def at(self, address: str) -> LinkId | None:
        """Return the link to the process at an address."""
        return self._by_address.get(address)

    # --- from the dial to the end -------------------------------------------------------------------------------------

    def dial(self, address: str) -> None:
        """Dial an address, unless it is this process or a dial or a link exists already."""
        if address != self._address and address not in self._by_address:
            self._dial(address)

    def wait(self, address: str, sender: PeerId, send: Send) -> bool:
        """Keep a frame until the link to an address is open, and dial it if necessary. Return False at the limit."""
        waiting = self._dial(address)
        if len(waiting) >= WAITING_MAX:
            return False
        waiting.append((sender, send))
        return True

    def _dial(self, address: str) -> list[Waiting]:
        if address not in self._waiting and address not in self._by_address:
            self._dials.append(Dial(address))
        return self._waiting.setdefault(address, [])

    def take_waiting(self, address: str) -> list[Waiting]:
        """Remove and return the frames that wait for an address."""
        return self._waiting.pop(address, [])

    def add(self, id: LinkId, link: Link, dialled: str) -> None:
        """Add a link whose key exchange starts. Beyond a limit refuse an accepted one."""
        self.links[id] = link
        self.writable[id] = None
        if dialled:
            self._by_address[dialled] = id
        elif len(self.links) > LINKS_MAX:
            self.refuse(id, LinkRefused("too many links here"))
        else:
            half_open = [id for id, each in self.links.items() if each.stage is Stage.KEYS and not each.dials]
            if len(half_open) > HALF_OPEN_MAX:
                self.refuse(half_open[0], LinkRefused("too many links are half open"))

    def opened(self, id: LinkId, link: Link) -> list[str]:
        """Store the address and the process of a link after its Meeting. Return all addresses that lead to it."""
        self._by_address.setdefault(link.address, id)
        self.processes.pop(link.address, None)
        self.processes[link.address] = link.node
        if len(self.processes) > ADDRESSES_MAX:
            del self.processes[next(iter(self.processes))]
        return [known for known, other in self._by_address.items() if other == id or known == link.address]

    def learn_sender(self, id: LinkId, link: Link, local: Container[PeerId]) -> None:
        """Store the route of the sending peer. A second link must lead to the same process as the first."""
        sender = link.sender
        if self.routes.setdefault(sender, id) == id:
            return
        other = self.links.get(self.routes[sender])
        if sender in local or (other is not None and other.node != link.node):
            raise FrameError(FrameFault.FIELD, "a peer of another process")
        if other is None:
            self.routes[sender] = id

    def addresses_of(self, id: LinkId) -> list[str]:
        """Return the addresses that lead to a link."""
        return [address for address, known in self._by_address.items() if known == id]

    def forget_address(self, address: str) -> None:
        """Forget that an address leads to a link."""
        del self._by_address[address]

    def peers_of(self, id: LinkId) -> list[PeerId]:
        """Return the peers whose route is a link."""
        return [peer for peer, known in self.routes.items() if known == id]

    def refuse(self, id: LinkId, refused: LinkRefused) -> None:
        """Close a link with the reason."""
        self._counts["refused"] += 1
        self.links[id].close(Code.NOT_ALLOWED, refused.message)
        self._closing.append(id)

    def close_expired(self, now: float) -> None:
        """Close the links that are idle, or that did not authenticate in time."""
        for id, link in self.links.items():
            if link.expired(now):
                link.close(Code.BYE)
                self.writable[id] = None
                self._closing.append(id)

    def close_all(self) -> None:
        """Send the end of this process over all links."""
        for id, link in self.links.items():
            link.close(Code.BYE)
            self.writable[id] = None

    # --- for the server -----------------------------------------------------------------------------------------------

    def take_dials(self) -> list[Dial]:
        """Return the connections to open."""
        taken, self._dials = self._dials, []
        return taken

    def take_writable(self) -> dict[LinkId, None]:
        """Return the links with queued bytes."""
        taken, self.writable = self.writable, {}
        return taken

    def take_closing(self) -> list[LinkId]:
        """Return the links to close once their bytes are written."""
        taken, self._closing = self._closing, []
        return taken
