"""`make docs`: every file of the repository that is written by a program, so that it says what the code says.

A test compares them with what lies there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from plait.commands.gen.grafana import grafana_files
from plait.commands.gen.prometheus import Target, prometheus_files

ROOT: Final = Path(__file__).parent.parent.parent

COMPOSED: Final = tuple(f"broker-{number}" for number in range(1, 6))
"""The brokers of docker/compose.yaml."""


def generated() -> dict[str, str]:
    """Each file's text, by its path in the repository."""
    targets = [Target(name, f"{name}:4681") for name in COMPOSED]
    prometheus = prometheus_files(targets, "/run/plait/http-token")
    files = {f"docker/prometheus/{name}": text for name, text in prometheus.items()}
    files |= {f"docker/grafana/{name}": text for name, text in grafana_files().items()}
    return files


def main() -> None:
    """Write what is not as it should be, and say so."""
    for path, text in generated().items():
        place = ROOT / path
        if not place.exists() or place.read_text() != text:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
