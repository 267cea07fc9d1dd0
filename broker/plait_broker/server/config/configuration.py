"""What a broker is told when it starts: a TOML file, overridden by the environment, overridden by the command line.

    name = "north"                                  # [A-Za-z0-9._-], in metrics and in what clients see
    listen = "127.0.0.1:4680"                       # port 0: any
    http = "127.0.0.1:4681"                         # or "off"
    data = "/var/lib/plait"                         # without it nothing is durable
    tables = "/var/lib/plait-tables"                # what plait analyze --out writes, for the page /analytics

    [overlay]                                       # other brokers
    links = ["10.0.0.2:4680"]                       # to connect to; they may connect as well
    seeds = ["10.0.0.1:4680"]                       # or: where to hear of others, to choose from
    discover = true                                 # or: find them by multicast on this network segment
    degree = 3                                      # how many to choose
    advertise = "north.example:4680"                # where others can connect, if that is not `listen`
    secret_file = "overlay-secret"                  # what all brokers know (or secret, or secret_env); without one,
                                                    # only brokers on this machine are let in
    links_max = 12                                  # beyond it, links that nobody configured are given up
    join_s = 3.0                                    # how long to wait for these before serving clients
    dissemination = "shortest-paths"                # the strategy that plans the copies of events
    laboratory = false                              # allow strategies that may loop, and retransmit = false
    retransmit = true                               # send unacknowledged events again
    capacity = 125_000_000                          # bytes/s of each link; flooded, no path depends on it
    segments = ["rack-7"]                           # network segments of this broker; flooded likewise
    forget = ["east-2"]                             # brokers that will not come back: nothing is kept for them
    name = "plait"                                  # these three for discovery
    group = "239.255.46.80:4680"
    interface = "10.0.0.3"

    [overlay.tls]                                   # links over TLS, besides a secret or instead of one
    listen = "0.0.0.0:4690"                         # for other brokers alone
    certificate = "broker.pem"
    key = "broker.key"
    ca = "brokers-ca.pem"                           # signs certificates of brokers, and no others

    [retention]                                     # of the log in `data`
    bytes_max = 1_073_741_824
    age_s_max = 604_800

    [telemetry]                                     # records of what happens, for `plait analyze`
    directory = "/var/lib/plait-telemetry"          # or --telemetry DIR
    bytes_max = 4_294_967_296                       # of all that is kept
    records_per_s_max = 200_000                     # above it, every second, fourth, ... event is recorded
    space = "space.json"                            # an event space, to count where in it events lie; none by default
    segment_bytes_max = 67_108_864                  # a file ends there,
    segment_s_max = 60.0                            # or then

    [tls]                                           # makes `listen` and `http` speak TLS
    certificate = "server.pem"
    key = "server.key"
    client_ca = "clients-ca.pem"                    # asks clients for certificates
    client_certificate = "required"                 # or "optional": a token will do as well. HTTP asks for none
    listen = "0.0.0.0:4690"                         # TLS here, and the broker's own `listen` stays plain
    plain_http = true                               # HTTP stays plain

    [limits]                                        # the fields of BrokerSettings and DoorLimits
    heartbeat_s = 5.0
    frame_timeout_s = 10.0                          # for one frame, once it has begun

    [access]
    token_file = "token"                            # whoever has it may do everything (or token, or token_env)
    http_token_env = "METRICS_TOKEN"                # whoever has it may read /metrics and /api, and nothing else
    open = true                                     # instead of both: anyone may do everything

    [[access.principals]]
    name = "feed"
    token_env = "FEED_TOKEN"                        # or token, or token_file, or certificate = "common name"
    publish = { allow = ["symbol == 'IBM'"], deny = ["price < 0"] }
    subscribe = { allow = [] }

A variable PLAIT_BROKER__LIMITS__HEARTBEAT_S=2.5 overrides that key; one that is no text is written as in TOML. Paths
in the file are relative to it. SIGHUP reads everything again; a mistake leaves the broker as it was.
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
from plait_telemetry.recording import TelemetryPlace

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
"""What the command line says: by dotted key, the option's name and its value."""

VARIABLE_PREFIX: Final = "PLAIT_BROKER__"

FILE_BYTES_MAX: Final = 1024 * 1024
"""Of a configuration file: ten thousand principals."""

PRINCIPALS_MAX: Final = 10_000
"""Each hello is compared with all of them, in the same time whoever it is: some milliseconds."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_SECONDS: Final = (0.001, 86_400.0)
_COUNT: Final = (1, 2**40)
_FRACTIONS: Final = {"slow_fraction"}
_WINDOW_MAX: Final = 2**20
_NOT_LIMITS: Final = {"name", "capabilities", "log_filter", "linking"}


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """How to speak TLS."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_certificate_required: bool = True
    listen: Endpoint | None = None
    """A second listener; None makes the broker's own speak TLS."""
    plain_http: bool = False
    """Whether the HTTP side stays without TLS."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who gets in. Tokens are kept as digests only, and not even these are shown."""

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
    """Where `plait analyze` writes its tables, for the analytics page."""
    retention: Retention = field(default_factory=Retention)
    tls: TlsFiles | None = None
    overlay: OverlayConfig = field(default_factory=OverlayConfig)
    telemetry: TelemetryPlace | None = None
    door: ConnectionLimits = field(default_factory=ConnectionLimits)
    access: Access = field(default_factory=Access)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def endpoints(self) -> list[Endpoint]:
        """All that clients and scrapers connect to."""
        tls = self.tls.listen if self.tls is not None else None
        return [endpoint for endpoint in (self.listen, tls, self.http) if endpoint is not None]


