"""A broker's configuration: a TOML file, overridden by environment variables, overridden by the command line.

    name = "north"                                  # [A-Za-z0-9._-], in metrics and shown to clients; else broker-PORT
    listen = "127.0.0.1:4680"                       # port 0: any
    http = "127.0.0.1:4681"                         # or "off"; by default one port above `listen`
    data = "/var/lib/plait"                         # the event log; without it nothing is durable
    tables = "/var/lib/plait-tables"                # output of plait analyze --out, for the page /analytics

    [overlay]                                       # other brokers
    links = ["10.0.0.2:4680"]                       # to connect to; they may also connect to this one
    seeds = ["10.0.0.1:4680"]                       # or: brokers that list others to choose from
    discover = true                                 # or: find them by multicast on this network segment
    degree = 3                                      # links to choose
    advertise = "north.example:4680"                # address for other brokers, if it is not `listen`
    secret_file = "overlay-secret"                  # shared by all brokers (or secret, or secret_env); without one,
                                                    # only brokers on this machine may connect
    links_max = 12                                  # beyond it, links that nobody configured are closed
    join_s = 3.0                                    # time to wait for links before serving clients
    dissemination = "shortest-paths"                # the strategy that plans the copies of events
    laboratory = false                              # allow strategies that may loop, and retransmit = false
    retransmit = true                               # send unacknowledged events again
    capacity = 125_000_000                          # bytes/s of each link; floods instead of what is
                                                    # measured when the link is full; no path depends on it
    segments = ["rack-7"]                           # network segments of this broker; flooded likewise
    destinations_max = 64                           # events for more brokers go down one tree, in a stream group
    when_full = "drop"                              # or "block": when too many events wait for another broker, drop
                                                    # the oldest of them, or let their publishers wait
    forget = ["east-2"]                             # brokers that will not return: nothing is kept for them
    name = "plait"                                  # these three for discovery
    group = "239.255.46.80:4680"
    interface = "10.0.0.3"

    [overlay.tls]                                   # links over TLS, besides a secret or instead of one
    listen = "0.0.0.0:4690"                         # for other brokers only
    certificate = "broker.pem"
    key = "broker.key"
    ca = "brokers-ca.pem"                           # signs certificates of brokers, and no others

    [retention]                                     # of the log in `data`
    bytes_max = 1_073_741_824
    age_s_max = 604_800

    [telemetry]                                     # telemetry, for `plait analyze`
    directory = "/var/lib/plait-telemetry"          # or --telemetry DIR
    bytes_max = 4_294_967_296                       # of all files together
    records_per_s_max = 200_000                     # above it, every second, fourth, ... event is recorded
    space = "space.json"                            # an event space, to record each event's cell; default none
    segment_bytes_max = 67_108_864                  # a file ends there,
    segment_s_max = 60.0                            # or then

    [tls]                                           # TLS for `listen` and `http`
    certificate = "server.pem"
    key = "server.key"
    client_ca = "clients-ca.pem"                    # authority of clients' certificates
    client_certificate = "required"                 # or "optional": a token suffices. HTTP needs none
    listen = "0.0.0.0:4690"                         # TLS here; `listen` above stays plain
    plain_http = true                               # HTTP stays plain

    [limits]                                        # the fields of BrokerSettings and ConnectionLimits
    heartbeat_s = 5.0
    frame_timeout_s = 10.0                          # for one frame, once it has begun

    [access]
    token_file = "token"                            # permits everything (or token, or token_env)
    http_token_env = "METRICS_TOKEN"                # permits reading /metrics and /api, and nothing else
    open = true                                     # instead of both: permit everything without a token

    [[access.principals]]
    name = "feed"
    token_env = "FEED_TOKEN"                        # or token, or token_file, or certificate = "common name"
    publish = { allow = ["symbol == 'IBM'"], deny = ["price < 0"] }
    subscribe = { allow = [] }

A variable PLAIT_BROKER__LIMITS__HEARTBEAT_S=2.5 overrides that key; a value that is no text is written as in TOML.
Paths in the file are relative to it. SIGHUP reloads the configuration; an invalid one changes nothing.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from plait_core.errors import FilterError
from plait_core.filters import Filter, parse
from plait_telemetry.recording import TelemetryConfig

from ...clients.access import ALL, Keyring, Principal, Rules, digest
from ...log.writer import Retention
from ...settings import BrokerSettings
from ..connection_limits import ConnectionLimits
from ..endpoints import Endpoint
from .config_reader import ConfigSection, ConfigurationError, KeyPath, Origin, Table, override, remove
from .overlay_config import OverlayConfig, read_overlay
from .telemetry_config import read_telemetry

__all__ = ["Access", "Configuration", "ConfigurationError", "TlsFiles", "parse_configuration", "read_configuration"]

LISTEN: Final = Endpoint("127.0.0.1", 4680)
HTTP: Final = Endpoint("127.0.0.1", 4681)

Options: TypeAlias = Mapping[str, tuple[str, object]]
"""Options of the command line: by dotted key, the option's name and its value."""

