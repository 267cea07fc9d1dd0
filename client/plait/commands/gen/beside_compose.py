"""What Compose files refer to beside them: for Prometheus and Grafana, a schema of keys, examples."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from .grafana import grafana_files
from .prometheus import ScrapeTarget, prometheus_files

TOKEN_PLACE: Final = "/run/plait/http-token"  # noqa: S105 - where it is, not what it is

_KEPT: Final = {
    "keys/schema.json": "schema.json",
    "examples/quotes.py": "quotes.py.in",
}


def beside_compose(brokers: Sequence[str]) -> dict[str, str]:
    """The files, by name, for brokers of these names."""
    targets = [ScrapeTarget(name, f"{name}:4681") for name in brokers]
    kept = files(__package__) / "beside"
    return {
        **{f"prometheus/{name}": text for name, text in prometheus_files(targets, TOKEN_PLACE).items()},
        **{f"grafana/{name}": text for name, text in grafana_files().items()},
        **{name: (kept / source).read_text() for name, source in _KEPT.items()},
    }
