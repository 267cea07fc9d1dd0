"""TLS and mutual TLS, with certificates made for each test."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import Authority
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from scripted import LOCAL, ScriptedClient, running

from plait_broker.server import listener
from plait_broker.server.config.config_reader import ConfigurationError
from plait_broker.server.config.configuration import Configuration, TlsFiles, parse_configuration
from plait_broker.server.endpoints import Endpoint
from plait_broker.server.server import BrokerServer
from plait_broker.server.tcp_connection import common_name
from plait_broker.server.tls import server_context
from plait_broker.status import describe_clients
from plait_core.wire.frame_types.session_frames import Code


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


Served = Callable[..., Configuration]


@pytest.fixture
def served(authority: Authority) -> Served:
    certificate, key = authority.sign("broker")

    def configuration(access: str = "", **changes: object) -> Configuration:
        files = replace(TlsFiles(certificate, key), **changes)  # type: ignore[arg-type]
        return replace(LOCAL, tls=files, access=parse_configuration(access.encode()).access)

    return configuration


async def test_tls(authority: Authority, served: Served) -> None:
    async with running(served()) as server:
        async with await ScriptedClient.connect(server.port, authority.client()) as client:
            await client.hello()
            await client.subscribe("true")
            await client.send_bytes(b"".join(client.published({"n": n}, bytes(1000)) for n in range(1000)))
            assert [(await client.delivered())["n"] for _ in range(1000)] == list(range(1000))
        async with await ScriptedClient.connect(server.port, authority.client()) as client:
            await client.say_hello()
            await client.send_bytes(b"\xff" * 64)
            await client.hung_up()


async def test_tls_beside_plain_connections(authority: Authority, served: Served) -> None:
    async with running(served(listen=Endpoint("127.0.0.1", 0))) as server:
        assert server.tls_port not in (0, server.port)
        async with await ScriptedClient.connect(server.port) as plain:
            await plain.hello("plain", 1)
            async with await ScriptedClient.connect(server.tls_port, authority.client()) as secret:
                await secret.hello("secret", 2)
                await secret.subscribe("true")
                await plain.publish({"n": 1})
                assert await secret.delivered() == {"n": 1}


async def test_connections_without_tls_are_closed(
    authority: Authority, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual_s = listener.HANDSHAKE_S
    monkeypatch.setattr(listener, "HANDSHAKE_S", 0.5)
    async with running(served()) as server:
        async with await ScriptedClient.connect(server.port) as plain:
            await plain.say_hello()
            await plain.hung_up()
        async with await ScriptedClient.connect(server.port) as silent:
            began = time.monotonic()
            await silent.hung_up()
            assert time.monotonic() - began < usual_s, "its own timeout counts"
        async with await ScriptedClient.connect(server.port, authority.client()) as client:
            await client.hello()
        assert server.broker is not None
        assert server.broker.counters.rejected["tls"] == 2
    assert server.facts()["connections"] == 0


async def test_a_broker_stops_while_tls_is_being_negotiated(served: Served) -> None:
    async with running(served()):
        pass
    server = BrokerServer(served())
    await server.start()
    strangers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
    await asyncio.sleep(0.05)
    await server.stop()
    for stranger in strangers:
        stranger.close()
    assert server.facts()["connections"] == 0


MUTUAL = """
    [[access.principals]]
    name = "gateway"
    certificate = "gw.example"
    publish = { allow = ["true"] }
    subscribe = { allow = [] }
    [[access.principals]]
    name = "person"
    token = "person-person"
"""


async def test_a_certificate_identifies_its_client(authority: Authority, served: Served) -> None:
    config = served(MUTUAL, client_ca=authority.file, client_certificate_required=False)
    async with running(config) as server:
        async with await ScriptedClient.connect(server.port, authority.client("gw.example")) as gateway:
            await gateway.hello()
            assert server.broker is not None
            assert [client["principal"] for client in describe_clients(server.broker)] == ["gateway"]
        for context in (authority.client("other.example"), authority.client("gw.example", "other"), authority.client()):
            async with await ScriptedClient.connect(server.port, context) as stranger:
                await stranger.say_hello()
                assert (await stranger.refused()).code == Code.AUTH
        async with await ScriptedClient.connect(server.port, authority.client()) as person:
            await person.hello(publisher=9, token="person-person")


async def test_a_certificate_may_be_required(authority: Authority, served: Served, tmp_path: Path) -> None:
    config = served(MUTUAL, client_ca=authority.file)
    theirs = Authority(tmp_path / "theirs")
    forged = authority.client()
    forged.load_cert_chain(*theirs.sign("gw.example"))
    async with running(config) as server:
        for context in (authority.client(), forged):
            with pytest.raises((ssl.SSLError, OSError, AssertionError)):
                async with await ScriptedClient.connect(server.port, context) as stranger:
                    await stranger.hello()
        async with await ScriptedClient.connect(server.port, authority.client("gw.example")) as gateway:
            await gateway.hello()


async def test_certificates_are_renewed_by_a_reload(authority: Authority, served: Served, tmp_path: Path) -> None:
    renewed = Authority(tmp_path / "renewed")
    certificate, key = renewed.sign("broker")
    async with running(served()) as server, await ScriptedClient.connect(server.port, authority.client()) as old:
        await old.hello("old", 1)
        server.reload(replace(server.configuration, tls=TlsFiles(certificate, key)))
        async with await ScriptedClient.connect(server.port, renewed.client()) as new:
            await new.hello("new", 2)
            await old.subscribe("true")
            await new.publish({"n": 1})
            assert await old.delivered() == {"n": 1}
        broken = TlsFiles(key, certificate)
        with pytest.raises(ConfigurationError, match="no certificate and its key"):
            server.reload(replace(server.configuration, tls=broken))
        async with await ScriptedClient.connect(server.port, renewed.client()) as new:
            await new.hello("new", 3)


def test_a_key_that_does_not_fit_its_certificate_is_reported(authority: Authority) -> None:
    certificate, key = authority.sign("one")
    _, other = authority.sign("two")
    locked = authority.folder / "locked.key"
    locked.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    for files in (TlsFiles(certificate, other), TlsFiles(certificate, locked), TlsFiles(key, certificate)):
        with pytest.raises(ConfigurationError, match="are no certificate and its key"):
            server_context(files)
    with pytest.raises(ConfigurationError, match="holds no certificates"):
        server_context(TlsFiles(certificate, key, client_ca=key))


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (None, ""),
        ({}, ""),
        ({"subject": ((("commonName", "a"),),)}, "a"),
        ({"subject": ((("countryName", "DE"),), (("commonName", "a"),))}, "a"),
        ({"subject": ((("commonName", "a"),), (("commonName", "b"),))}, ""),
    ],
)
def test_one_common_name_is_a_name(certificate: dict[str, object] | None, name: str) -> None:
    assert common_name(certificate) == name
