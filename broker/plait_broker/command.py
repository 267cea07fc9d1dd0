"""`plait broker`: one broker as a process.

Prints one line `ready name=N listen=H:P http=H:P` on stdout when it serves; logs to stderr. Exit codes: 0 stopped as
asked, 1 it cannot run, 2 it was told something that makes no sense.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from plait_core.errors import PlaitError

from .server.config.configuration import Configuration, ConfigurationError, Options, read_configuration
from .server.gc_tuning import tune_collector
from .server.logging_setup import write_to_stderr
from .server.server import BrokerServer
from .server.signals import handled
from .server.tls import overlay_contexts, server_context

OPEN_FILES: Final = 16_384
"""Soft limit that a broker gives itself where it may. Many systems start at 1,024, for programs that use select()."""

_LEVELS: Final = ("debug", "info", "warning", "error")

log: Final = logging.getLogger(__name__)


def _options(given: dict[str, str | None], **several: tuple[str, ...]) -> Options:
    keys = {"token_file": "access.token_file", "advertise": "overlay.advertise", "telemetry": "telemetry.directory"}
    found: dict[str, tuple[str, object]] = {
        keys.get(name, name): (f"--{name.replace('_', '-')}", value)
        for name, value in given.items()
        if value is not None
    }
    for name, values in several.items():
        if values:
            found[f"overlay.{name}"] = (f"--{name.removesuffix('s')}", list(values))
    return found


@click.command("broker", short_help="Run a broker.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="TOML file; SIGHUP reads it again.")
@click.option("--name", metavar="N", help="What the broker is called.")
@click.option("--listen", metavar="H:P", help="Where clients connect; 127.0.0.1:4680 unless told otherwise.")
@click.option("--http", metavar="H:P|off", help="Where HTTP is served; 127.0.0.1:4681 unless told otherwise.")
@click.option("--data", metavar="DIR", help="Where events for durable subscriptions are kept; without it nowhere.")
@click.option("--token-file", metavar="FILE", help="Holds a token; who has it may do everything.")
@click.option("--link", "links", multiple=True, metavar="H:P", help="Another broker to link to; as often as there are.")
@click.option("--seed", "seeds", multiple=True, metavar="H:P", help="A broker to hear of others from, to choose links.")
@click.option("--discover", is_flag=True, help="Find brokers on this network segment by multicast.")
@click.option("--advertise", metavar="H:P", help="Where other brokers can connect, if that is not --listen.")
@click.option("--telemetry", metavar="DIR", help="Where to record what happens, for `plait analyze`.")
@click.option("--tables", metavar="DIR", help="What `plait analyze --out DIR` writes, for the page /analytics.")
@click.option("--check-config", is_flag=True, help="Say whether the configuration is right, and end.")
@click.option("--json", "as_json", is_flag=True, help="The ready line and the log as one JSON object a line.")
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True)
def broker(
    config: Path | None,
    check_config: bool,
    as_json: bool,
    log_level: str,
    links: tuple[str, ...],
    seeds: tuple[str, ...],
    discover: bool,
    **given: str | None,
) -> None:
    """Run one broker until SIGTERM or Ctrl+C.

    What is not given comes from PLAIT_BROKER__... variables (PLAIT_BROKER__LISTEN=0.0.0.0:4680), then from --config,
    then from defaults.
    """
    options = _options(given, links=links, seeds=seeds)
    if discover:
        options = {**options, "overlay.discover": ("--discover", True)}

    def read() -> Configuration:
        return read_configuration(config, options)

    try:
        configuration = read()
        if configuration.tls is not None:
            server_context(configuration.tls)
        if configuration.overlay.tls is not None:
            overlay_contexts(configuration.overlay.tls)
    except ConfigurationError as error:
        _fail(str(error), 2)
    if check_config:
        _print_checked(configuration, as_json)
        return
    write_to_stderr(log_level, as_json=as_json)
    _raise_open_files()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve(configuration, read, as_json=as_json))
    except ConfigurationError as error:
        _fail(str(error), 2)
    except PlaitError as error:
        _fail(str(error), 1)


async def serve(configuration: Configuration, read: Callable[[], Configuration], *, as_json: bool) -> None:
    """Serve until a signal says stop."""
    stop = asyncio.Event()
    server = BrokerServer(configuration)

    def reload() -> None:
        try:
            server.reload(read())
        except ConfigurationError as error:
            log.error("the configuration stays as it was: %s", error)

    with handled(stop, reload):
        async with server:
            if server.drawn_token is not None:
                _tell_token(server.drawn_token, server)
            tune_collector()
            _print_ready(server, as_json)
            await stop.wait()


def _print_ready(server: BrokerServer, as_json: bool) -> None:
    facts = {"name": server.configuration.name, "listen": server.listen, "http": server.http or "off"}
    if as_json:
        print(json.dumps({"ready": True, **facts}), flush=True)
    else:
        print("ready", *(f"{key}={value}" for key, value in facts.items()), flush=True)


def _print_checked(configuration: Configuration, as_json: bool) -> None:
    facts: dict[str, Any] = {
        "name": configuration.name,
        "listen": str(configuration.listen),
        "http": str(configuration.http or "off"),
    }
    if as_json:
        print(json.dumps({"valid": True, **facts}))
    else:
        print("the configuration is right:", *(f"{key}={value}" for key, value in facts.items()))


def _tell_token(token: str, server: BrokerServer) -> None:
    """The one time that it is shown; past the log, which others may read later."""
    port = server.port
    lines = (
        "Others than this machine can reach this broker, and nothing says who may use it. A token for this run:",
        "",
        f"    {token}",
        "",
        f"  clients   plait.connect('plait://{token}@HOST:{port}')   or   PLAIT_URL=plait://{token}@HOST:{port}",
        f"  http      curl -H 'Authorization: Bearer {token}' ...",
        "",
        "For one that stays, put it into a file and give --token-file FILE, or write [access] into --config.",
    )
    print("\n".join(lines), file=sys.stderr, flush=True)


def _fail(message: str, code: int) -> NoReturn:
    print(f"plait broker: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


def _raise_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
