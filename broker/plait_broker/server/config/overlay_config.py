"""The `[overlay]` section of the configuration: links to other brokers, their discovery and their authentication."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from plait_core.limits import DESTINATIONS_MAX, NAME_BYTES_MAX, NEIGHBOURS_MAX, SEGMENTS_MAX

from ...overlay.dissemination.registry import STRATEGIES
from ...settings import BLOCK, DROP, LinkSettings
from ..endpoints import Endpoint
from .config_reader import ConfigSection

SEEDS_MAX: Final = 64
"""A few seeds that are always up suffice: they list the other brokers."""

DEGREE_MAX: Final = 64

CAPACITY_MAX: Final = 10**15
"""Bytes/s of one link: a thousand times the fastest that is sold."""

GROUP: Final = Endpoint("239.255.46.80", 4680)
"""Multicast group for announcements, from the range that stays within a site."""


@dataclass(frozen=True, slots=True)
class OverlayTls:
    """Links over TLS between brokers with certificates of one authority, which signs no others."""

    listen: Endpoint
    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True, slots=True)
class OverlayConfig:
    """The overlay's configuration."""

    links: LinkSettings = field(default_factory=LinkSettings)
    name: str = "plait"
    """Name of the overlay: announcements of others are ignored."""
    group: Endpoint = GROUP
    interface: str = ""
    """Address of the interface to announce on; empty: that of the listener."""
    advertise: Endpoint | None = None
    """Address at which others can connect, if it differs from the listener's."""
    tls: OverlayTls | None = None


def read_overlay(section: ConfigSection | None) -> OverlayConfig:
    """Return the section's settings, or raise ConfigurationError."""
    base = OverlayConfig()
    if section is None:
        return base
    tls = _tls(section.section("tls"))
    found = OverlayConfig(
        LinkSettings(
            links=_addresses(section, "links", NEIGHBOURS_MAX),
            seeds=_addresses(section, "seeds", SEEDS_MAX),
            discover=bool(section.flag("discover")),
            secret=section.secret("secret") or "",
            tls=tls is not None,
            degree=section.whole("degree", 1, DEGREE_MAX) or base.links.degree,
            links_max=section.whole("links_max", 2, NEIGHBOURS_MAX) or base.links.links_max,
            join_s=section.number("join_s", 0.1, 3600) or base.links.join_s,
            dissemination=section.text("dissemination") or base.links.dissemination,
            laboratory=bool(section.flag("laboratory")),
            retransmit=section.flag("retransmit") is not False,
            capacity=section.whole("capacity", 1, CAPACITY_MAX) or 0,
            segments=_names(section, "segments", SEGMENTS_MAX, "segments"),
            destinations_max=section.whole("destinations_max", 1, DESTINATIONS_MAX) or base.links.destinations_max,
            when_full=section.text("when_full") or base.links.when_full,
            forget=_names(section, "forget", NEIGHBOURS_MAX, "brokers"),
        ),
        section.text("name") or base.name,
        _group(section) or base.group,
        _interface(section),
        _endpoint(section, "advertise"),
        tls,
    )
    section.finish()
    if len(found.name.encode()) > NAME_BYTES_MAX:
        raise section.error("name", f"is at most {NAME_BYTES_MAX} bytes")
    if found.links.links_max <= found.links.degree:
        raise section.error(
            "links_max", "is above degree", hint="otherwise links would be made and closed again and again"
        )
    _check_strategy(section, found.links)
    if found.links.when_full not in (DROP, BLOCK):
        raise section.error("when_full", f"is {DROP} or {BLOCK}")
    if found.advertise is not None and not found.advertise.port:
        raise section.error("advertise", "has a port", hint="HOST:PORT where other brokers can connect to this one")
    return found


def _check_strategy(section: ConfigSection, links: LinkSettings) -> None:
    strategy = STRATEGIES.get(links.dissemination)
    if strategy is None:
        raise section.error("dissemination", f"is one of {', '.join(sorted(STRATEGIES))}")
    if not links.laboratory and not strategy.loop_free:
        hint = "set laboratory = true in [overlay], on brokers that carry nothing of value"
        raise section.error("dissemination", f"{links.dissemination} may loop and lose events", hint=hint)
    if not links.laboratory and not links.retransmit:
        raise section.error("retransmit", "is only ever false where laboratory = true")


def _addresses(section: ConfigSection, key: str, most: int) -> tuple[str, ...]:
    """Return addresses of other brokers in their canonical text."""
    found: list[Endpoint] = []
    for text in section.texts(key) or ():
        try:
            found.append(Endpoint.parse(text))
        except ValueError as error:
            raise section.error(key, str(error)) from None
    if len(set(found)) != len(found) or any(not endpoint.port for endpoint in found):
        raise section.error(key, "names an address twice, or a port 0", hint="each is another broker's HOST:PORT")
    if len(found) > most:
        raise section.error(key, f"names more than {most} brokers")
    return tuple(map(str, found))


def _names(section: ConfigSection, key: str, most: int, things: str) -> tuple[str, ...]:
    names = tuple(section.texts(key) or ())
    if len(names) > most:
        raise section.error(key, f"names more than {most} {things}")
    if any(len(name.encode()) > NAME_BYTES_MAX for name in names):
        raise section.error(key, f"has a name of more than {NAME_BYTES_MAX} bytes")
    return names


def _group(section: ConfigSection) -> Endpoint | None:
    group = _endpoint(section, "group")
    if group is None:
        return None
    try:
        multicast = ipaddress.IPv4Address(group.host).is_multicast
    except ValueError:
        multicast = False
    if not multicast or not group.port:
        raise section.error("group", "is an IPv4 multicast address and a port", hint="239.255.0.0/16 is for this")
    return group


def _interface(section: ConfigSection) -> str:
    text = section.text("interface")
    if text is None:
        return ""
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise section.error("interface", "is an IPv4 address that this machine has") from None


def _tls(section: ConfigSection | None) -> OverlayTls | None:
    if section is None:
        return None
    listen, ca = _endpoint(section, "listen"), section.file("ca")
    certificate, key = section.file("certificate"), section.file("key")
    section.finish()
    given = {"listen": listen, "certificate": certificate, "key": key, "ca": ca}
    if listen is None or certificate is None or key is None or ca is None:
        missing = next(name for name, value in given.items() if value is None)
        raise section.error(missing, "is missing", hint="links over TLS need listen, certificate, key and ca")
    return OverlayTls(listen, certificate, key, ca)


def _endpoint(section: ConfigSection, key: str) -> Endpoint | None:
    text = section.text(key)
    try:
        return None if text is None else Endpoint.parse(text)
    except ValueError as error:
        raise section.error(key, str(error)) from None