VARIABLE_PREFIX: Final = "PLAIT_BROKER__"

FILE_BYTES_MAX: Final = 1024 * 1024
"""Size of a configuration file: ten thousand principals."""

PRINCIPALS_MAX: Final = 10_000
"""Each Hello is compared with all principals in constant time: some milliseconds."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_SECONDS: Final = (0.001, 86_400.0)
_COUNT: Final = (1, 2**40)
_FRACTIONS: Final = {"slow_fraction"}
_WINDOW_MAX: Final = 2**20
_NOT_LIMITS: Final = {"name", "capabilities", "log_filter", "linking"}


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificates and addresses of TLS."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_certificate_required: bool = True
    listen: Endpoint | None = None
    """Address of a second listener with TLS, or None to enable TLS on the broker's own."""
    plain_http: bool = False
    """Whether HTTP is served without TLS."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access rules. Tokens are kept as digests only, and these are never shown."""

    keyring: Keyring | None = field(default=None, repr=False)
    open: bool = False
    http_token: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A whole configuration, checked."""

    settings: BrokerSettings = field(default_factory=BrokerSettings)
    listen: Endpoint = LISTEN
    http: Endpoint | None = HTTP
    data: Path | None = None
    tables: Path | None = None
    """Directory that `plait analyze` writes its tables to, for the analytics page."""
    retention: Retention = field(default_factory=Retention)
    tls: TlsFiles | None = None
    overlay: OverlayConfig = field(default_factory=OverlayConfig)
    telemetry: TelemetryConfig | None = None
    connection_limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    access: Access = field(default_factory=Access)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def endpoints(self) -> list[Endpoint]:
        """All addresses for clients and scrapers."""
        tls = self.tls.listen if self.tls is not None else None
        return [endpoint for endpoint in (self.listen, tls, self.http) if endpoint is not None]


def read_configuration(
    file: Path | None = None,
    options: Options | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Return the merged configuration, or raise ConfigurationError. `options`: by dotted key, its name and value."""
    environment = os.environ if environment is None else environment
    return parse_configuration(_read(file) if file is not None else b"", file, options or {}, environment)


