"""A whole broker in one asyncio loop: listeners, protocol, log and HTTP, from start to drain.

async with BrokerServer(Configuration(listen=Endpoint("127.0.0.1", 0))) as server:
    print(server.port)
"""

from __future__ import annotations

import asyncio
import logging
import random
import resource
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Final

from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.values import Json
from plait_core.wire import HANDSHAKE_VERSION, Close, encode_frame
from plait_core.wire.frame_types.session_frames import Code
from plait_net.multicast_socket import MulticastSocket
from plait_telemetry.recording import Recording

from ..broker import Broker
from ..log.event_log import EventLog, LogStats
from ..outputs import NOTHING_RECOVERED, Recovered
from ..overlay.discovery.announcements import DATAGRAM_BYTES_MAX, Announcements, Found
from ..settings import LinkSettings
from ..status import describe_clients, describe_links
from ..telemetry.periodic_samples import Sampler
from ..web.app import HttpApi, application, broker_facts
from ..web.http_server import HTTP_LIMITS, HttpServer
from ..web.metrics.broker_metrics import BrokerCollector, LoopLag, new_registry
from ..web.overlay_view import OverlayView
from ..web.sse import Feed, Sample
from .config.auth_config import AuthConfig, auth_config, generate_token, needs_token
from .config.configuration import Configuration
from .connection_limits import TLS_COST, ConnectionLimiter, ConnectionLimits
from .dialer import Dialer
from .driver import BrokerDriver
from .endpoints import Endpoint, bind, port_of
from .listener import Listener
from .process_stats import ProcessStats
from .tcp_connection import TcpConnection
from .tls import http_context, link_context, overlay_contexts, server_context

DESCRIPTORS_RESERVED: Final = 64
"""Open files reserved for the log, HTTP and libraries; connections may use the rest."""

STREAMED_MAX: Final = 200
"""Connections and clients up to which the stream contains each of them: some milliseconds to describe, twice a
second."""

OVERVIEW_LINGER_S: Final = 30.0
"""Time for which the page's history continues without an open page, so that it survives a reload."""

_AT_START_ONLY: Final = ("name", "listen", "http", "data", "retention", "overlay", "telemetry", "tables")

log: Final = logging.getLogger(__name__)


