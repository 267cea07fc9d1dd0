"""Files that the Compose files refer to: for Prometheus and Grafana, the schema of keys, examples."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from .grafana import grafana_files
from .prometheus import ScrapeTarget, prometheus_files

TOKEN_PATH: Final = "/run/plait/http-token"  # noqa: S105 - a path, no token

_TEMPLATES: Final = {
    "keys/schema.json": "schema.json",
    "examples/quotes.py": "quotes.py.in",
}


def mounted_files(brokers: Sequence[str]) -> dict[str, str]:
    """Return the files by name, for the named brokers."""
    targets = [ScrapeTarget(name, f"{name}:4681") for name in brokers]
    templates = files(__package__) / "beside"
    return {
        **{f"prometheus/{name}": text for name, text in prometheus_files(targets, TOKEN_PATH).items()},
        **{f"grafana/{name}": text for name, text in grafana_files().items()},
        **{name: (templates / source).read_text() for name, source in _TEMPLATES.items()},
    }
