"""Broker processes on this machine and the links between them, as one context manager.

`plait up`, `plait demo` and the lab's measurements start their brokers with it. A link may go through relays of this
process, which delay, freeze or cut it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from plait_core.values import Json

from ..connection.http_api import get_json
from ..terminal.failures import Failure
from .local_broker import LocalBroker
from .ports import http_of, listen_addresses
from .topologies import Graph

if TYPE_CHECKING:
    from ...relay.relay import Relay

Link: TypeAlias = tuple[str, str]

LINKED_S: Final = 30.0
"""Time for all brokers to know each other. They do within two seconds of the last one's start on an idle machine."""
POLL_S: Final = 0.1
LOG_LINES: Final = 2
"""Last lines of each broker's log that an error shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """How each broker of a local overlay is started."""

    arguments: tuple[str, ...] = ()
    """Further arguments of `plait broker`."""
    data: Path | None = None
    """Directory of durable data, with a subdirectory for each broker if there are several."""
    logs: Path | None = None
    """Directory with a file `NAME.log` of each broker's stderr. None: brokers share this process's stderr."""
    own_settings: bool = False
    """Whether brokers ignore the PLAIT_ variables of the user's environment."""
    settings: Mapping[str, str] | None = None
    """Variables of their environment. Those of the user's environment override them."""


class LocalOverlay:
    """The running brokers of a graph, by name, and the relays in its links."""

    def __init__(
        self,
        graph: Graph,
        options: BrokerOptions,
        *,
        listen: str = "127.0.0.1:0",
        http: str = "127.0.0.1:0",
        relayed: Mapping[Link, float] = MappingProxyType({}),
        both_dial: bool = True,
    ) -> None:
        """`listen` and `http` are the first broker's addresses. `relayed` names links of the graph that go
        through relays, with the delay in one direction in seconds.

        With `both_dial` each end of a link dials the other, so that the link is back as soon as either end is. Else
        the end that comes later in the graph dials, and a relayed link has a single relay.
        """
        self.graph = graph
        self.brokers: dict[str, LocalBroker] = {}
        self.relays: dict[Link, list[Relay]] = {}
        """Relays of each relayed link: the one that its first end dials, then the one that its second end dials."""
        self._options = options
        reserved = (int(http.rpartition(":")[2]),)
        self._addresses = dict(zip(graph.names, listen_addresses(listen, len(graph.names), reserved), strict=True))
        self._http = http
        self._relayed = relayed
        self._both_dial = both_dial
        self._running = AsyncExitStack()
        assert relayed.keys() <= set(graph.named_links), "relayed links are links of the graph"

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._running.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.aclose()

    def shape(self, link: Link, **changes: Any) -> None:
        """Change a relayed link in both directions, as `Relay.shape` does."""
        for relay in self.relays[link]:
            relay.shape(**changes)

    async def wait_linked(self) -> None:
        """Wait until every broker reaches all brokers and knows all links; Failure after LINKED_S."""
        try:
            async with asyncio.timeout(LINKED_S):
                while not await asyncio.to_thread(self._is_linked):  # noqa: ASYNC110 - HTTP has no notification
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            message = f"the brokers were not linked within {LINKED_S:g} s"
            raise Failure(message, detail=self._last_log_lines()) from None

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        dialled = await self._dialled_addresses()
        for number, name in enumerate(self.graph.names):
            listen = self._addresses[name]
            logs, data = self._options.logs, self._options.data
            if data is not None and len(self.graph.names) > 1:
                data /= name
            self.brokers[name] = LocalBroker(
                "--name", name, *self._options.arguments, *(word for to in dialled[name] for word in ("--link", to)),
                listen=listen, http=http_of(listen) if number else self._http,
                data=data,
                log=self._running.enter_context((logs / f"{name}.log").open("wb")) if logs else None,
                own_settings=self._options.own_settings,
                settings=self._options.settings,
            )  # fmt: skip
        self._running.push_async_callback(self._stop)
        await asyncio.gather(*(broker.start() for broker in self.brokers.values()))

    async def _dialled_addresses(self) -> dict[str, list[str]]:
        """Start the relays, and return the addresses that each broker dials."""
        dialled: dict[str, list[str]] = {name: [] for name in self.graph.names}
        for near, far in self.graph.named_links:
            for dialler, to in ((near, far), (far, near)) if self._both_dial else ((far, near),):
                address = self._addresses[to]
                if (near, far) in self._relayed:
                    from ...relay.relay import Relay

                    relay = await self._running.enter_async_context(Relay(address))
                    relay.shape(delay_s=self._relayed[near, far])
                    self.relays.setdefault((near, far), []).append(relay)
                    address = relay.listen
                dialled[dialler].append(address)
        return dialled

    async def _stop(self) -> None:
        await asyncio.gather(*(broker.stop() for broker in self.brokers.values()), return_exceptions=True)

    def _is_linked(self) -> bool:
        try:
            topologies = [get_json(f"http://{broker.http}", "/api/v1/topology") for broker in self.brokers.values()]
        except Failure:
            return False
        return all(self._is_complete(topology) for topology in topologies)

    def _is_complete(self, topology: Json) -> bool:
        reachable = {broker["id"]: broker["name"] for broker in topology["brokers"] if broker["reachable"]}
        links = {(link["from"], link["to"]) for link in topology["links"]}
        known = {(reachable[near], reachable[far]) for near, far in links if near in reachable and far in reachable}
        wanted = {pair for near, far in self.graph.named_links for pair in ((near, far), (far, near))}
        return set(reachable.values()) == set(self.graph.names) and wanted <= known

    def _last_log_lines(self) -> str:
        if (logs := self._options.logs) is None:
            return ""
        lines = {name: (logs / f"{name}.log").read_text(errors="replace").splitlines() for name in self.brokers}
        return "\n".join(f"{name}: {line}" for name, last in lines.items() for line in last[-LOG_LINES:])
