"""Incidents for the live page, found by comparing the shown state with the previous one.

They are brokers and links that come or go, paths that change, bursts of drops, slow consumers, and refused clients.
"""

from __future__ import annotations

from typing import Final

from plait_core.values import Json

KEPT_MAX: Final = 100

BURST_S: Final = 1.0
"""Events dropped a second that make a burst, if they are three times the baseline rate."""

REPEAT_S: Final = 10.0
"""Time before the same incident of the same broker or link is shown again."""

SMOOTHING: Final = 0.1

_UP: Final = {"ready", "up"}


class Incidents:
    """The latest incidents."""

    def __init__(self) -> None:
        self.shown: dict[str, Json] = {}
        self._count = 0
        self._brokers: dict[str, Json] = {}
        self._states: dict[str, str] = {}
        self._baseline: dict[str, float] = {}
        self._added_at: dict[tuple[str, str], float] = {}

    def update(self, wall_s: float, brokers: dict[str, Json], links: dict[str, Json]) -> None:
        """Compare the state with the previous one."""
        for id, facts in brokers.items():
            before = self._brokers.get(id)
            if before is None:
                if self._brokers:
                    self._add(wall_s, "join", id, f"{facts['name']} joined")
            else:
                self._compare(wall_s, id, before, facts)
        self._brokers = brokers
        self._compare_links(wall_s, brokers, links)

    def _compare(self, wall_s: float, id: str, before: Json, after: Json) -> None:
        name, status = after["name"], after["status"]
        if status != before["status"]:
            kind = "join" if status in _UP else "drain" if status == "draining" else "leave"
            text = "is back" if status in _UP else "is draining" if status == "draining" else f"is {status}"
            self._add(wall_s, kind, id, f"{name} {text}", repeat_s=0)
        rerouted = after.get("rerouted", 0) - before.get("rerouted", 0)
        if rerouted > 0 and "rerouted" in before:
            destinations = "a destination" if rerouted == 1 else f"{rerouted:.0f} destinations"
            self._add(wall_s, "reroute", id, f"{name} moved {destinations} to another path")
        slow = after.get("slow_consumers", 0)
        if slow > before.get("slow_consumers", 0):
            self._add(wall_s, "slow", id, f"{slow:.0f} slow consumer{'s' * (slow != 1)} at {name}")
        refused = sum(after.get("refused", {}).values())
        if "refused" in before and refused > sum(before["refused"].values()):
            codes = [c for c, n in after["refused"].items() if n > before["refused"].get(c, 0)]
            self._add(wall_s, "security", id, f"{name} refused a caller: {', '.join(codes[:3])}")
        self._compare_drops(wall_s, id, before, after)

    def _compare_drops(self, wall_s: float, id: str, before: Json, after: Json) -> None:
        rate = after.get("dropped_s", 0)
        baseline = self._baseline.get(id, 0.0)
        if after.get("lost", 0) > before.get("lost", 0) and rate > max(BURST_S, 3 * baseline):
            worst = max(after.get("reasons", {"": 0}).items(), key=lambda one: (one[0] != "unmatched", one[1]))[0]
            self._add(wall_s, "drops", id, f"{after['name']} drops {rate:g} a second: {worst}")
        self._baseline[id] = baseline + SMOOTHING * (rate - baseline)

    def _compare_links(self, wall_s: float, brokers: dict[str, Json], links: dict[str, Json]) -> None:
        for key, link in links.items():
            state, before = link["state"], self._states.get(key)
            near, far = (brokers.get(link[end], {}).get("name", link[end]) for end in ("from", "to"))
            removed = [id for id in (link["from"], link["to"]) if brokers.get(id, {}).get("status") == "gone"]
            if state != before and not removed and (before is not None or self._states) and link["from"] < link["to"]:
                kind = {"up": "link up", "disputed": "security"}.get(state, "link down")
                self._add(wall_s, kind, key, f"{near} – {far} is {state}", repeat_s=0)
        self._states = {key: link["state"] for key, link in links.items()}

    def _add(self, wall_s: float, kind: str, subject: str, text: str, *, repeat_s: float = REPEAT_S) -> None:
        if wall_s - self._added_at.get((kind, subject), 0) < repeat_s:
            return
        self._added_at[kind, subject] = wall_s
        if len(self._added_at) > 10 * KEPT_MAX:
            del self._added_at[next(iter(self._added_at))]
        self._count += 1
        self.shown = {
            **self.shown,
            str(self._count): {"at": round(wall_s, 1), "kind": kind, "of": subject, "text": text},
        }
        if len(self.shown) > KEPT_MAX:
            del self.shown[next(iter(self.shown))]