class BrokerServer:
    """One running broker."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.generated_token = generate_token() if needs_token(configuration) else None
        """Token for this run, generated if the configuration has no access rules and other machines can connect."""
        self.port = 0
        self.tls_port = 0
        """Port of the second listener, if TLS has one of its own."""
        self.http_port = 0
        self.overlay_port = 0
        """Port for other brokers: that for clients, unless they have one of their own."""
        self._auth: AuthConfig = auth_config(configuration, self.generated_token)
        self._running = AsyncExitStack()
        self._driver: BrokerDriver | None = None
        self._event_log: EventLog | None = None
        self._lag: LoopLag | None = None
        self._telemetry: Recording | None = None
        self._listeners: list[Listener] = []
        self._http_listener: Listener | None = None
        self._limiter = ConnectionLimiter(_within_descriptors(configuration.connection_limits))
        self._started_at = 0.0

    async def __aenter__(self) -> BrokerServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start to serve. Raise ListenFailed, LogError or ConfigurationError, and then leave nothing running."""
        async with AsyncExitStack() as started:
            await self._start(started)
            self._running = started.pop_all()

    async def stop(self) -> None:
        """Stop gracefully: accept no more clients, notify all, let them read what is queued, store what is staged."""
        await self._running.aclose()

    async def _start(self, started: AsyncExitStack) -> None:
        """Start all parts; they are stopped in the opposite order."""
        config = self.configuration
        context = server_context(config.tls) if config.tls is not None else None
        second = config.tls.listen if config.tls is not None else None
        sockets = _bound(started, config.listen)
        second_sockets = _bound(started, second) if second is not None else []
        self.port, self.tls_port = port_of(sockets), port_of(second_sockets) if second_sockets else 0
        overlay_sockets = _bound(started, config.overlay.tls.listen) if config.overlay.tls is not None else []
        self.overlay_port = port_of(overlay_sockets or sockets)
        await self._start_http(started)

        recovered = await self._open_log(started)
        driver = self._driver = BrokerDriver(self._new_broker(recovered), self._event_log)
        driver.broker.serves_http(self._http_url())
        await self._start_telemetry(started, driver.broker)
        started.push_async_callback(driver.stop)
        started.push_async_callback(self._drain)
        if second is not None:
            self._listen(started, second_sockets, context)
        self._listen(started, sockets, context if second is None else None)
        self._connect_overlay(started, overlay_sockets)
        for listener in self._listeners:
            listener.start()
        self._started_at = time.monotonic()
        log.info("broker %s listens on %s, http on %s", config.name, self.listen, self.http or "off")

    async def _start_telemetry(self, started: AsyncExitStack, broker: Broker) -> None:
        config = self.configuration.telemetry
        if config is not None:
            telemetry = broker.observe(config.settings)
            sampler, home = Sampler(broker, telemetry), f"broker-{broker.settings.name}"
            self._telemetry = Recording(broker.id, home, telemetry, sampler, config, time.time_ns() // 1000)
            await self._telemetry.start()
            started.push_async_callback(self._telemetry.stop)

    def _connect_overlay(self, started: AsyncExitStack, sockets: list[socket.socket]) -> None:
        """Start to connect to other brokers, accept their connections if they have a port of their own, and discover
        them."""
        config, driver = self.configuration, self._driver
        assert driver is not None, "the driver is started first"
        overlay, tls = config.overlay, config.overlay.tls
        context = link_context(config.tls) if config.tls is not None else None
        if tls is not None:
            accepting, context = overlay_contexts(tls)
            self._listen(started, sockets, accepting, vouched=True)
        dialer = Dialer(driver, context, vouched=tls is not None)
        started.push_async_callback(dialer.close)
        driver.start(dialer.dial)
        if overlay.links.discover:
            self._discover(started, driver)

    def _discover(self, started: AsyncExitStack, driver: BrokerDriver) -> None:
        """Announce this broker on its network segment, and listen to the announcements of others."""
        config, overlay = self.configuration, self.configuration.overlay
        advertised = overlay.advertise
        discovery = Announcements(
            overlay.name,
            overlay.links.secret,
            driver.broker.id,
            config.name,
            advertised.host if advertised is not None else "",
            advertised.port if advertised is not None else self.overlay_port,
            random.SystemRandom(),
            time.monotonic(),
        )

        def receive(datagram: bytes, host: str, now: float) -> None:
            found = discovery.receive(datagram, host, now)
            if found is not None:
                self._on_announcement(found)

        multicast = MulticastSocket(
            discovery,
            receive,
            group=(overlay.group.host, overlay.group.port),
            interface=self._interface(),
            bytes_max=DATAGRAM_BYTES_MAX,
            missing="brokers are not discovered",
        )
        started.callback(multicast.close)
        multicast.start()

    def _on_announcement(self, found: Found) -> None:
        """Handle the announcement of a broker on this network segment."""
        assert self._driver is not None, "discovery starts after the driver"
        self._driver.broker.broker_connections.learn_address(found.address, found.broker, time.monotonic())
        self._driver.settings_changed()

    def _interface(self) -> str:
        """Return the address to announce at: as configured, or that of the listener if it is one address."""
        overlay = self.configuration.overlay
        listen = overlay.tls.listen if overlay.tls is not None else self.configuration.listen
        return overlay.interface or (listen.host if listen.is_one_address else "")

    def _link_settings(self) -> LinkSettings:
        """Return the link settings with the address for other brokers, as far as it is known."""
        overlay = self.configuration.overlay
        listen = overlay.tls.listen if overlay.tls is not None else self.configuration.listen
        known = overlay.advertise
        if known is None and not listen.wildcard:
            known = Endpoint(listen.host, self.overlay_port)
        return replace(overlay.links, address="" if known is None else str(known), port=self.overlay_port)

    def _new_broker(self, recovered: Recovered) -> Broker:
        broker = Broker(
            replace(self.configuration.settings, linking=self._link_settings()),
            random.SystemRandom(),
            self._auth.gate,
            now=time.monotonic(),
            wall_us=time.time_ns() // 1000,
            recovered=recovered,
        )
        stats = ProcessStats(lambda: self._lag.last_s if self._lag is not None else 0.0)
        broker.explainer.observe_process(time.perf_counter, stats.facts)
        return broker

    async def _open_log(self, started: AsyncExitStack) -> Recovered:
        """Open the log in a thread, because repair and recovery read much, while health checks are already answered."""
        config = self.configuration
        if config.data is None:
            return NOTHING_RECOVERED
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "plait-log-opener") as thread:
            event_log = await loop.run_in_executor(
                thread, lambda: EventLog.open(str(config.data), retention=config.retention)
            )
            started.push_async_callback(_close_log, event_log)
            reported = len(event_log.notices)
            recovered = await loop.run_in_executor(thread, event_log.recover)
            for notice in event_log.notices[reported:]:
                log.error("%s", notice)
        self._event_log = event_log
        return recovered

    async def _start_http(self, started: AsyncExitStack) -> None:
        registry = new_registry(
            BrokerCollector(_version(), lambda: self.broker, self._log_stats, lambda: self._telemetry)
        )
        self._lag = LoopLag(registry)
        self._lag.start()
        started.callback(self._lag.stop)
        endpoint = self.configuration.http
        if endpoint is None:
            return
        sockets = _bound(started, endpoint)
        self.http_port = port_of(sockets)
        feed = Feed(self._sample)
        overlay_view = OverlayView(lambda: self.broker, self.query_brokers, _version())
        overview = Feed(overlay_view.sample, linger_s=OVERVIEW_LINGER_S)
        api = HttpApi(self, registry, feed, overview, self.configuration.tables, lambda: self._telemetry)
        server = HttpServer(application(api, self._may_read, loopback=endpoint.loopback))
        context = self._http_context(self.configuration)
        listener = Listener(
            sockets,
            ConnectionLimiter(HTTP_LIMITS),
            server.protocol,
            _http_refusal,
            Counter(),
            tls=context,
            cost=1.0 if context is None else TLS_COST,
        )
        self._http_listener = listener
        started.push_async_callback(server.stop)
        started.push_async_callback(overlay_view.close)
        started.push_async_callback(overview.close)
        started.push_async_callback(feed.close)
        started.push_async_callback(listener.close)
        await server.start()
        listener.start()

    @staticmethod
    def _http_context(configuration: Configuration) -> ssl.SSLContext | None:
        tls = configuration.tls
        return http_context(tls) if tls is not None and not tls.plain_http else None

    def _listen(
        self, started: AsyncExitStack, sockets: list[socket.socket], context: Any, *, vouched: bool = False
    ) -> None:
        driver = self._driver
        assert driver is not None, "the driver is started first"
        listener = Listener(
            sockets,
            self._limiter,
            lambda on_lost: TcpConnection(driver, on_lost, vouched=vouched),
            _refusal,
            driver.broker.counters.rejected,
            tls=context,
            cost=1.0 if context is None else TLS_COST,
        )
        if not vouched:
            self._listeners.append(listener)
        else:
            listener.start()
        started.push_async_callback(listener.close)

    async def _drain(self) -> None:
        assert self._driver is not None, "the driver was started"
        log.info("draining: %d sessions", len(self._driver.broker.sessions))
        cut = await self._driver.drain(self.configuration.connection_limits.drain_s)
        if cut:
            log.warning("%d connections did not read their data in time, and are aborted", cut)

    # --- other settings -----------------------------------------------------------------------------------------------

    def reload(self, configuration: Configuration) -> None:
        """Apply other limits, access rules and certificates; raise ConfigurationError and change nothing if they are
        invalid."""
        before = self.configuration
        contexts = server_context(configuration.tls) if configuration.tls is not None else None
        http_contexts = self._http_context(configuration)
        kept: dict[str, Any] = {key: getattr(before, key) for key in _AT_START_ONLY if key != "name"}
        linking = replace(self._link_settings(), secret=configuration.overlay.links.secret)
        settings = replace(configuration.settings, name=before.name, linking=linking)
        merged = replace(configuration, settings=settings, **kept)
        if self.generated_token is None and needs_token(merged):
            self.generated_token = generate_token()
        self._auth = auth_config(merged, self.generated_token)
        self._limiter.limits = _within_descriptors(merged.connection_limits)
        for listener in self._listeners:
            if listener.tls is not None and contexts is not None:
                listener.tls = contexts
        if self._http_listener is not None and self._http_listener.tls is not None and http_contexts is not None:
            self._http_listener.tls = http_contexts
        self.configuration = merged
        if self._driver is not None:
            self._driver.broker.reload(merged.settings, self._auth.gate, time.monotonic())
            self._driver.settings_changed()
        for key in _AT_START_ONLY:
            if getattr(configuration, key) != getattr(before, key):
                log.warning("%s has changed, which takes effect at the next start", key)
        if _tls_endpoint(configuration) != _tls_endpoint(before):
            log.warning("the address for TLS has changed, which takes effect at the next start")
        log.info("the configuration was reloaded")

    # --- status -------------------------------------------------------------------------------------------------------

    @property
    def broker(self) -> Broker | None:
        """The protocol object, or None during the start."""
        return self._driver.broker if self._driver is not None else None

    @property
    def listen(self) -> str:
        """Address for clients, with the actual port."""
        return str(Endpoint(self.configuration.listen.host, self.port))

    @property
    def http(self) -> str:
        """Address of HTTP; empty without HTTP."""
        endpoint = self.configuration.http
        return str(Endpoint(endpoint.host, self.http_port)) if endpoint is not None else ""

    def _http_url(self) -> str:
        """Return the URL of HTTP for clients; a server on all addresses has no host to name."""
        endpoint = self.configuration.http
        if endpoint is None:
            return ""
        scheme = "http" if self._http_context(self.configuration) is None else "https"
        return f"{scheme}://{Endpoint('' if endpoint.wildcard else endpoint.host, self.http_port)}"

    @property
    def status(self) -> str:
        """`ready`, or the reason why not."""
        broker, stats = self.broker, self._log_stats()
        if broker is None or not self._started_at:
            return "starting"
        if broker.draining:
            return "draining"
        if broker.overlay.counts["incarnation_claimed"]:  # other brokers treat that one as this one restarted
            return "another broker has started with this one's log"
        return "ready" if stats is None or stats.failing is None else f"the log fails: {stats.failing}"

    def facts(self) -> Json:
        """Return the status of the server."""
        stats = self._log_stats()
        return {
            "listen": self.listen,
            "http": self.http or "off",
            "version": _version(),
            "uptime_s": round(time.monotonic() - self._started_at, 1),
            "connections": self._limiter.connections,
            "loop_lag_s": round(self._lag.last_s, 4) if self._lag is not None else 0.0,
            "telemetry": self._telemetry.facts() if self._telemetry is not None else None,
            "log": None
            if stats is None
            else {
                "records": stats.records,
                "bytes": stats.bytes,
                "last_position": stats.last_position,
                "queue_items": stats.queue_items,
                "failing": stats.failing,
            },
        }

    async def query_brokers(self, brokers: Iterable[int], topic: str, query: Json) -> dict[int, Json]:
        """Query brokers, which may include this one; return the results of those that answered in time."""
        assert self._driver is not None, "the driver was started"
        return await self._driver.query_brokers(brokers, topic, query)

    def _sample(self) -> Sample:
        """Return a sample for the stream. With many connections it contains the broker only; lists then show the
        clients."""
        broker = self.broker
        if broker is None:
            return {}
        crowded = self._limiter.connections > STREAMED_MAX or len(broker.sessions) > STREAMED_MAX
        return {
            "broker": broker_facts(self),
            "links": {} if crowded else {str(link["id"]): link for link in map(_without_times, describe_links(broker))},
            "clients": {} if crowded else {client["publisher"]: client for client in describe_clients(broker)},
        }

    def _may_read(self, token: str, address: str) -> bool:
        return self._auth.may_read(token, address)

    def _log_stats(self) -> LogStats | None:
        return self._event_log.stats() if self._event_log is not None else None


