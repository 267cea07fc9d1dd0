"""Faults by name, and the scenarios that mix them.

Every fault ends by itself or by `heal`. Each is recorded with whether it affected a live process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from ..timeline import Timeline
from .applications import Application
from .network import Network
from .nodes import BrokerNode
from .raw_clients import RawClient
from .recorder import Recorder


@dataclass(slots=True)
class FaultTargets:
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

    def any_application(self) -> Application:
        return self.rng.choice(self.applications)


def reset(targets: FaultTargets) -> None:
    """Reset a client's connections, as a middlebox does."""
    client = targets.any_application()
    connections = targets.network.of(client)
    targets.recorder.fault("reset", client.name, live=bool(connections))
    for connection in connections:
        connection.reset()


def cut(targets: FaultTargets) -> None:
    """Pass nothing for a while, in both directions or in one."""
    client, (up, down) = targets.any_application(), targets.rng.choice(((True, True), (True, False), (False, True)))
    connections = targets.network.of(client)
    targets.recorder.fault("cut" if up and down else "half cut", client.name, live=bool(connections))
    targets.network.cut(client, up=up, down=down)
    targets.after(_short_or_long(targets.rng), lambda: targets.network.heal(client))


def kill_broker(targets: FaultTargets) -> None:
    """Kill the broker and start a new process soon."""
    if targets.broker.running:
        targets.broker.kill()
        targets.after(targets.rng.uniform(0.05, 3.0), lambda: start_broker(targets))


def cut_power(targets: FaultTargets) -> None:
    """Cut the power of the broker's host for a while, so that no connection is closed."""
    if targets.broker.running:
        targets.broker.cut_power()
        targets.after(targets.rng.uniform(0.5, 5.0), lambda: start_broker(targets))


def pause_broker(targets: FaultTargets) -> None:
    """Stop the broker for a while with SIGSTOP."""
    if targets.broker.running and not targets.broker.paused:
        targets.broker.pause()
        targets.after(_short_or_long(targets.rng), targets.broker.resume)


def pause_client(targets: FaultTargets) -> None:
    """Stop an application for a while with SIGSTOP."""
    client = targets.any_application()
    if client.running and not client.paused:
        client.pause()
        targets.after(_short_or_long(targets.rng), client.resume)


def kill_client(targets: FaultTargets) -> None:
    """Kill an application and start it again as a new process."""
    client = targets.any_application()
    if client.running:
        client.kill()
        targets.after(targets.rng.uniform(0.05, 3.0), lambda: start_client(client))


def stop_reading(targets: FaultTargets) -> None:
    """Let an application read nothing for a while."""
    client = targets.any_application()
    targets.recorder.fault("paused", client.name, live=client.running)
    client.pause_reading(True)
    targets.after(_short_or_long(targets.rng), lambda: client.pause_reading(False))


def fill_disk(targets: FaultTargets) -> None:
    """Fail writes with "no space left on device"."""
    terms = targets.broker.disk.terms
    targets.recorder.fault("disk full", targets.broker.name, live=targets.broker.running)
    terms.full = True
    targets.after(_short_or_long(targets.rng), lambda: setattr(terms, "full", False))


def fail_disk(targets: FaultTargets) -> None:
    """Fail syncs and reads with EIO at times."""
    terms = targets.broker.disk.terms
    targets.recorder.fault("disk errors", targets.broker.name, live=targets.broker.running)
    terms.failing = targets.rng.choice((0.1, 0.5, 1.0))
    targets.after(_short_or_long(targets.rng), lambda: setattr(terms, "failing", 0.0))


def slow_disk(targets: FaultTargets) -> None:
    """Slow every sync down."""
    terms = targets.broker.disk.terms
    targets.recorder.fault("slow disk", targets.broker.name, live=targets.broker.running)
    terms.slow_s = targets.rng.choice((0.05, 0.5, 5.0))
    targets.after(_short_or_long(targets.rng), lambda: setattr(terms, "slow_s", 0.0))


def rot(targets: FaultTargets) -> None:
    """Corrupt stored records."""
    hit = targets.broker.disk.rot(targets.rng.randint(1, 3))
    targets.recorder.fault("rot", f"{targets.broker.name}:{hit}", live=bool(hit))


def wipe_disk(targets: FaultTargets) -> None:
    """Kill the broker and start it with an empty disk."""
    if targets.broker.running:
        targets.broker.kill()
        targets.broker.disk.wipe()
        targets.recorder.fault("wipe", targets.broker.name)
        targets.after(targets.rng.uniform(0.05, 3.0), lambda: start_broker(targets))


def set_calendar(targets: FaultTargets) -> None:
    """Change the broker's calendar by up to an hour."""
    targets.broker.clock.calendar_s += targets.rng.uniform(-3600, 3600)
    targets.recorder.fault("calendar", targets.broker.name, live=targets.broker.running)


def garbage(targets: FaultTargets) -> None:
    """Send bytes that are no frame, before or after the handshake."""
    hostile = targets.hostile
    if hostile is None:
        return
    targets.recorder.fault("garbage", hostile.name, live=targets.broker.running)
    hostile.connect(hello=targets.rng.random() < 0.7)
    noise = targets.rng.randbytes(targets.rng.randint(1, 300))
    targets.after(targets.rng.uniform(0.0, 0.5), lambda: hostile.send_bytes(noise))


def start_broker(targets: FaultTargets) -> None:
    """Start a new process, if there is none."""
    if not targets.broker.running:
        targets.broker.start()


def start_client(client: Application) -> None:
    if not client.running:
        client.start()


def _short_or_long(rng: Random) -> float:
    """Draw a duration: mostly below the timeouts, sometimes beyond them."""
    return rng.choice((rng.uniform(0.01, 0.3), rng.uniform(0.3, 2.0), rng.uniform(2.0, 8.0)))


FAULTS: Final[dict[str, Callable[[FaultTargets], None]]] = {
    "reset": reset,
    "cut": cut,
    "kill_broker": kill_broker,
    "cut_power": cut_power,
    "pause_broker": pause_broker,
    "pause_client": pause_client,
    "kill_client": kill_client,
    "stop_reading": stop_reading,
    "fill_disk": fill_disk,
    "fail_disk": fail_disk,
    "slow_disk": slow_disk,
    "rot": rot,
    "set_calendar": set_calendar,
    "garbage": garbage,
    "wipe_disk": wipe_disk,
}

SCENARIOS: Final[dict[str, tuple[str, ...]]] = {
    "any": tuple(
        name for name in FAULTS if name != "wipe_disk"
    ),  # a wiped disk explains many losses, so it has its own scenario
    "calm": (),
    "network": ("reset", "cut"),
    "crashes": ("kill_broker", "cut_power", "kill_client"),
    "disk": ("fill_disk", "fail_disk", "slow_disk", "kill_broker", "cut_power"),
    "lost log": ("wipe_disk", "kill_client", "kill_broker", "cut"),
    "durables": ("kill_client", "kill_client", "reset", "pause_client", "kill_broker", "fill_disk", "stop_reading"),
    "slow": ("stop_reading", "pause_client", "pause_broker"),
}
"""The kinds of fault that a scenario draws from."""


def heal(targets: FaultTargets) -> None:
    """End all faults at once."""
    targets.recorder.note("HEAL")
    terms = targets.broker.disk.terms
    terms.full, terms.failing, terms.slow_s = False, 0.0, 0.0
    if targets.broker.paused:
        targets.broker.resume()
    start_broker(targets)
    for client in targets.applications:
        targets.network.heal(client)
        if client.paused:
            client.resume()
        start_client(client)
        client.use_fast_path()
