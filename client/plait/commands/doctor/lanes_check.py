"""Check of the lanes in `plait doctor`: the directions of links that are full, by what each broker measures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from ..connection.addressing import find_target
from ..connection.http_api import get_object
from ..connection.http_discovery import find_http
from ..observe.listings import size_text
from ..terminal.durations import shown
from ..terminal.failures import Failure
from .checks import Finding

LISTED_MAX: Final = 3
"""Full lanes that are described. The others are only counted."""

TRIES: Final = 8
TRY_S: Final = 0.25
"""Two seconds until all brokers have reported to the one that is asked, which asks them since the first try."""


def check_lanes(url: str | None, http: str | None) -> Finding:
    """Read the links of all brokers from one of them, and report those that are full."""
    from plait_core import PlaitError

    required = url is not None or http is not None
    try:
        target = find_target(url)
        required |= target.source != "default"
        address = find_http(target, http)
        overview = get_object(address, "/api/v1/overview", target, "links")
        for _ in range(TRIES):
            if not _unmeasured(overview):
                break
            time.sleep(TRY_S)
            overview = get_object(address, "/api/v1/overview", target, "links")
    except (Failure, PlaitError) as error:
        return Finding("warn" if required else "ok", f"not checked: {error.message}", error.hint)
    return lanes_finding(overview)


def lanes_finding(overview: Mapping[str, Any]) -> Finding:
    """Report the full lanes, and what to do about them."""
    names = {id: str(broker["name"]) for id, broker in overview["brokers"].items()}
    lanes = [lane for lane in overview["links"].values() if lane.get("state") != "down"]
    full = sorted((lane for lane in lanes if lane.get("full") is True), key=lambda lane: -(lane.get("oldest_s") or 0))
    found = f"{len(lanes)} direction{'' if len(lanes) == 1 else 's'} of links"
    if unmeasured := _unmeasured(overview):
        found += f", {unmeasured} not reported"
    if not full:
        return Finding("ok", f"{found}, none full")
    described = [_described(lane, names) for lane in full[:LISTED_MAX]]
    more = len(full) - LISTED_MAX
    return Finding(
        "warn",
        f"{found}; full: {'; '.join(described)}" + (f"; and {more} more" if more > 0 else ""),
        "give it more bandwidth, add links beside it, or send less: narrower filters, smaller payloads, a shorter ttl",
    )


def _unmeasured(overview: Mapping[str, Any]) -> int:
    return sum("full" not in lane and lane.get("state") != "down" for lane in overview["links"].values())


def _described(lane: Mapping[str, Any], names: Mapping[str, str]) -> str:
    text = f"{names.get(lane['from'], lane['from'])} to {names.get(lane['to'], lane['to'])}"
    text += f" ({size_text(lane.get('pending_bytes'))} wait"
    if isinstance(oldest_s := lane.get("oldest_s"), int | float):
        text += f", the oldest for {shown(oldest_s)}"
    if isinstance(capacity := lane.get("capacity"), int | float):
        text += f"; it carries {size_text(capacity)}/s"
    return text + ")"
