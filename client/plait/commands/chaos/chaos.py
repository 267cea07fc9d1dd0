"""`plait chaos`: makes links slow, lossy, cut or frozen, and kills or pauses brokers, for experiments."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from typing import Any

import click

from plait_core.values import Json

from ..terminal.durations import shown
from ..terminal.failures import WrongUse
from ..terminal.output import json_option, print_json, printable
from .shapes import requested_changes, shape_options


@click.group(epilog="\b\nExample: plait chaos relay --listen 127.0.0.1:4690 --to 127.0.0.1:4680 --delay 20ms")
def chaos() -> None:
    """Delay, cut or freeze links, and kill or pause brokers.

    A relay forwards connections between two brokers, or a client and a broker, over a link of the given shape.
    """


@chaos.command(
    epilog="\b\nExample: plait chaos relay --listen 127.0.0.1:4690 --to 127.0.0.1:4680 --delay 20ms --loss 1%"
)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Address to listen at.")
@click.option("--to", metavar="HOST:PORT", required=True, help="Address to forward to.")
@click.option(
    "--control", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Address for set and show."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of jitter and loss.")
@shape_options
def relay(listen: str, to: str, control: str, seed: int, **shape: Any) -> None:
    """Run a shaped link until Ctrl-C.

    Prints one line `ready listen=H:P to=H:P control=H:P` when it is ready. Loss is delay, since TCP retransmits.
    """
    from ..terminal.running import run_async

    run_async(_relay(listen, to, control, seed, requested_changes(shape)))


@chaos.command(epilog="\b\nExample: plait chaos set 127.0.0.1:4691 --delay 200ms --back loss=5%")
@click.argument("control")
@shape_options
@click.option("--cut/--mend", default=None, help="Reset all connections and refuse new ones; --mend ends that.")
@json_option
def set(control: str, cut: bool | None, as_json: bool, **shape: Any) -> None:
    """Change the shape of a running relay. Options that are not given stay.

    CONTROL is the address that `plait chaos relay` printed.
    """
    request: Json = requested_changes(shape)
    if cut is not None:
        request["cut"] = cut
    if not request:
        raise WrongUse("nothing to change", hint="like --delay 200ms, --flow frozen or --cut")
    _request(control, request, as_json)


@chaos.command(epilog="\b\nExample: plait chaos show 127.0.0.1:4691 --json")
@click.argument("control")
@json_option
def show(control: str, as_json: bool) -> None:
    """Print the shape and the counters of a running relay."""
    _request(control, {}, as_json)


@chaos.command(epilog="\b\nExample: plait chaos kill local-2")
@click.argument("process", metavar="PID|NAME")
def kill(process: str) -> None:
    """Kill a broker of this machine, as a power failure would (SIGKILL)."""
    _signal(process, "SIGKILL", "killed")


@chaos.command(epilog="\b\nExample: plait chaos pause local-2")
@click.argument("process", metavar="PID|NAME")
def pause(process: str) -> None:
    """Pause a broker of this machine. Its connections stay open (SIGSTOP)."""
    _signal(process, "SIGSTOP", "paused")


@chaos.command(epilog="\b\nExample: plait chaos resume local-2")
@click.argument("process", metavar="PID|NAME")
def resume(process: str) -> None:
    """Resume a paused broker (SIGCONT)."""
    _signal(process, "SIGCONT", "resumed")


@chaos.command(epilog="\b\nExample: plait chaos start local-2")
@click.argument("process", metavar="PID|NAME")
def start(process: str) -> None:
    """Restart a broker of `plait up` that has ended, with the same name, address and data."""
    _signal(process, "SIGCONT", "started", asleep=True)


async def _relay(listen: str, to: str, control: str, seed: int, changes: Mapping[str, Json]) -> None:
    from ...relay.control import serve_control
    from ...relay.relay import Relay
    from ..terminal.failures import Failure

    shaped = Relay(to, listen=listen, seed=seed)
    for direction, change in changes.items():
        shaped.shape(direction, **change)  # type: ignore[arg-type]  # its keys are directions
    try:
        async with shaped, serve_control(shaped, control) as control_address:
            click.echo(f"ready listen={shaped.listen} to={to} control={control_address}")
            await asyncio.Event().wait()
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        hint = "is the port taken?" if taken else "--listen and --control take addresses of this machine"
        raise Failure(f"cannot listen: {error.strerror or error}", hint=hint) from None


def _request(control: str, request: Json, as_json: bool) -> None:
    from ...relay.control import ask_control
    from ..terminal.running import run_async

    state = run_async(ask_control(control, request))
    if as_json:
        print_json(state)
    else:
        click.echo("\n".join(map(printable, _relay_lines(state))))


def _relay_lines(state: Mapping[str, Any]) -> list[str]:
    cut = ", cut" if state["cut"] else ""
    lines = [f"{state['listen']} to {state['to']}: {state['connections']} connections{cut}"]
    for direction in ("forth", "back"):
        lane = state[direction]
        parts = [f"delay {shown(lane['delay_ms'] / 1000)}"]
        parts += [f"jitter {shown(lane['jitter_ms'] / 1000)}"] if lane["jitter_ms"] else []
        parts += [f"loss {lane['loss']:.1%}, {lane['stalls']} stalls"] if lane["loss"] or lane["stalls"] else []
        parts += [f"{lane['bandwidth_bit_s'] / 1e6:g} Mbit/s"] if lane["bandwidth_bit_s"] else []
        parts += [lane["flow"]] if lane["flow"] != "open" else []
        parts.append(f"{lane['carried_bytes']:,} bytes carried")
        parts += [f"{lane['dropped_bytes']:,} dropped"] if lane["dropped_bytes"] else []
        lines.append(f"  {direction:<5}  {', '.join(parts)}")
    return lines


def _signal(process: str, name: str, done: str, *, asleep: bool = False) -> None:
    import signal

    from .processes import send_signal

    number = getattr(signal, name, None)
    if number is None:
        raise WrongUse(f"this system has no {name}")
    click.echo(f"{done} {send_signal(process, number, asleep=asleep)}")
