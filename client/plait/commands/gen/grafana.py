"""`plait gen grafana`: dashboards over the metrics in Prometheus, and their provisioning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

from .dashboards import DASHBOARDS
from .panels import dashboard_json
from .writing import write_files


@click.command(epilog="\b\nExample: plait gen grafana --prometheus http://prometheus:9090 --output grafana")
@click.option(
    "--prometheus", metavar="URL", default="http://prometheus:9090", show_default=True,
    help="Address at which Grafana reaches Prometheus.",
)  # fmt: skip
@click.option(
    "--dashboards", metavar="DIR", default="/etc/grafana/dashboards", show_default=True,
    help="Path at which Grafana finds the generated dashboards/.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("grafana"), show_default=True,
    help="The directory to write to.",
)  # fmt: skip
@click.option("--replace", is_flag=True, help="Overwrite existing files.")
def grafana(prometheus: str, dashboards: str, output: Path, replace: bool) -> None:
    """Generate dashboards for Grafana, and their provisioning.

    Mount provisioning/ at /etc/grafana/provisioning and dashboards/ at the path given by --dashboards.
    """
    write_files(output, grafana_files(prometheus, dashboards), replace=replace)


def grafana_files(
    prometheus: str = "http://prometheus:9090", dashboards: str = "/etc/grafana/dashboards"
) -> dict[str, str]:
    """Return the files by name."""
    return {
        "provisioning/datasources/plait.yml": _SOURCE.format(url=json.dumps(prometheus)),
        "provisioning/dashboards/plait.yml": _PROVIDER.format(path=json.dumps(dashboards)),
        **{f"dashboards/{dashboard.name}.json": dashboard_json(dashboard) for dashboard in DASHBOARDS},
    }


_SOURCE: Final = """# Written by `plait gen grafana`.
apiVersion: 1
datasources:
  - name: Prometheus
    uid: plait-prometheus
    type: prometheus
    access: proxy
    url: {url}
    isDefault: true
    jsonData: {{timeInterval: 5s}}
"""

_PROVIDER: Final = """# Written by `plait gen grafana`.
apiVersion: 1
providers:
  - name: Plait
    folder: Plait
    type: file
    options: {{path: {path}}}
"""
