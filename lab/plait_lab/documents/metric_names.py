"""The metrics of a broker that has a log, telemetry and a neighbour."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from plait_broker.server.config.configuration import parse_configuration
from plait_broker.server.server import BrokerServer

_ANYWHERE = "127.0.0.1:0"
_PATIENCE_S = 30.0


class MetricFamily(NamedTuple):
    """A metric, as the page describes it."""

    name: str
    kind: str
    says: str
    labels: tuple[str, ...]
    samples: tuple[str, ...]
    """Names of its series."""


async def metrics_of_a_broker(directory: Path) -> list[MetricFamily]:
    """Return all metrics in the order of the page."""
    near = {"name": "near", "listen": _ANYWHERE, "http": "off"}
    async with BrokerServer(parse_configuration(b"", options=_given(near))) as neighbour:
        far = {
            "name": "far",
            "listen": _ANYWHERE,
            "http": _ANYWHERE,
            "overlay.links": [neighbour.listen],
            "data": str(directory / "data"),
            "telemetry.directory": str(directory / "telemetry"),
        }
        farther = BrokerServer(parse_configuration(b"", options=_given(far)))
        async with farther as server, asyncio.timeout(_PATIENCE_S):
            while "plait_link_up{" not in (page := await asyncio.to_thread(_page, server.http)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    return list(_families(page))


def _given(options: Mapping[str, object]) -> dict[str, tuple[str, object]]:
    return {key: (key, value) for key, value in options.items()}


def _page(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=_PATIENCE_S) as answer:
        text: str = answer.read().decode()
    return text


def _families(page: str) -> Iterator[MetricFamily]:
    for part in page.split("# HELP ")[1:]:
        head, kind, *series = part.splitlines()
        name, _, says = head.partition(" ")
        labels = dict.fromkeys(label for label in re.findall(r'[{,](\w+)="', "\n".join(series)) if label != "le")
        samples = dict.fromkeys(match[0] for line in series if (match := re.match(r"\w+", line)))
        yield MetricFamily(name, kind.rpartition(" ")[2], says, tuple(labels), tuple(samples))
