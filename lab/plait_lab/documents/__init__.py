"""`make docs`: the files of the repository that are generated from the code.

`reading` extracts texts from the sources; `sdk`, `cli`, `facts` and `protocol` are the pages of docs/reference.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from plait.commands.gen.compose_mounts import mounted_files
from plait_analytics.engines.source_reference import source_page
from plait_analytics.tables.tables_reference import page as tables_page

from .cli import cli_page
from .facts import configuration_page, errors_page, metrics_page, telemetry_page
from .protocol import wire_page
from .reading import HEAD
from .sdk import sdk_page

ROOT: Final = Path(__file__).parents[3]

COMPOSED: Final = tuple(f"broker-{number}" for number in range(1, 6))
"""The brokers of docker/compose.yaml."""


def _spark_page() -> str:
    return HEAD + source_page()


PAGES: Final = {
    "sdk": sdk_page,
    "cli": cli_page,
    "configuration": configuration_page,
    "telemetry": telemetry_page,
    "errors": errors_page,
    "wire": wire_page,
    "tables": tables_page,
    "spark": _spark_page,
}


def generated() -> dict[str, str]:
    """Return the text of each file by its path, for files that need no running process."""
    files = {f"docker/{name}": text for name, text in mounted_files(COMPOSED).items()}
    files |= {f"docs/reference/{name}.md": page() for name, page in PAGES.items()}
    return files


def generated_by_brokers() -> dict[str, str]:
    """Return the files that describe a running broker."""
    from .metric_names import metrics_of_a_broker

    with tempfile.TemporaryDirectory() as directory:
        metrics = asyncio.run(metrics_of_a_broker(Path(directory)))
    return {"docs/reference/metrics.md": metrics_page(metrics)}
