"""Faults of a deployment. Each lasts some seconds and is repaired.

The lines are those of the fault table that they represent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack

from deployment import BROKERS, Deployment

Fault = Callable[[Deployment, random.Random], str]


def kill_one(town: Deployment, chance: random.Random) -> str:
    victim = chance.choice(BROKERS)
    town.kill(victim)
    time.sleep(chance.uniform(0, 4))
    town.start(victim)
    return victim


def kill_all(town: Deployment, chance: random.Random) -> str:
    """Kill all brokers and restart them one after another. Publishers use each that they reach."""
    town.kill(*BROKERS)
    time.sleep(chance.uniform(0, 2))
    for broker in chance.sample(BROKERS, len(BROKERS)):
        town.start(broker)
        time.sleep(chance.uniform(0, 1))
    return "all brokers"


def part(town: Deployment, chance: random.Random) -> str:
    """Disconnect a broker from one network, or from all of its networks."""
    victim = chance.choice(BROKERS)
    networks = town.networks(victim)
    lost = networks if chance.random() < 0.5 else [chance.choice(networks)]
    with ExitStack() as healed:
        for network in lost:
            town.disconnect(victim, network)
            healed.callback(town.connect, victim, network)
        time.sleep(chance.uniform(1, 8))
    return f"{victim} without {len(lost)} of {len(networks)} networks"


def one_way(town: Deployment, chance: random.Random) -> str:
    """Discard all bytes of a link in one direction, while its connections stay open."""
    link, way = chance.choice(town.links()), chance.choice(["forth", "back"])
    town.shape(link, **{way: {"flow": "frozen"}})
    time.sleep(chance.uniform(1, 8))
    town.shape(link, **{way: {"flow": "open"}})
    return f"{link} {way}, as either end sees it"


def worse_links(town: Deployment, chance: random.Random) -> str:
    links = chance.sample(town.links(), 3)
    for link in links:
        town.shape(link, both={"delay_s": chance.uniform(0.01, 0.2), "jitter_s": 0.02, "loss": 0.05})
    time.sleep(chance.uniform(4, 8))
    for link in links:
        town.shape(link, both={"delay_s": 0.0, "jitter_s": 0.0, "loss": 0.0})
    return ", ".join(links)


def swizzle(town: Deployment, chance: random.Random) -> str:
    """Freeze links one after another, and release them in another order."""
    links = chance.sample(town.links(), 4)
    for link in links:
        town.shape(link, both={"flow": "frozen"})
        time.sleep(chance.uniform(0, 1))
    for link in chance.sample(links, len(links)):
        town.shape(link, both={"flow": "open"})
        time.sleep(chance.uniform(0, 1))
    return ", ".join(links)


def freeze(town: Deployment, chance: random.Random) -> str:
    """Pause a broker. Its connections stay open."""
    victim = chance.choice(BROKERS)
    town.pause(victim)
    time.sleep(chance.uniform(1, 12))
    town.resume(victim)
    return victim


def storm(town: Deployment, chance: random.Random) -> str:
    """Kill the broker of the many clients. All reconnect at once."""
    town.kill("broker-2")
    town.start("broker-2")
    return "broker-2, with its crowd"


def roll(town: Deployment, chance: random.Random) -> str:
    """Stop and restart every broker in turn."""
    for broker in chance.sample(BROKERS, 2):
        town.restart(broker)
        town.wait_ready(broker)
    return "two brokers in turn"


def key_server(town: Deployment, chance: random.Random) -> str:
    town.kill("keyserver")
    time.sleep(chance.uniform(0, 2))
    town.start("keyserver")
    return "keyserver"


FAULTS: dict[str, tuple[str, Fault]] = {
    "F1": ("kill -9 of a broker", kill_one),
    "F2": ("all brokers killed at once", kill_all),
    "F3": ("a broker cut off from its networks", part),
    "F4": ("a link silent in one direction", one_way),
    "F5": ("links slow, jittery and lossy", worse_links),
    "F6": ("links clogged and freed in another order", swizzle),
    "F8": ("a broker paused", freeze),
    "F12": ("a broker dies with a hundred clients", storm),
    "F13": ("brokers restarted in turn", roll),
    "keys": ("kill -9 of the key server", key_server),
}
