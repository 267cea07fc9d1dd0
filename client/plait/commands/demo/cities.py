"""The overlay of the demo: six broker processes, and links as slow as between the cities that they are named after.

Every link goes through relays of this process, so it can be slowed; every broker can be killed and started again.

new-york ─ chicago ─ tokyo         three cycles: after any one loss there is another path
    └───── london ─────┘ └┐
              └─ paris ─ sydney
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..brokers.local_overlay import BrokerOptions, LocalOverlay
from ..brokers.topologies import Graph

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
"""Delay of each link, in one direction."""


def city_overlay(home: Path, telemetry: Path) -> LocalOverlay:
    """Return the overlay of the demo. Its brokers keep data and logs below `home`, and record into `telemetry`."""
    arguments = ("--log-level", "warning", "--telemetry", str(telemetry))
    options = BrokerOptions(arguments=arguments, data=home, logs=home, own_settings=True)
    delays_s = {link: delay_ms / 1000 for link, delay_ms in DELAYS_MS.items()}
    return LocalOverlay(Graph.of_pairs(DELAYS_MS, CITIES), options, relayed=delays_s)
