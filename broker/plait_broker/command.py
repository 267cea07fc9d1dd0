"""`plait broker`: run one broker as a process.

It prints one line `ready name=N listen=H:P http=H:P` on stdout when it serves, and logs to stderr. Exit codes: 0
stopped on request, 1 it cannot run, 2 its configuration is invalid.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import click

from plait_core.errors import PlaitError
from plait_core.values import Json

from .server.config.configuration import Configuration, ConfigurationError, Options, read_configuration
from .server.gc_tuning import tune_collector
from .server.logging_setup import write_to_stderr
from .server.server import BrokerServer
from .server.signals import handle_signals
from .server.tls import overlay_contexts, server_context

OPEN_FILES: Final = 16_384
"""Soft limit of open files that a broker sets if permitted. Many systems start at 1,024, for programs that use
select()."""

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
@click.option("--name", metavar="N", help="Name of the broker.")
@click.option("--listen", metavar="H:P", help="Address for clients; default 127.0.0.1:4680.")
@click.option("--http", metavar="H:P|off", help="Address for HTTP; default 127.0.0.1:4681.")
@click.option(
    "--data", metavar="DIR", help="Directory of the event log; without it there are no durable subscriptions."
)
@click.option("--token-file", metavar="FILE", help="File with a token that permits everything.")
@click.option("--link", "links", multiple=True, metavar="H:P", help="Another broker to link to; may be repeated.")
@click.option("--seed", "seeds", multiple=True, metavar="H:P", help="A broker that lists others, to choose links from.")
@click.option("--discover", is_flag=True, help="Find brokers on this network segment by multicast.")
@click.option(
    "--advertise", metavar="H:P", help="Address at which other brokers can connect, if it differs from --listen."
)
@click.option("--telemetry", metavar="DIR", help="Directory for telemetry, for `plait analyze`.")
@click.option(
    "--tables", metavar="DIR", help="Directory that `plait analyze --out DIR` writes, for the page /analytics."
)
@click.option("--check-config", is_flag=True, help="Check the configuration and exit.")
@click.option("--json", "as_json", is_flag=True, help="Write the ready line and the log as JSON, one object a line.")
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

    Settings come from the command line, then from PLAIT_BROKER__... variables (PLAIT_BROKER__LISTEN=0.0.0.0:4680), then
    from --config, then from defaults.
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
    """Serve until a signal requests the stop."""
    stop = asyncio.Event()
    server = BrokerServer(configuration)

    def reload() -> None:
        try:
            server.reload(read())
        except ConfigurationError as error:
            log.error("the configuration is unchanged: %s", error)

    with handle_signals(stop, reload):
        async with server:
            if server.generated_token is not None:
                _print_token(server.generated_token, server)
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
    facts: Json = {
        "name": configuration.name,
        "listen": str(configuration.listen),
        "http": str(configuration.http or "off"),
    }
    if as_json:
        print(json.dumps({"valid": True, **facts}))
    else:
        print("the configuration is valid:", *(f"{key}={value}" for key, value in facts.items()))


def _print_token(token: str, server: BrokerServer) -> None:
    """Print the token once, and not into the log, which others may read later."""
    port = server.port
    lines = (
        "Other machines can reach this broker, and its configuration has no access rules. A token for this run:",
        "",
        f"    {token}",
        "",
        f"  clients   plait.connect('plait://{token}@HOST:{port}')   or   PLAIT_URL=plait://{token}@HOST:{port}",
        f"  http      curl -H 'Authorization: Bearer {token}' ...",
        "",
        "For a permanent token, write it into a file and give --token-file FILE, or add [access] to --config.",
    )
    print("\n".join(lines), file=sys.stderr, flush=True)


def _fail(message: str, code: int) -> NoReturn:
    print(f"plait broker: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


def _raise_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
