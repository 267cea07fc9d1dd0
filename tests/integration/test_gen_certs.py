"""`plait gen certs`: brokers and clients accept its certificates, and no others."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from processes import broker_process

import plait
from plait.commands.root import plait as command

HTTP_OFF = ("--listen", "127.0.0.1:0", "--http", "off", "--log-level", "warning")


def made(directory: Path, *arguments: str) -> str:
    result = CliRunner().invoke(command, ["gen", "certs", str(directory), *arguments])
    assert result.exit_code == 0, result.output
    return result.output


async def test_a_broker_and_a_client_know_each_other_by_them(tmp_path: Path) -> None:
    made(tmp_path, "--broker", "north=north.example.org", "--client", "feed")
    section = (
        f'[tls]\ncertificate = "{tmp_path}/north.pem"\nkey = "{tmp_path}/north.key"\n'
        f'client_ca = "{tmp_path}/clients-ca.pem"\n'
        '[[access.principals]]\nname = "feed"\ncertificate = "feed"\n'
    )
    (tmp_path / "broker.toml").write_text(section)
    async with broker_process("--config", tmp_path / "broker.toml", *HTTP_OFF) as broker:
        await broker.ready()
        url = f"plaits://127.0.0.1:{broker.port}"
        trusting = ssl.create_default_context(cafile=str(tmp_path / "brokers-ca.pem"))
        trusting.load_cert_chain(tmp_path / "feed.pem", tmp_path / "feed.key")
        async with plait.connect(url, tls=trusting) as client, client.subscribe("x == 1") as ones:
            await client.publish({"x": 1})
            assert (await ones.next(20))["x"] == 1
        nobody = ssl.create_default_context(cafile=str(tmp_path / "brokers-ca.pem"))
        nobody.load_cert_chain(tmp_path / "north.pem", tmp_path / "north.key")
        with pytest.raises(plait.Error):
            await plait.connect(url, tls=nobody, reconnect=False)


def test_more_are_signed_by_the_same_authority_and_keys_are_private(tmp_path: Path) -> None:
    made(tmp_path, "--broker", "north")
    authority, north = (tmp_path / "brokers-ca.pem").read_bytes(), (tmp_path / "north.pem").read_bytes()
    said = made(tmp_path, "--broker", "north", "--broker", "south=10.0.0.2")
    assert "north.pem exists already" in said
    assert (tmp_path / "brokers-ca.pem").read_bytes() == authority
    assert (tmp_path / "north.pem").read_bytes() == north
    for key in tmp_path.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert not (tmp_path / "clients-ca.pem").exists()


def test_an_authority_without_its_key_is_reported(tmp_path: Path) -> None:
    made(tmp_path, "--broker", "north")
    (tmp_path / "brokers-ca.key").unlink()
    result = CliRunner().invoke(command, ["gen", "certs", str(tmp_path), "--broker", "south"])
    assert result.exit_code == 1
    assert "brokers-ca.key" in result.output
