"""`plait doctor`: checks this machine and the overlay. The checks are in the modules beside this one."""

from __future__ import annotations

import os
from typing import Final

import click

from ..connection.addressing import url_option
from ..connection.http_discovery import http_option
from ..terminal.failures import FAILED
from ..terminal.output import json_option, print_json, printable

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(epilog="\b\nExample: plait doctor --json")
@http_option
@url_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, http: str | None, url: str | None, as_json: bool) -> None:
    """Check this machine, and the overlay for single points of failure and full links.

    If a broker answers, names the links and brokers whose loss would split its overlay, links that would prevent it,
    and directions of links that are given more than they carry. In a container, also checks for common mistakes with
    networks and volumes. Each line has a state, ok, warn or fail, and a hint. Exit code 1 if any state is fail.
    """
    from .checks import CHECKS, check_target
    from .container_checks import container_checks, in_container
    from .lanes_check import check_lanes
    from .overlay_check import check_overlay

    checks = dict(CHECKS)
    checks["broker"] = lambda: check_target(url)
    checks["overlay"] = lambda: check_overlay(url, http)
    checks["lanes"] = lambda: check_lanes(url, http)
    if in_container():
        checks |= container_checks(os.environ, url)
    failed = False
    for name, check in checks.items():
        finding = check()
        failed |= finding.state == "fail"
        if as_json:
            print_json({"check": name, "state": finding.state, "found": finding.found, "hint": finding.hint})
            continue
        state = click.style(f"{finding.state:<4}", fg=_COLOURS[finding.state])
        click.echo(f"{state}  {name:<10}  {printable(finding.found)}")
        if finding.hint and finding.state != "ok":
            click.echo(f"{'':18}{printable(finding.hint)}")
    if failed:
        ctx.exit(FAILED)