def parse_configuration(
    document: bytes,
    file: Path | None = None,
    options: Options | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Return the configuration of a TOML document and its overrides, or raise ConfigurationError."""
    environment = environment or {}
    origin = Origin(file, environment)
    table = _parsed(document, origin.of(()))
    for variable, value in environment.items():
        if variable.startswith(VARIABLE_PREFIX):
            path = tuple(variable.removeprefix(VARIABLE_PREFIX).lower().split("__"))
            _override(table, origin, path, variable, _as_toml(path, value))
    for key, (option, given) in (options or {}).items():
        _override(table, origin, tuple(key.split(".")), option, given)
    return _configuration(ConfigSection(table, origin))


# --- layers -----------------------------------------------------------------------------------------------------------


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as open_to_all:
            document = open_to_all.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is no path"
        raise ConfigurationError(f"cannot be read: {why}", source=str(file), hint="check --config") from None
    if len(document) > FILE_BYTES_MAX:
        raise ConfigurationError(f"is over {FILE_BYTES_MAX:,} bytes", source=str(file))
    return document


def _parsed(document: bytes, source: str) -> Table:
    try:
        return tomllib.loads(document.decode())
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"is not UTF-8 text from byte {error.start} on", source=source) from None
    except (ValueError, RecursionError) as error:
        why = "nests too deep" if isinstance(error, RecursionError) else f"is not TOML: {error}"
        raise ConfigurationError(why, source=source, hint="https://toml.io describes the format") from None


def _override(table: Table, origin: Origin, path: KeyPath, by: str, value: object) -> None:
    """Override a value; a token overrides the token of a lower layer, in whichever of its forms."""
    head, key = path[:-1], path[-1]
    for family in _SECRET_KEYS.values():
        if head == ("access",) and key in family and not any(origin.overridden((*head, k)) == by for k in family):
            remove(table, head, family)
    override(table, path, value)
    origin.override(path, by)


_SECRET_KEYS: Final = {name: (name, f"{name}_file", f"{name}_env") for name in ("token", "http_token")}
_TEXT_KEYS: Final = {
    *(
        "name",
        "listen",
        "http",
        "data",
        "tables",
        "certificate",
        "key",
        "client_ca",
        "client_certificate",
        "log_filter",
    ),
    *("secret", "secret_file", "secret_env", "advertise", "group", "interface", "ca", "directory"),
    *(key for keys in _SECRET_KEYS.values() for key in keys),
}


def _as_toml(path: KeyPath, value: str) -> object:
    """Return the value of a variable: texts unchanged, anything else parsed as TOML."""
    if path[-1] in _TEXT_KEYS:
        return value
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return value  # the reader of the key rejects it
    return parsed["value"] if len(parsed) == 1 else value


# --- sections ---------------------------------------------------------------------------------------------------------


def _configuration(root: ConfigSection) -> Configuration:
    base = Configuration()
    listen = _endpoint(root, "listen") or base.listen
    usual = listen.port in (0, base.listen.port)
    name = root.text("name") or (base.name if usual else f"{base.name}-{listen.port}")
    if not _NAME.match(name):
        raise root.error("name", "is 1 to 64 letters, digits, dots, dashes and underscores")
    beside = base.http if usual or base.http is None else replace(base.http, port=(listen.port + 1) % 65_536)
    http = None if root.text("http") == "off" else _endpoint(root, "http") or beside
    settings, connection_limits = _limits(root.section("limits"))
    overlay = read_overlay(root.section("overlay"))
    found = Configuration(
        settings=replace(settings, name=name, linking=overlay.links),
        listen=listen,
        http=http,
        data=root.path("data"),
        tables=root.path("tables"),
        retention=_retention(root.section("retention")),
        tls=_tls(root.section("tls")),
        overlay=overlay,
        telemetry=read_telemetry(root.section("telemetry")),
        connection_limits=connection_limits,
        access=_access(root.section("access")),
    )
    root.finish()
    endpoints = found.endpoints + ([overlay.tls.listen] if overlay.tls is not None else [])
    if len({str(endpoint) for endpoint in endpoints if endpoint.port}) < sum(e.port > 0 for e in endpoints):
        raise root.error("listen", "is the address of another listener", hint="each needs a port of its own")
    return found


def _endpoint(section: ConfigSection, key: str) -> Endpoint | None:
    text = section.text(key)
    try:
        return None if text is None else Endpoint.parse(text)
    except ValueError as error:
        raise section.error(key, str(error)) from None


def _retention(section: ConfigSection | None) -> Retention:
    base = Retention()
    if section is None:
        return base
    found = Retention(
        bytes_max=section.whole("bytes_max", 1 << 20, 1 << 50) or base.bytes_max,
        age_s_max=section.number("age_s_max", 1, 10**10) or base.age_s_max,
    )
    section.finish()
    return found


def _tls(section: ConfigSection | None) -> TlsFiles | None:
    if section is None:
        return None
    certificate, key = section.file("certificate"), section.file("key")
    if certificate is None or key is None:
        missing = "certificate" if certificate is None else "key"
        raise section.error(missing, "is missing", hint="TLS needs both: certificate and key, as PEM files")
    client_ca, requirement = section.file("client_ca"), section.text("client_certificate")
    if requirement not in (None, "required", "optional"):
        raise section.error("client_certificate", 'is "required" or "optional"')
    if requirement is not None and client_ca is None:
        raise section.error(
            "client_certificate", "needs client_ca", hint="the authority that signs clients' certificates"
        )
    listen, plain_http = _endpoint(section, "listen"), section.flag("plain_http")
    found = TlsFiles(certificate, key, client_ca, requirement != "optional", listen, bool(plain_http))
    section.finish()
    return found


def _limits(section: ConfigSection | None) -> tuple[BrokerSettings, ConnectionLimits]:
    if section is None:
        return BrokerSettings(), ConnectionLimits()
    settings = BrokerSettings(**_numbers(section, BrokerSettings))
    connection_limits = ConnectionLimits(**_numbers(section, ConnectionLimits))
    log_filter = section.text("log_filter")
    if log_filter is not None:
        settings = replace(settings, log_filter=_filter(section, "log_filter", log_filter).text)
    section.finish()
    if settings.duplicate_window > _WINDOW_MAX:
        raise section.error("duplicate_window", f"is between 1 and {_WINDOW_MAX:,}")
    if settings.unconfirmed_max > settings.duplicate_window:
        raise section.error(
            "unconfirmed_max", "is above duplicate_window", hint="after a reconnect all of them are sent again"
        )
    return settings, connection_limits


def _numbers(section: ConfigSection, kind: type[BrokerSettings] | type[ConnectionLimits]) -> dict[str, Any]:
    """Return the numbers of a section that are fields of a dataclass."""
    found: dict[str, Any] = {}
    for declared in fields(kind):
        key = declared.name
        if key in _NOT_LIMITS:
            continue
        if declared.type == "float":
            found[key] = section.number(key, *((0.01, 1.0) if key in _FRACTIONS else _SECONDS))
        else:
            assert declared.type == "int", f"{key}: a limit is a number"
            found[key] = section.whole(key, *_COUNT)
    return {key: value for key, value in found.items() if value is not None}


# --- access -----------------------------------------------------------------------------------------------------------


def _access(section: ConfigSection | None) -> Access:
    """Return the access rules. It fails closed: a section that admits no one, or leaves permissions open, is an
    error."""
    if section is None:
        return Access()
    token, http_token, open_to_all = section.secret("token"), section.secret("http_token"), section.flag("open")
    principals = section.sections("principals")
    section.finish()
    if open_to_all and (token is not None or principals is not None):
        raise section.error("open", "admits everyone, so tokens have no effect", hint="remove it, or everything else")
    if principals is not None and not principals:
        raise section.error(
            "principals", "is empty: no one could connect", hint="remove it, or add [[access.principals]]"
        )
    if not open_to_all and token is None and not principals:
        raise section.error("", "admits no one", hint="give a token, principals, or open = true; or leave [access] out")
    keyring = None if open_to_all else _keyring(token, principals or [])
    return Access(keyring, bool(open_to_all), None if http_token is None else digest(http_token))


def _keyring(token: str | None, sections: list[ConfigSection]) -> Keyring:
    by_token: dict[bytes, Principal] = {}
    by_certificate: dict[str, Principal] = {}
    names: set[str] = set()
    if token is not None:
        by_token[digest(token)] = Principal("token", system=ALL)
        names.add("token")
    if len(sections) > PRINCIPALS_MAX:
        raise sections[PRINCIPALS_MAX].error("", f"exceeds the limit of {PRINCIPALS_MAX:,} principals")
    for section in sections:
        principal = _principal(section)
        if principal.name in names:
            raise section.error("name", "is taken by another principal")
        names.add(principal.name)
        secret, certificate = section.secret("token"), section.text("certificate")
        section.finish()
        if secret is None and certificate is None:
            raise section.error(
                None, "has neither token nor certificate", hint="give one, so that a client can authenticate"
            )
        if secret is not None and by_token.setdefault(digest(secret), principal) is not principal:
            raise section.error("token", "is another principal's as well", hint="give each its own")
        if certificate is not None and by_certificate.setdefault(certificate, principal) is not principal:
            raise section.error("certificate", "is another principal's as well", hint="give each its own")
    return Keyring(by_token, by_certificate)


def _principal(section: ConfigSection) -> Principal:
    name = section.text("name")
    if name is None:
        raise section.error("name", "is missing")
    if not _NAME.match(name):
        raise section.error("name", "is 1 to 64 letters, digits, dots, dashes and underscores")
    publish, subscribe = _rules(section, "publish"), _rules(section, "subscribe")
    if publish is None and subscribe is None:
        return Principal(name)
    if publish is None or subscribe is None:
        missing = "publish" if publish is None else "subscribe"
        raise section.error(
            missing, "is missing, and the other is there", hint='allow = ["true"] is everything, allow = [] nothing'
        )
    ordinary, system = subscribe.split()
    return Principal(name, publish, ALL if ordinary == ALL else ordinary, system)


def _rules(section: ConfigSection, key: str) -> Rules | None:
    inner = section.section(key)
    if inner is None:
        return None
    allow, deny = inner.texts("allow"), inner.texts("deny")
    inner.finish()
    if allow is None:
        raise inner.error("allow", "is missing", hint='["true"] allows everything that deny does not match')
    allowed = tuple(_filter(inner, "allow", text) for text in allow)
    denied = tuple(_filter(inner, "deny", text) for text in deny or ())
    return ALL if Rules(allowed, denied) == ALL else Rules(allowed, denied)


def _filter(section: ConfigSection, key: str, text: str) -> Filter:
    try:
        found = parse(text)
        found.normal  # noqa: B018  rejects a filter that is too complex now, and not at the first event
    except FilterError as error:
        shown = error.caret(60).partition("\n")[0].strip()
        raise section.error(key, f"{error.message} at column {error.column}, in: {shown}", hint=error.hint) from None
    return found
