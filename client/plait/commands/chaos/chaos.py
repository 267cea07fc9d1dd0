"""`plait chaos`: links that are slow, lossy, cut or frozen; brokers that die or stop. For trying things out."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from typing import Any

import click

from ..terminal.durations import shown
from ..terminal.failures import WrongUse
from ..terminal.output import json_option, print_json, printable
from .shapes import changes_asked, shape_options


@click.group(epilog="\b\nExample: plait chaos relay --listen 127.0.0.1:4690 --to 127.0.0.1:4680 --delay 20ms")
def chaos() -> None:
    """Shape links and harm brokers, to see what becomes of events.

    A relay stands between two brokers, or a client and a broker: who dials it speaks to --to over a worse link.
    """


@chaos.command(
    epilog="\b\nExample: plait chaos relay --listen 127.0.0.1:4690 --to 127.0.0.1:4680 --delay 20ms --loss 1%"
)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Where to be dialled.")
@click.option("--to", metavar="HOST:PORT", required=True, help="Whom to dial then.")
@click.option("--control", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="For set and show.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of jitter and loss.")
@shape_options
def relay(listen: str, to: str, control: str, seed: int, **said: Any) -> None:
    """Run a shaped link until Ctrl-C.

    Prints one line `ready listen=H:P to=H:P control=H:P` when it serves. Loss delays, since TCP sends again.
    """
    from ..terminal.running import run

    run(_relay(listen, to, control, seed, changes_asked(said)))


@chaos.command(epilog="\b\nExample: plait chaos set 127.0.0.1:4691 --delay 200ms --back loss=5%")
@click.argument("control")
@shape_options
@click.option("--cut/--mend", default=None, help="Reset all connections and refuse new ones; or no longer.")
@json_option
def set(control: str, cut: bool | None, as_json: bool, **said: Any) -> None:
    """Change a running relay; what is not named stays.

    CONTROL is the address that `plait chaos relay` printed.
    """
    request: dict[str, Any] = changes_asked(said)
    if cut is not None:
        request["cut"] = cut
    if not request:
        raise WrongUse("nothing to change", hint="like --delay 200ms, --flow frozen or --cut")
    _ask(control, request, as_json)


@chaos.command(epilog="\b\nExample: plait chaos show 127.0.0.1:4691 --json")
@click.argument("control")
@json_option
def show(control: str, as_json: bool) -> None:
    """Print what a running relay is like, and what it has carried."""
    _ask(control, {}, as_json)


@chaos.command(epilog="\b\nExample: plait chaos kill local-2")
@click.argument("process", metavar="PID|NAME")
def kill(process: str) -> None:
    """End a broker of this machine without a warning, as a power cut does (SIGKILL)."""
    _signal(process, "SIGKILL", "killed")


@chaos.command(epilog="\b\nExample: plait chaos pause local-2")
@click.argument("process", metavar="PID|NAME")
def pause(process: str) -> None:
    """Stop a broker of this machine where it is; its connections stay open (SIGSTOP)."""
    _signal(process, "SIGSTOP", "paused")


@chaos.command(epilog="\b\nExample: plait chaos resume local-2")
@click.argument("process", metavar="PID|NAME")
def resume(process: str) -> None:
    """Let a paused broker go on (SIGCONT)."""
    _signal(process, "SIGCONT", "resumed")


@chaos.command(epilog="\b\nExample: plait chaos start local-2")
@click.argument("process", metavar="PID|NAME")
def start(process: str) -> None:
    """Start a broker of `plait up` again that has ended: the same name, address and data."""
    _signal(process, "SIGCONT", "started", asleep=True)


async def _relay(listen: str, to: str, control: str, seed: int, changes: Mapping[str, dict[str, Any]]) -> None:
    from ...relay.control import serve_control
    from ...relay.relay import Relay
    from ..terminal.failures import Failure

    shaped = Relay(to, listen=listen, seed=seed)
    for direction, change in changes.items():
        shaped.shape(direction, **change)  # type: ignore[arg-type]  # its keys are directions
    try:
        async with shaped, serve_control(shaped, control) as steered:
            click.echo(f"ready listen={shaped.listen} to={to} control={steered}")
            await asyncio.Event().wait()
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        hint = "is the port taken?" if taken else "--listen and --control take addresses of this machine"
        raise Failure(f"cannot listen: {error.strerror or error}", hint=hint) from None


def _ask(control: str, request: dict[str, Any], as_json: bool) -> None:
    from ...relay.control import ask_control
    from ..terminal.running import run

    state = run(ask_control(control, request))
    if as_json:
        print_json(state)
    else:
        click.echo("\n".join(map(printable, _drawn(state))))


def _drawn(state: Mapping[str, Any]) -> list[str]:
    cut = ", cut" if state["cut"] else ""
    lines = [f"{state['listen']} to {state['to']}: {state['connections']} connections{cut}"]
    for direction in ("forth", "back"):
        way = state[direction]
        told = [f"delay {shown(way['delay_ms'] / 1000)}"]
        told += [f"jitter {shown(way['jitter_ms'] / 1000)}"] if way["jitter_ms"] else []
        told += [f"loss {way['loss']:.1%}, {way['stalls']} stalls"] if way["loss"] or way["stalls"] else []
        told += [f"{way['bandwidth_bit_s'] / 1e6:g} Mbit/s"] if way["bandwidth_bit_s"] else []
        told += [way["flow"]] if way["flow"] != "open" else []
        told.append(f"{way['carried_bytes']:,} bytes carried")
        told += [f"{way['swallowed_bytes']:,} swallowed"] if way["swallowed_bytes"] else []
        lines.append(f"  {direction:<5}  {', '.join(told)}")
    return lines


def _signal(process: str, name: str, done: str, *, asleep: bool = False) -> None:
    import signal

    from .processes import send_signal

    number = getattr(signal, name, None)
    if number is None:
        raise WrongUse(f"this system has no {name}")
    click.echo(f"{done} {send_signal(process, number, asleep=asleep)}")
