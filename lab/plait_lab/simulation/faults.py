"""What can go wrong, each kind by name, and the mix of it that a seed draws.

Every fault ends by itself or is mended by `heal`; each is recorded with whether it hit something alive.
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
    """Everyone on stage."""

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
    """A middlebox forgets a connection."""
    client = cast.someone()
    connections = cast.network.of(client)
    cast.recorder.fault("reset", client.name, live=bool(connections))
    for connection in connections:
        connection.reset()


def cut(cast: Cast) -> None:
    """Nothing passes for a while, in both directions or in one."""
    client, (up, down) = cast.someone(), cast.rng.choice(((True, True), (True, False), (False, True)))
    connections = cast.network.of(client)
    cast.recorder.fault("cut" if up and down else "half cut", client.name, live=bool(connections))
    cast.network.cut(client, up=up, down=down)
    cast.after(_short_or_long(cast.rng), lambda: cast.network.heal(client))


def kill_broker(cast: Cast) -> None:
    """kill -9, and a new process soon."""
    if cast.broker.running:
        cast.broker.kill()
        cast.after(cast.rng.uniform(0.05, 3.0), lambda: start_broker(cast))


def cut_power(cast: Cast) -> None:
    """The broker's host is off for a while; nobody is told."""
    if cast.broker.running:
        cast.broker.cut_power()
        cast.after(cast.rng.uniform(0.5, 5.0), lambda: start_broker(cast))


def pause_broker(cast: Cast) -> None:
    """SIGSTOP for a while."""
    if cast.broker.running and not cast.broker.paused:
        cast.broker.pause()
        cast.after(_short_or_long(cast.rng), cast.broker.resume)


def pause_client(cast: Cast) -> None:
    """SIGSTOP of an application."""
    client = cast.someone()
    if client.running and not client.paused:
        client.pause()
        cast.after(_short_or_long(cast.rng), client.resume)


def kill_client(cast: Cast) -> None:
    """An application dies, and comes back as a new process."""
    client = cast.someone()
    if client.running:
        client.kill()
        cast.after(cast.rng.uniform(0.05, 3.0), lambda: start_client(client))


def get_stuck(cast: Cast) -> None:
    """An application that reads nothing for a while."""
    client = cast.someone()
    cast.recorder.fault("stuck", client.name, live=client.running)
    client.get_stuck(True)
    cast.after(_short_or_long(cast.rng), lambda: client.get_stuck(False))


def fill_disk(cast: Cast) -> None:
    """No space left on device."""
    terms = cast.broker.disk.terms
    cast.recorder.fault("disk full", cast.broker.name, live=cast.broker.running)
    terms.full = True
    cast.after(_short_or_long(cast.rng), lambda: setattr(terms, "full", False))


def fail_disk(cast: Cast) -> None:
    """EIO, now and then."""
    terms = cast.broker.disk.terms
    cast.recorder.fault("disk errors", cast.broker.name, live=cast.broker.running)
    terms.failing = cast.rng.choice((0.1, 0.5, 1.0))
    cast.after(_short_or_long(cast.rng), lambda: setattr(terms, "failing", 0.0))


def slow_disk(cast: Cast) -> None:
    """Every sync takes long."""
    terms = cast.broker.disk.terms
    cast.recorder.fault("slow disk", cast.broker.name, live=cast.broker.running)
    terms.slow_s = cast.rng.choice((0.05, 0.5, 5.0))
    cast.after(_short_or_long(cast.rng), lambda: setattr(terms, "slow_s", 0.0))


def rot(cast: Cast) -> None:
    """Stored records change on the disk."""
    hit = cast.broker.disk.rot(cast.rng.randint(1, 3))
    cast.recorder.fault("rot", f"{cast.broker.name}:{hit}", live=bool(hit))


def wipe_disk(cast: Cast) -> None:
    """The broker dies, and its machine comes back with an empty disk."""
    if cast.broker.running:
        cast.broker.kill()
        cast.broker.disk.wipe()
        cast.recorder.fault("wipe", cast.broker.name)
        cast.after(cast.rng.uniform(0.05, 3.0), lambda: start_broker(cast))


def set_calendar(cast: Cast) -> None:
    """Someone sets the broker's calendar, by up to an hour."""
    cast.broker.clock.calendar_s += cast.rng.uniform(-3600, 3600)
    cast.recorder.fault("calendar", cast.broker.name, live=cast.broker.running)


def garbage(cast: Cast) -> None:
    """A client sends what is no frame, before or after it was welcomed."""
    hostile = cast.hostile
    if hostile is None:
        return
    cast.recorder.fault("garbage", hostile.name, live=cast.broker.running)
    hostile.connect(hello=cast.rng.random() < 0.7)
    noise = cast.rng.randbytes(cast.rng.randint(1, 300))
    cast.after(cast.rng.uniform(0.0, 0.5), lambda: hostile.send_bytes(noise))


def start_broker(cast: Cast) -> None:
    """A new process, if there is none."""
    if not cast.broker.running:
        cast.broker.start()


def start_client(client: Application) -> None:
    if not client.running:
        client.start()


def _short_or_long(rng: Random) -> float:
    """Mostly less than it takes to be noticed, at times more than it takes to be given up."""
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
    """Mend everything, at once."""
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
