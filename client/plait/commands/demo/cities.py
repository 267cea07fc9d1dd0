"""The overlay of the demo: six brokers as processes, and links as slow as between the cities they are named after,
through relays in this process. Any broker can be killed and started again, any link be slowed.

new-york ─ chicago ─ tokyo         three cycles: whatever is slowed or killed, there is another way
    └───── london ─────┘ └┐
              └─ paris ─ sydney
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ...relay.relay import Relay
from ..brokers.local_broker import LocalBroker
from ..connection.http_api import get_json
from ..terminal.failures import Failure

CITIES: Final = ("new-york", "chicago", "london", "paris", "sydney", "tokyo")

DELAYS_MS: Final[dict[tuple[str, str], float]] = {
    ("new-york", "chicago"): 3.0,
    ("chicago", "tokyo"): 5.0,
    ("new-york", "london"): 6.0,
    ("london", "tokyo"): 8.0,
    ("london", "paris"): 2.0,
    ("paris", "sydney"): 9.0,
    ("sydney", "tokyo"): 6.0,
}
"""Of each link, in one direction."""

WHOLE_S: Final = 20.0
"""For all brokers to know each other: they do within two seconds of the last one's start."""


class Cities:
    """The brokers and the links, while the demo runs."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.telemetry = home / "telemetry"
        self._places = _free_places()
        self._running = AsyncExitStack()
        self._relays: dict[tuple[str, str], list[Relay]] = {}
        self._brokers: dict[str, LocalBroker] = {}

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

    def url(self, city: str) -> str:
        return self._brokers[city].url

    def slow(self, near: str, far: str, delay_s: float) -> None:
        """A link takes so long from now on, in both directions."""
        for relay in self._relays[near, far]:
            relay.shape(delay_s=delay_s)

    async def kill(self, city: str) -> None:
        """kill -9."""
        await self._brokers[city].kill()

    async def start_again(self, city: str) -> None:
        """In the same place, with the same data."""
        await self._brokers[city].start()
        await self.whole()

    async def whole(self) -> None:
        """Wait until the first broker has all others and all links on its map; Failure when that takes too long."""
        try:
            async with asyncio.timeout(WHOLE_S):
                while not await asyncio.to_thread(self._is_whole):  # noqa: ASYNC110 - HTTP tells nobody
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise Failure(f"the brokers did not find each other within {WHOLE_S:g} s", detail=self._said()) from None

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._running.push_async_callback(self._stop)
        for (near, far), delay_ms in DELAYS_MS.items():
            ends = [Relay(self._places[to]) for to in (far, near)]  # both dial, so that either may start anew
            for relay in ends:
                relay.shape(delay_s=delay_ms / 1000)
                await self._running.enter_async_context(relay)
            self._relays[near, far] = ends
        for city in CITIES:
            log = self._running.enter_context((self._home / f"{city}.log").open("wb"))
            self._brokers[city] = LocalBroker(
                "--name", city, "--log-level", "warning", "--telemetry", str(self.telemetry), *self._links(city),
                listen=self._places[city], data=self._home / city, log=log, own_settings=True,
            )  # fmt: skip
        self._running.push_async_callback(self._stop)  # before their links and logs go
        await asyncio.gather(*(broker.start() for broker in self._brokers.values()))
        await self.whole()

    async def _stop(self) -> None:
        await asyncio.gather(*(broker.stop() for broker in self._brokers.values()), return_exceptions=True)

    def _links(self, city: str) -> list[str]:
        options: list[str] = []
        for (near, far), (forth, back) in self._relays.items():
            if city in (near, far):
                options += ["--link", (forth if city == near else back).listen]
        return options

    def _is_whole(self) -> bool:
        try:
            topology: dict[str, Any] = get_json(f"http://{self._brokers[CITIES[0]].http}", "/api/v1/topology")
        except Failure:
            return False
        reached = {broker["name"] for broker in topology["brokers"] if broker["reachable"]}
        ids = {broker["id"] for broker in topology["brokers"] if broker["reachable"]}
        links = sum(link["from"] in ids and link["to"] in ids for link in topology["links"])
        return reached == set(CITIES) and links >= 2 * len(DELAYS_MS)

    def _said(self) -> str:
        """The last words of each broker."""
        said = []
        for city in CITIES:
            lines = (self._home / f"{city}.log").read_text(errors="replace").splitlines()
            said += [f"{city}: {line}" for line in lines[-2:]]
        return "\n".join(said)


def _free_places() -> dict[str, str]:
    """An address for each broker that nobody listens on now: the others must know it before it is taken."""
    probes = {city: socket.socket() for city in CITIES}
    try:
        for probe in probes.values():
            probe.bind(("127.0.0.1", 0))
        return {city: f"127.0.0.1:{probe.getsockname()[1]}" for city, probe in probes.items()}
    finally:
        for probe in probes.values():
            probe.close()
