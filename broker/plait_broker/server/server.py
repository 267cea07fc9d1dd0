"""A whole broker in one asyncio loop: listeners, protocol, log, HTTP, from start to drain.

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
from ..web.app import Pages, application, broker_facts
from ..web.http_server import HTTP_DOOR, HttpServer
from ..web.metrics.broker_metrics import BrokerCollector, LoopLag, new_registry
from ..web.overlay_view import OverlayView
from ..web.sse import Feed, Sample
from .config.auth_config import AuthConfig, auth_config, draw_token, needs_token
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
"""Of open files: for the log, HTTP and whatever libraries open. Connections leave them free."""

STREAMED_MAX: Final = 200
"""Connections and clients that the stream follows one by one: some milliseconds to describe, twice a second."""

OVERVIEW_LINGER_S: Final = 30.0
"""The page's history goes on for so long without anyone, so that it survives a reload."""

_AT_START_ONLY: Final = ("name", "listen", "http", "data", "retention", "overlay", "telemetry", "tables")

log: Final = logging.getLogger(__name__)


class BrokerServer:
    """One broker, while it runs."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.drawn_token = draw_token() if needs_token(configuration) else None
        """The token for this run, when nothing says who may come in and others than this machine could."""
        self.port = 0
        self.tls_port = 0
        """Of the second listener, when TLS has one of its own."""
        self.http_port = 0
        self.overlay_port = 0
        """Where other brokers connect: the port above, unless they have one of their own."""
        self._entrance: AuthConfig = auth_config(configuration, self.drawn_token)
        self._running = AsyncExitStack()
        self._driver: BrokerDriver | None = None
        self._event_log: EventLog | None = None
        self._lag: LoopLag | None = None
        self._telemetry: Recording | None = None
        self._dialling: Dialer | None = None
        self._listeners: list[Listener] = []
        self._http_listener: Listener | None = None
        self._door = ConnectionLimiter(_within_descriptors(configuration.door))
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
        """Serve. Raises ListenFailed, LogError or ConfigurationError, and then nothing is left running."""
        async with AsyncExitStack() as started:
            await self._start(started)
            self._running = started.pop_all()

    async def stop(self) -> None:
        """Stop as one should: take nobody new, tell everyone, let them take what waits, store what is to be stored."""
        await self._running.aclose()

    async def _start(self, started: AsyncExitStack) -> None:
        """What is begun here is ended in the opposite order."""
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
        driver.broker.serves_http(self._http_told())
        await self._start_telemetry(started, driver.broker)
        started.push_async_callback(driver.stop)
        started.push_async_callback(self._drain)
        driver.start()
        if second is not None:
            self._listen(started, second_sockets, context)
        self._listen(started, sockets, context if second is None else None)
        self._find_others(started, overlay_sockets)
        for listener in self._listeners:
            listener.start()
        self._started_at = time.monotonic()
        log.info("broker %s listens on %s, http on %s", config.name, self.listen, self.http or "off")

    async def _start_telemetry(self, started: AsyncExitStack, broker: Broker) -> None:
        place = self.configuration.telemetry
        if place is not None:
            telemetry = broker.observe(place.settings)
            sampler, home = Sampler(broker, telemetry), f"broker-{broker.settings.name}"
            self._telemetry = Recording(broker.id, home, telemetry, sampler, place, time.time_ns() // 1000)
            await self._telemetry.start()
            started.push_async_callback(self._telemetry.stop)

    def _find_others(self, started: AsyncExitStack, sockets: list[socket.socket]) -> None:
        """Connect to other brokers, let them connect where they alone do, and look for them on the network."""
        config, driver = self.configuration, self._driver
        assert driver is not None, "it is the broker that meets others"
        overlay, tls = config.overlay, config.overlay.tls
        context = link_context(config.tls) if config.tls is not None else None
        if tls is not None:
            accepting, context = overlay_contexts(tls)
            self._listen(started, sockets, accepting, vouched=True)
        self._dialling = Dialer(driver, context, vouched=tls is not None)
        started.push_async_callback(self._dialling.close)
        if not overlay.links.discover:
            return
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
            found = discovery.hear(datagram, host, now)
            if found is not None:
                self._found(found)

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

    def _found(self, found: Found) -> None:
        """A broker on this network segment has announced itself."""
        assert self._driver is not None, "who looks for others is there"
        self._driver.broker.neighbourhood.heard_of(found.address, found.broker, time.monotonic())
        self._driver.settings_changed()

    def _interface(self) -> str:
        """Where to announce: as told, or where the broker listens if that is one address."""
        overlay = self.configuration.overlay
        listen = overlay.tls.listen if overlay.tls is not None else self.configuration.listen
        return overlay.interface or (listen.host if listen.is_one_address else "")

    def _linking(self) -> LinkSettings:
        """With where others can connect, as far as that is known before anyone has."""
        overlay = self.configuration.overlay
        listen = overlay.tls.listen if overlay.tls is not None else self.configuration.listen
        known = overlay.advertise
        if known is None and not listen.wildcard:
            known = Endpoint(listen.host, self.overlay_port)
        return replace(overlay.links, address="" if known is None else str(known), port=self.overlay_port)

    def _new_broker(self, recovered: Recovered) -> Broker:
        broker = Broker(
            replace(self.configuration.settings, linking=self._linking()),
            random.SystemRandom(),
            self._entrance.gate,
            now=time.monotonic(),
            wall_us=time.time_ns() // 1000,
            recovered=recovered,
        )
        broker.explaining.tracing.stopwatch = time.perf_counter
        broker.explaining.resources = ProcessStats(lambda: self._lag.last_s if self._lag is not None else 0.0).facts
        return broker

    async def _open_log(self, started: AsyncExitStack) -> Recovered:
        """Opening may repair and recovering reads a lot: in a thread, while health already answers."""
        config = self.configuration
        if config.data is None:
            return NOTHING_RECOVERED
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "plait-log-opener") as thread:
            event_log = await loop.run_in_executor(
                thread, lambda: EventLog.open(str(config.data), retention=config.retention)
            )
            started.push_async_callback(_close_log, event_log)
            told = len(event_log.notices)
            recovered = await loop.run_in_executor(thread, event_log.recover)
            for notice in event_log.notices[told:]:
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
        panorama = OverlayView(lambda: self.broker, self.ask, _version())
        overview = Feed(panorama.sample, linger_s=OVERVIEW_LINGER_S)
        pages = Pages(self, registry, feed, overview, self.configuration.tables, lambda: self._telemetry)
        server = HttpServer(application(pages, self._may_read, loopback=endpoint.loopback))
        context = self._http_context(self.configuration)
        listener = Listener(
            sockets,
            ConnectionLimiter(HTTP_DOOR),
            server.protocol,
            _http_refusal,
            Counter(),
            tls=context,
            cost=1.0 if context is None else TLS_COST,
        )
        self._http_listener = listener
        started.push_async_callback(server.stop)
        started.push_async_callback(panorama.close)
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
        assert driver is not None, "connections come to a broker that is there"
        listener = Listener(
            sockets,
            self._door,
            lambda left: TcpConnection(driver, left, vouched=vouched),
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
        assert self._driver is not None, "what drains has been started"
        log.info("draining: %d sessions", len(self._driver.broker.sessions))
        cut = await self._driver.drain(self.configuration.door.drain_s)
        if cut:
            log.warning("%d connections did not take what was theirs in time, and are cut", cut)

    # --- other settings -----------------------------------------------------------------------------------------------

    def reload(self, configuration: Configuration) -> None:
        """Go on with other limits, access rules and certificates; ConfigurationError, and nothing has changed."""
        was = self.configuration
        contexts = server_context(configuration.tls) if configuration.tls is not None else None
        http_contexts = self._http_context(configuration)
        kept: dict[str, Any] = {key: getattr(was, key) for key in _AT_START_ONLY if key != "name"}
        linking = replace(self._linking(), secret=configuration.overlay.links.secret)
        settings = replace(configuration.settings, name=was.name, linking=linking)
        merged = replace(configuration, settings=settings, **kept)
        if self.drawn_token is None and needs_token(merged):
            self.drawn_token = draw_token()
        self._entrance = auth_config(merged, self.drawn_token)
        self._door.limits = _within_descriptors(merged.door)
        for listener in self._listeners:
            if listener.tls is not None and contexts is not None:
                listener.tls = contexts
        if self._http_listener is not None and self._http_listener.tls is not None and http_contexts is not None:
            self._http_listener.tls = http_contexts
        self.configuration = merged
        if self._driver is not None:
            self._driver.broker.reload(merged.settings, self._entrance.gate, time.monotonic())
            self._driver.settings_changed()
        for key in _AT_START_ONLY:
            if getattr(configuration, key) != getattr(was, key):
                log.warning("%s has changed, which takes effect at the next start", key)
        if _tls_place(configuration) != _tls_place(was):
            log.warning("where TLS is spoken has changed, which takes effect at the next start")
        log.info("the configuration was read again")

    # --- what is shown ------------------------------------------------------------------------------------------------

    @property
    def broker(self) -> Broker | None:
        """The protocol object; None before it is there."""
        return self._driver.broker if self._driver is not None else None

    @property
    def listen(self) -> str:
        """Where clients connect, with the port that it has become."""
        return str(Endpoint(self.configuration.listen.host, self.port))

    @property
    def http(self) -> str:
        """Where HTTP is served; empty when it is not."""
        endpoint = self.configuration.http
        return str(Endpoint(endpoint.host, self.http_port)) if endpoint is not None else ""

    def _http_told(self) -> str:
        """The same as clients are told it: who listens everywhere has no host of its own to name."""
        endpoint = self.configuration.http
        if endpoint is None:
            return ""
        scheme = "http" if self._http_context(self.configuration) is None else "https"
        return f"{scheme}://{Endpoint('' if endpoint.wildcard else endpoint.host, self.http_port)}"

    @property
    def status(self) -> str:
        """`ready`, or why it is not."""
        broker, stats = self.broker, self._log_stats()
        if broker is None or not self._started_at:
            return "starting"
        if broker.draining:
            return "draining"
        if broker.joining.overlay.counts["incarnation_claimed"]:  # the others take that one for this one's next life
            return "another broker has started with this one's log"
        return "ready" if stats is None or stats.failing is None else f"the log fails: {stats.failing}"

    def facts(self) -> dict[str, Any]:
        """What the face knows beside the broker."""
        stats = self._log_stats()
        return {
            "listen": self.listen,
            "http": self.http or "off",
            "version": _version(),
            "uptime_s": round(time.monotonic() - self._started_at, 1),
            "connections": self._door.connections,
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

    async def ask(self, brokers: Iterable[int], topic: str, question: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Ask brokers, of which this may be one; the answers of those who gave one in time."""
        assert self._driver is not None, "there is a broker to ask"
        return await self._driver.ask(brokers, topic, question)

    def _sample(self) -> Sample:
        """For the stream. In a crowd only the broker itself is sampled: who is there is then read by list."""
        broker = self.broker
        if broker is None:
            return {}
        crowded = self._door.connections > STREAMED_MAX or len(broker.sessions) > STREAMED_MAX
        return {
            "broker": broker_facts(self),
            "links": {} if crowded else {str(link["id"]): link for link in map(_lasting, describe_links(broker))},
            "clients": {} if crowded else {client["publisher"]: client for client in describe_clients(broker)},
        }

    def _may_read(self, token: str, address: str) -> bool:
        return self._entrance.may_read(token, address)

    def _log_stats(self) -> LogStats | None:
        return self._event_log.stats() if self._event_log is not None else None


