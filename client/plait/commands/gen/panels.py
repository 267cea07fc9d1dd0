"""Panels and dashboards, and their JSON for Grafana."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from plait_core.values import Json

WIDTH: Final = 24
"""Columns of Grafana's grid."""

SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `queries` has each query with the legend of its lines."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    says: str = ""
    width: int = 8
    height: int = 8
    bad_from: float | None = None
    """Value from which a stat is red."""
    bad_below: float | None = None
    """Value below which a stat is red."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page of panels, from left to right."""

    name: str
    title: str
    says: str
    panels: tuple[Panel, ...] = field(default_factory=tuple)


def dashboard_json(dashboard: Dashboard) -> str:
    """Return a dashboard as Grafana's JSON."""
    panels, x, y, tallest = [], 0, 0, 0
    for number, panel in enumerate(dashboard.panels, 1):
        if x + panel.width > WIDTH:
            x, y, tallest = 0, y + tallest, 0
        panels.append(_panel(panel, number, x, y))
        x, tallest = x + panel.width, max(tallest, panel.height)
    page = {
        "uid": f"plait-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.says,
        "tags": ["plait"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "graphTooltip": 1,
        "links": [{"type": "dashboards", "tags": ["plait"], "title": "Plait", "asDropdown": True, "keepTime": True}],
        "templating": {"list": _VARIABLES},
        "panels": panels,
    }
    return json.dumps(page, indent=1) + "\n"


_VARIABLES: Final[list[Json]] = [
    {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 2},
    {
        "name": "broker",
        "label": "Broker",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(plait_build_info, broker)",
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    },
]


def _panel(panel: Panel, number: int, x: int, y: int) -> Json:
    return {
        "id": number,
        "title": panel.title,
        "description": panel.says,
        "type": panel.kind,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "targets": [_target(panel, *query, letter) for query, letter in zip(panel.queries, "ABCDEFGH", strict=False)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS.get(panel.kind, {}),
    }


def _target(panel: Panel, query: str, legend: str, letter: str) -> Json:
    heat = panel.kind == "heatmap"
    return {
        "refId": letter,
        "datasource": SOURCE,
        "expr": query,
        "legendFormat": legend,
        "format": "heatmap" if heat else "time_series",
        "instant": panel.kind == "stat",
        "range": panel.kind != "stat",
    }


def _defaults(panel: Panel) -> Json:
    found: Json = {"unit": panel.unit}
    if panel.kind == "timeseries":
        found |= {"min": 0, "custom": {"lineWidth": 1, "fillOpacity": 8, "showPoints": "never", "spanNulls": False}}
    if panel.bad_from is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.bad_from}]
        found |= {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.bad_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.bad_below}]
        found |= {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}
    return found


_OPTIONS: Final[dict[str, Json]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"},
    "heatmap": {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Viridis", "steps": 64},
        "yAxis": {"unit": "s"},
        "cellGap": 0,
    },
    "state-timeline": {"mergeValues": True, "showValue": "never", "rowHeight": 0.8},
}
