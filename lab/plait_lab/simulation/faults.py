"""Faults by name, and the scenarios that mix them.

Every fault ends by itself or by `heal`. Each is recorded with whether it affected a live process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from .applications import Application
from .network import Network
from .nodes import BrokerNode
from .raw_clients import RawClient
from .recorder import Recorder
from .timeline import Timeline


@dataclass(slots=True)
class Cast:
    """All nodes of a world."""

    timeline: Timeline
    network: Network
    recorder: Recorder
    broker: BrokerNode
    applications: list[Application]
    rng: Random
    hostile: RawClient | None = None

    def after(self, delay_s: float, mend: Callable[[], None]) -> None:
        self.timeline.after(delay_s, mend)

    def someone(self) -> Application:
        return self.rng.choice(self.applications)


def reset(cast: Cast) -> None:
    """Reset a client's connections, as a middlebox does."""
    client = cast.someone()
    connections = cast.network.of(client)
    cast.recorder.fault("reset", client.name, live=bool(connections))
    for connection in connections:
        connection.reset()


def cut(cast: Cast) -> None:
    """Pass nothing for a while, in both directions or in one."""
    client, (up, down) = cast.someone(), cast.rng.choice(((True, True), (True, False), (False, True)))
    connections = cast.network.of(client)
    cast.recorder.fault("cut" if up and down else "half cut", client.name, live=bool(connections))
    cast.network.cut(client, up=up, down=down)
    cast.after(_short_or_long(cast.rng), lambda: cast.network.heal(client))


def kill_broker(cast: Cast) -> None:
    """Kill the broker and start a new process soon."""
    if cast.broker.running:
        cast.broker.kill()
        cast.after(cast.rng.uniform(0.05, 3.0), lambda: start_broker(cast))


def cut_power(cast: Cast) -> None:
    """Cut the power of the broker's host for a while, so that no connection is closed."""
    if cast.broker.running:
        cast.broker.cut_power()
        cast.after(cast.rng.uniform(0.5, 5.0), lambda: start_broker(cast))


def pause_broker(cast: Cast) -> None:
    """Stop the broker for a while with SIGSTOP."""
    if cast.broker.running and not cast.broker.paused:
        cast.broker.pause()
        cast.after(_short_or_long(cast.rng), cast.broker.resume)


def pause_client(cast: Cast) -> None:
    """Stop an application for a while with SIGSTOP."""
    client = cast.someone()
    if client.running and not client.paused:
        client.pause()
        cast.after(_short_or_long(cast.rng), client.resume)


def kill_client(cast: Cast) -> None:
    """Kill an application and start it again as a new process."""
    client = cast.someone()
    if client.running:
        client.kill()
        cast.after(cast.rng.uniform(0.05, 3.0), lambda: start_client(client))


def get_stuck(cast: Cast) -> None:
    """Let an application read nothing for a while."""
    client = cast.someone()
    cast.recorder.fault("stuck", client.name, live=client.running)
    client.get_stuck(True)
    cast.after(_short_or_long(cast.rng), lambda: client.get_stuck(False))


def fill_disk(cast: Cast) -> None:
    """Fail writes with "no space left on device"."""
    terms = cast.broker.disk.terms
    cast.recorder.fault("disk full", cast.broker.name, live=cast.broker.running)
    terms.full = True
    cast.after(_short_or_long(cast.rng), lambda: setattr(terms, "full", False))


def fail_disk(cast: Cast) -> None:
    """Fail syncs and reads with EIO at times."""
    terms = cast.broker.disk.terms
    cast.recorder.fault("disk errors", cast.broker.name, live=cast.broker.running)
    terms.failing = cast.rng.choice((0.1, 0.5, 1.0))
    cast.after(_short_or_long(cast.rng), lambda: setattr(terms, "failing", 0.0))


def slow_disk(cast: Cast) -> None:
    """Slow every sync down."""
    terms = cast.broker.disk.terms
    cast.recorder.fault("slow disk", cast.broker.name, live=cast.broker.running)
    terms.slow_s = cast.rng.choice((0.05, 0.5, 5.0))
    cast.after(_short_or_long(cast.rng), lambda: setattr(terms, "slow_s", 0.0))


def rot(cast: Cast) -> None:
    """Corrupt stored records."""
    hit = cast.broker.disk.rot(cast.rng.randint(1, 3))
    cast.recorder.fault("rot", f"{cast.broker.name}:{hit}", live=bool(hit))


def wipe_disk(cast: Cast) -> None:
    """Kill the broker and start it with an empty disk."""
    if cast.broker.running:
        cast.broker.kill()
        cast.broker.disk.wipe()
        cast.recorder.fault("wipe", cast.broker.name)
        cast.after(cast.rng.uniform(0.05, 3.0), lambda: start_broker(cast))


def set_calendar(cast: Cast) -> None:
    """Change the broker's calendar by up to an hour."""
    cast.broker.clock.calendar_s += cast.rng.uniform(-3600, 3600)
    cast.recorder.fault("calendar", cast.broker.name, live=cast.broker.running)


def garbage(cast: Cast) -> None:
    """Send bytes that are no frame, before or after the handshake."""
    hostile = cast.hostile
    if hostile is None:
        return
    cast.recorder.fault("garbage", hostile.name, live=cast.broker.running)
    hostile.connect(hello=cast.rng.random() < 0.7)
    noise = cast.rng.randbytes(cast.rng.randint(1, 300))
    cast.after(cast.rng.uniform(0.0, 0.5), lambda: hostile.send_bytes(noise))


def start_broker(cast: Cast) -> None:
    """Start a new process, if there is none."""
    if not cast.broker.running:
        cast.broker.start()


def start_client(client: Application) -> None:
    if not client.running:
        client.start()


def _short_or_long(rng: Random) -> float:
    """Draw a duration: mostly below the timeouts, sometimes beyond them."""
    return rng.choice((rng.uniform(0.01, 0.3), rng.uniform(0.3, 2.0), rng.uniform(2.0, 8.0)))


FAULTS: Final[dict[str, Callable[[Cast], None]]] = {
    "reset": reset,
    "cut": cut,
    "kill_broker": kill_broker,
    "cut_power": cut_power,
    "pause_broker": pause_broker,
    "pause_client": pause_client,
    "kill_client": kill_client,
    "get_stuck": get_stuck,
    "fill_disk": fill_disk,
    "fail_disk": fail_disk,
    "slow_disk": slow_disk,
    "rot": rot,
    "set_calendar": set_calendar,
    "garbage": garbage,
    "wipe_disk": wipe_disk,
}

SCENARIOS: Final[dict[str, tuple[str, ...]]] = {
    "any": tuple(name for name in FAULTS if name != "wipe_disk"),  # which excuses much: it has a scenario of its own
    "calm": (),
    "network": ("reset", "cut"),
    "crashes": ("kill_broker", "cut_power", "kill_client"),
    "disk": ("fill_disk", "fail_disk", "slow_disk", "kill_broker", "cut_power"),
    "lost log": ("wipe_disk", "kill_client", "kill_broker", "cut"),
    "slow": ("get_stuck", "pause_client", "pause_broker"),
}
"""The kinds of fault that a scenario draws from."""


def heal(cast: Cast) -> None:
    """End all faults at once."""
    cast.recorder.note("HEAL")
    terms = cast.broker.disk.terms
    terms.full, terms.failing, terms.slow_s = False, 0.0, 0.0
    if cast.broker.paused:
        cast.broker.resume()
    start_broker(cast)
    for client in cast.applications:
        cast.network.heal(client)
        if client.paused:
            client.resume()
        start_client(client)
        client.hurry()