def _bound(started: AsyncExitStack, endpoint: Endpoint) -> list[socket.socket]:
    sockets = bind(endpoint)
    for bound in sockets:
        started.callback(bound.close)
    return sockets


async def _close_log(event_log: EventLog) -> None:
    """Close the log in a thread, because it waits for the disk."""
    with ThreadPoolExecutor(1, "plait-log-closer") as thread:
        await asyncio.get_running_loop().run_in_executor(thread, event_log.close)


def _refusal(reason: str) -> bytes:
    """Encode the reply to a refused connection, in the version that every client can read."""
    return encode_frame(Close(Code.LIMIT, reason[:CLOSE_TEXT_MAX], retryable=True), HANDSHAKE_VERSION)


def _http_refusal(reason: str) -> bytes:
    return b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"


def _within_descriptors(limits: ConnectionLimits) -> ConnectionLimits:
    """Limit connections to the number of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(1, soft - DESCRIPTORS_RESERVED)
    if soft == resource.RLIM_INFINITY or limits.connections_max <= possible:
        return limits
    log.warning(
        "%d connections are allowed, but open files only for %d (ulimit -n %d)", limits.connections_max, possible, soft
    )
    return replace(limits, connections_max=possible)


def _tls_endpoint(configuration: Configuration) -> tuple[Endpoint | None, bool] | None:
    tls = configuration.tls
    return (tls.listen, tls.plain_http) if tls is not None else None


def _without_times(link: Json) -> Json:
    """Return the facts of a connection that do not change with each sample."""
    return {key: value for key, value in link.items() if key not in ("open_s", "silent_s")}


def _version() -> str:
    try:
        return version("plait-broker")
    except PackageNotFoundError:
        return "unknown"
