"""Link-state databases built from links."""

from __future__ import annotations

from plait_broker.overlay.topology.link_state import LinkStateDatabase
from plait_core.wire.frame_types.overlay_frames import LinkState


def linked(links: dict[tuple[int, int], int]) -> LinkStateDatabase:
    """Return a link-state database with equal delays in both directions."""
    delays: dict[int, dict[int, int]] = {}
    for (near, far), delay_us in links.items():
        delays.setdefault(near, {})[far] = delay_us
        delays.setdefault(far, {})[near] = delay_us
    map = LinkStateDatabase()
    for broker, to in delays.items():
        map.put(LinkState(broker, 1, f"b{broker}", tuple(to), tuple(to.values())))
    return map