def _bound(started: AsyncExitStack, endpoint: Endpoint) -> list[socket.socket]:
    sockets = bind(endpoint)
    for bound in sockets:
        started.callback(bound.close)
    return sockets


async def _close_log(event_log: EventLog) -> None:
    """It waits for the disk, which may take its time."""
    with ThreadPoolExecutor(1, "plait-log-closer") as thread:
        await asyncio.get_running_loop().run_in_executor(thread, event_log.close)


def _refusal(reason: str) -> bytes:
    """What one who is not let in is told, in the version that everyone can read."""
    return encode_frame(Close(Code.LIMIT, reason[:CLOSE_TEXT_MAX], retryable=True), HANDSHAKE_VERSION)


def _http_refusal(reason: str) -> bytes:
    return b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"


def _within_descriptors(limits: ConnectionLimits) -> ConnectionLimits:
    """No more connections than there can be open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(1, soft - DESCRIPTORS_RESERVED)
    if soft == resource.RLIM_INFINITY or limits.connections_max <= possible:
        return limits
    log.warning(
        "%d connections are allowed, but open files only for %d (ulimit -n %d)", limits.connections_max, possible, soft
    )
    return replace(limits, connections_max=possible)


def _tls_place(configuration: Configuration) -> tuple[Endpoint | None, bool] | None:
    tls = configuration.tls
    return (tls.listen, tls.plain_http) if tls is not None else None


def _lasting(link: dict[str, Any]) -> dict[str, Any]:
    """What of a connection is not different each time one looks."""
    return {key: value for key, value in link.items() if key not in ("open_s", "silent_s")}


def _version() -> str:
    try:
        return version("plait-broker")
    except PackageNotFoundError:
        return "unknown"