def read_configuration(
    file: Path | None = None,
    options: Options | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """The configuration from everywhere, or ConfigurationError. `options`: by dotted key, its name and value."""
    environment = os.environ if environment is None else environment
    return parse_configuration(_read(file) if file is not None else b"", file, options or {}, environment)


def parse_configuration(
    document: bytes,
    file: Path | None = None,
    options: Options | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """The configuration that a TOML document and its overrides write, or ConfigurationError."""
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
        with file.open("rb") as opened:
            document = opened.read(FILE_BYTES_MAX + 1)
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
    """A token overrides a token of a lower layer, however either is given."""
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
    """The value of a variable: texts as they are, anything else as TOML writes it."""
    if path[-1] in _TEXT_KEYS:
        return value
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return value  # and whoever takes it says what it should have been
    return parsed["value"] if len(parsed) == 1 else value


# --- sections ---------------------------------------------------------------------------------------------------------


def _configuration(root: ConfigSection) -> Configuration:
    base = Configuration()
    name = root.text("name") or base.name
    if not _NAME.match(name):
        raise root.error("name", "is 1 to 64 letters, digits, dots, dashes and underscores")
    listen = _endpoint(root, "listen") or base.listen
    http = None if root.text("http") == "off" else _endpoint(root, "http") or base.http
    settings, door = _limits(root.section("limits"))
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
        door=door,
        access=_access(root.section("access")),
    )
    root.finish()
    all_there_are = found.endpoints + ([overlay.tls.listen] if overlay.tls is not None else [])
    if len({str(endpoint) for endpoint in all_there_are if endpoint.port}) < sum(e.port > 0 for e in all_there_are):
        raise root.error("listen", "is an address that something else listens on", hint="each needs a port of its own")
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
    client_ca, asked = section.file("client_ca"), section.text("client_certificate")
    if asked not in (None, "required", "optional"):
        raise section.error("client_certificate", 'is "required" or "optional"')
    if asked is not None and client_ca is None:
        raise section.error(
            "client_certificate", "needs client_ca", hint="the authority that signs clients' certificates"
        )
    listen, plain_http = _endpoint(section, "listen"), section.flag("plain_http")
    found = TlsFiles(certificate, key, client_ca, asked != "optional", listen, bool(plain_http))
    section.finish()
    return found


def _limits(section: ConfigSection | None) -> tuple[BrokerSettings, ConnectionLimits]:
    if section is None:
        return BrokerSettings(), ConnectionLimits()
    settings = BrokerSettings(**_numbers(section, BrokerSettings))
    door = ConnectionLimits(**_numbers(section, ConnectionLimits))
    log_filter = section.text("log_filter")
    if log_filter is not None:
        settings = replace(settings, log_filter=_filter(section, "log_filter", log_filter).text)
    section.finish()
    if settings.duplicate_window > _WINDOW_MAX:
        raise section.error("duplicate_window", f"is between 1 and {_WINDOW_MAX:,}")
    if settings.unconfirmed_max > settings.duplicate_window:
        raise section.error(
            "unconfirmed_max", "is above duplicate_window", hint="after a reconnect all of them come again"
        )
    return settings, door


def _numbers(section: ConfigSection, kind: type[BrokerSettings] | type[ConnectionLimits]) -> dict[str, Any]:
    """What a section says of a dataclass's numbers."""
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
    """Fails closed: a section that lets nobody in, or that leaves it open what someone may do, is a mistake."""
    if section is None:
        return Access()
    token, http_token, opened = section.secret("token"), section.secret("http_token"), section.flag("open")
    principals = section.sections("principals")
    section.finish()
    if opened and (token is not None or principals is not None):
        raise section.error("open", "lets anyone in, whatever tokens say", hint="remove it, or everything else")
    if principals is not None and not principals:
        raise section.error(
            "principals", "is empty: nobody could connect", hint="remove it, or add [[access.principals]]"
        )
    if not opened and token is None and not principals:
        raise section.error(
            "", "lets nobody in", hint="give a token, principals, or open = true; or leave [access] out"
        )
    keyring = None if opened else _keyring(token, principals or [])
    return Access(keyring, bool(opened), None if http_token is None else digest(http_token))


def _keyring(token: str | None, sections: list[ConfigSection]) -> Keyring:
    by_token: dict[bytes, Principal] = {}
    by_certificate: dict[str, Principal] = {}
    names: set[str] = set()
    if token is not None:
        by_token[digest(token)] = Principal("token", system=ALL)
        names.add("token")
    if len(sections) > PRINCIPALS_MAX:
        raise sections[PRINCIPALS_MAX].error(
            "", f"is one more than the {PRINCIPALS_MAX:,} principals that there may be"
        )
    for section in sections:
        principal = _principal(section)
        if principal.name in names:
            raise section.error("name", "is taken by another principal")
        names.add(principal.name)
        secret, certificate = section.secret("token"), section.text("certificate")
        section.finish()
        if secret is None and certificate is None:
            raise section.error(None, "has neither token nor certificate", hint="give one, or nobody can be it")
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
        raise inner.error("allow", "is missing", hint='["true"] allows everything that deny does not name')
    allowed = tuple(_filter(inner, "allow", text) for text in allow)
    denied = tuple(_filter(inner, "deny", text) for text in deny or ())
    return ALL if Rules(allowed, denied) == ALL else Rules(allowed, denied)


def _filter(section: ConfigSection, key: str, text: str) -> Filter:
    try:
        found = parse(text)
        found.normal  # noqa: B018  one that is too complex says so here, and not when the first event comes
    except FilterError as error:
        shown = error.caret(60).partition("\n")[0].strip()
        raise section.error(key, f"{error.message} at column {error.column}, in: {shown}", hint=error.hint) from None
    return found
