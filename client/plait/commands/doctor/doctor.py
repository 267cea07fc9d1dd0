"""`plait doctor`: checks what Plait needs of this machine. The checks are in `checks.py`."""

from __future__ import annotations

import os
from typing import Final

import click

from ..terminal.failures import FAILED
from ..terminal.output import json_option, print_json, printable

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(epilog="\b\nExample: plait doctor --json")
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check what Plait needs of this machine.

    In a container it also looks for what usually goes wrong there with networks and volumes. Each line says ok, warn or
    fail, and what to do about it; exit code 1 if any says fail.
    """
    from .checks import CHECKS
    from .container_checks import container_checks, in_container

    failed = False
    for name, check in (CHECKS | (container_checks(os.environ) if in_container() else {})).items():
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
