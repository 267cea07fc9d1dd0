"""`plait gen prometheus`: scrape configuration, recording rules and alerts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final, NamedTuple

import click

from ..terminal.failures import WrongUse
from .rules import alerting_rules, recording_rules
from .writing import write_files

RUNBOOKS: Final = "docs/reference/alerts.md"
_TARGET: Final = re.compile(r"(?:([A-Za-z0-9._-]{1,64})=)?([^\s=/]+:\d{1,5})\Z")


class ScrapeTarget(NamedTuple):
    """A broker's HTTP side, and its label."""

    broker: str
    address: str


@click.command(epilog="\b\nExample: plait gen prometheus --target north=10.0.0.1:4681 --output monitoring")
@click.option(
    "--target", "targets", multiple=True, metavar="[NAME=]HOST:PORT", default=["broker=127.0.0.1:4681"],
    show_default=True, help="A broker's HTTP side; NAME is its label `broker`. Repeatable.",
)  # fmt: skip
@click.option("--token-file", metavar="PATH", help="File from which Prometheus reads the brokers' http_token.")
@click.option("--tls", is_flag=True, help="The brokers' HTTP side uses TLS.")
@click.option("--runbooks", metavar="URL", default=RUNBOOKS, show_default=True, help="The page that alerts link to.")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("prometheus"), show_default=True,
    help="The directory to write to.",
)  # fmt: skip
@click.option("--replace", is_flag=True, help="Overwrite existing files.")
def prometheus(
    targets: tuple[str, ...], token_file: str | None, tls: bool, runbooks: str, output: Path, replace: bool
) -> None:
    """Generate a configuration for Prometheus, with rules and alerts."""
    files = prometheus_files([_target(text) for text in targets], token_file or "", tls=tls, runbooks=runbooks)
    write_files(output, files, replace=replace)


def prometheus_files(
    targets: list[ScrapeTarget], token_file: str = "", *, tls: bool = False, runbooks: str = RUNBOOKS
) -> dict[str, str]:
    """Return the files by name."""
    scheme = "\n    scheme: https" if tls else ""
    token = f"\n    authorization: {{credentials_file: {json.dumps(token_file)}}}" if token_file else ""
    places = "\n".join(
        f"      - targets: [{json.dumps(target.address)}]\n        labels: {{broker: {json.dumps(target.broker)}}}"
        for target in targets
    )
    return {
        "prometheus.yml": _CONFIGURATION.format(scheme=scheme, token=token, places=places),
        "rules.yml": recording_rules(),
        "alerts.yml": alerting_rules(runbooks),
    }


def _target(text: str) -> ScrapeTarget:
    found = _TARGET.match(text)
    if found is None:
        raise WrongUse(f"--target {text[:80]!r} is no address", hint="--target north=10.0.0.1:4681")
    return ScrapeTarget(found[1] or found[2], found[2])


_CONFIGURATION: Final = """# Written by `plait gen prometheus`.
global:
  scrape_interval: 5s
  evaluation_interval: 5s

rule_files:
  - rules.yml
  - alerts.yml

scrape_configs:
  - job_name: plait{scheme}{token}
    static_configs:
{places}
"""
