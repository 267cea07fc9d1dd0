"""TLS and tokens end to end: a broker process, the SDK, the command line, and test certificates."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from certificates import HERE, Authority
from processes import BrokerProcess, broker_process

import plait
from plait.protocol import hints

PATIENCE_S = 20.0
HTTP = "127.0.0.1:0"


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def others(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "others")


@asynccontextmanager
async def secured(
    ours: Authority, *, tls: str = "", access: str = "open = true", hosts: tuple[str, ...] = HERE, http: str = "off"
) -> AsyncIterator[BrokerProcess]:
    """Run a broker with TLS."""
    certificate, key = ours.sign("broker", hosts=hosts)
    config = ours.folder / "broker.toml"
    config.write_text(
        f'listen = "127.0.0.1:0"\nhttp = "{http}"\n'
        f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n{tls}\n[access]\n{access}\n'
    )
    async with broker_process("--config", config) as broker:
        await broker.ready()
        yield broker


def url(broker: BrokerProcess, host: str = "localhost", scheme: str = "plaits") -> str:
    return f"{scheme}://{host}:{broker.port}"


async def hears_itself(client: plait.Client) -> None:
    async with client.subscribe("n > 0") as events:
        await client.publish({"n": 1}, b"x" * 50_000)
        event = await asyncio.wait_for(anext(aiter(events)), PATIENCE_S)
        assert (event["n"], len(event.payload)) == (1, 50_000)


async def refused(address: str, tls: ssl.SSLContext | None = None) -> plait.Error:
    """Return the error of a first attempt that must fail."""
    with pytest.raises(plait.Error) as raised:
        await plait.connect(address, tls=tls, reconnect=False, timeout=PATIENCE_S)
    return raised.value


# --- the SDK ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_without_a_certificate_of_ones_own(ours: Authority, host: str) -> None:
    async with secured(ours) as broker, plait.connect(url(broker, host), tls=ours.client()) as client:
        await hears_itself(client)


async def test_with_a_certificate_of_ones_own(ours: Authority) -> None:
    access = '[[access.principals]]\nname = "feed"\ncertificate = "the feed"'
    async with secured(ours, tls=f'client_ca = "{ours.file}"', access=access) as broker:
        async with plait.connect(url(broker), tls=ours.client("the feed")) as client:
            await hears_itself(client)
        stranger = await refused(url(broker), ours.client("a stranger"))
        assert isinstance(stranger, plait.AuthFailed)
        assert not stranger.retryable


async def test_a_certificate_that_is_asked_for_and_not_given(ours: Authority, others: Authority) -> None:
    other = ours.client()
    other.load_cert_chain(*others.sign("the feed"))
    async with secured(ours, tls=f'client_ca = "{ours.file}"') as broker:
        for context in (ours.client(), other):
            error = await refused(url(broker), context)
            assert (type(error), error.hint) == (plait.ConnectionLost, hints.NEEDS_CERTIFICATE)


async def test_a_certificate_is_no_ones_business_where_a_token_will_do(ours: Authority) -> None:
    tls = f'client_ca = "{ours.file}"\nclient_certificate = "optional"'
    access = 'token = "open-sesame"\n[[access.principals]]\nname = "feed"\ncertificate = "the feed"'
    async with secured(ours, tls=tls, access=access) as broker:
        async with plait.connect(url(broker), tls=ours.client(), auth="open-sesame") as client:
            await hears_itself(client)
        async with plait.connect(url(broker), tls=ours.client("the feed")) as client:
            await hears_itself(client)
        assert isinstance(await refused(url(broker), ours.client()), plait.AuthFailed)


async def test_an_authority_that_is_not_trusted(ours: Authority, others: Authority) -> None:
    async with secured(ours) as broker:
        for context in (others.client(), None):
            error = await refused(url(broker), context)
            assert (type(error), error.hint) == (plait.ConnectionLost, hints.NOT_TRUSTED)
            assert f"plaits://localhost:{broker.port}" in error.message


async def test_a_certificate_for_another_name(ours: Authority) -> None:
    async with secured(ours, hosts=("broker.example",)) as broker:
        for host in HERE:
            assert (await refused(url(broker, host), ours.client())).hint == hints.OTHER_NAME


async def test_a_connection_fails_when_one_end_has_no_tls(ours: Authority) -> None:
    async with secured(ours) as broker:
        assert (await refused(url(broker, scheme="plait"))).hint == hints.PERHAPS_TLS
    async with broker_process("--listen", "127.0.0.1:0", "--http", "off") as broker:
        await broker.ready()
        assert (await refused(url(broker), ours.client())).hint == hints.NO_TLS
    assert (await refused(url(broker), ours.client())).hint == hints.NO_LISTENER


async def test_a_timeout_after_retries_reports_the_certificate_error(ours: Authority, others: Authority) -> None:
    async with secured(ours) as broker:
        with pytest.raises(plait.ConnectionLost, match="not connected to .* within 0.5 s: .*certificate") as raised:
            await plait.connect(url(broker), tls=others.client(), timeout=0.5)
    assert raised.value.hint == hints.NOT_TRUSTED


# --- HTTP -------------------------------------------------------------------------------------------------------------


async def asked(address: str, context: ssl.SSLContext | bool = True, token: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(verify=context, trust_env=False, headers=headers) as http:
        return await http.get(address)


async def test_http_uses_tls_without_a_client_certificate(ours: Authority, others: Authority) -> None:
    access = 'token = "open-sesame"'
    async with secured(ours, tls=f'client_ca = "{ours.file}"', access=access, http="0.0.0.0:0") as broker:
        http = broker.http.replace("0.0.0.0", "127.0.0.1")  # beyond this machine a broker authenticates its clients
        assert (await asked(f"https://{http}/healthz", ours.client())).status_code == 200
        assert (await asked(f"https://{http}/metrics", ours.client())).status_code == 401
        metrics = await asked(f"https://{http}/metrics", ours.client(), "open-sesame")
        assert "plait_connections 0.0" in metrics.text
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await asked(f"https://{http}/healthz", others.client())
        with pytest.raises(httpx.RemoteProtocolError):
            await asked(f"http://{http}/healthz")


async def test_http_stays_plain_when_configured(ours: Authority) -> None:
    async with secured(ours, tls="plain_http = true", http=HTTP) as broker:
        assert (await asked(f"http://{broker.http}/healthz")).status_code == 200


async def test_http_has_its_new_certificate_when_the_configuration_is_read_again(
    ours: Authority, others: Authority
) -> None:
    async with secured(ours, http=HTTP) as broker:
        certificate, key = others.sign("broker")
        for old, new in zip(("broker.pem", "broker.key"), (certificate, key), strict=True):
            (ours.folder / old).write_bytes(new.read_bytes())
        broker.signal(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    answer = await asked(f"https://{broker.http}/healthz", others.client())
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.05)
        assert answer.status_code == 200


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def run(home: Path, *arguments: str, stdin: str = "", **variables: str) -> tuple[int, str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLAIT_", "SSL_"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plait", *arguments, env=kept | {"XDG_CONFIG_HOME": str(home), **variables},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 2 * PATIENCE_S)
    assert process.returncode is not None
    assert "Traceback" not in err.decode()
    return process.returncode, out.decode(), err.decode()


async def test_a_context_with_certificates(ours: Authority, home: Path) -> None:
    certificate, key = ours.sign("the feed")
    async with secured(ours, tls=f'client_ca = "{ours.file}"', http=HTTP) as broker:
        files = ("--ca", str(ours.file), "--certificate", str(certificate), "--key", str(key))
        saved = await run(home, "context", "add", "lab", url(broker), "--http", broker.http, *files, "--use")
        assert (saved[0], saved[2]) == (0, "")
        published = await run(home, "pub", "x=1", "--confirm", "broker", "--json")
        assert json.loads(published[1])["confirmed"] == 1
        code, listed, _ = await run(home, "ls", "brokers", "--json")
        assert (code, json.loads(listed)["counters"]["admitted"]) == (0, 1)
        code, _, said = await run(home, "pub", "x=1", "--url", url(broker))
        assert (code, "CERTIFICATE_VERIFY_FAILED" in said, "--ca FILE" in said) == (1, True, True)
        code, _, said = await run(home, "pub", "x=1", "--url", url(broker), SSL_CERT_FILE=str(ours.file))
        assert (code, "--certificate FILE --key FILE" in said) == (1, True)
        code, _, said = await run(home, "ls", "brokers", "--url", url(broker), "--http", f"https://{broker.http}")
        assert (code, "--ca FILE" in said) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plait://localhost", "--ca", "ca.pem"], "certificates are for plaits://"),
        (["plaits://localhost", "--key", "ca.pem"], "--certificate"),
        (["plaits://localhost", "--ca", "none.pem"], "none.pem"),
    ],
)
async def test_certificates_that_are_of_no_use(ours: Authority, home: Path, arguments: list[str], message: str) -> None:
    in_place = [str(ours.folder / argument) if argument.endswith(".pem") else argument for argument in arguments]
    code, _, said = await run(home, "context", "add", "lab", *in_place)
    assert (code, message in said) == (2, True)
    assert not home.exists()


async def test_a_file_that_holds_no_certificate(ours: Authority, home: Path) -> None:
    (ours.folder / "odd.pem").write_text("odd")
    code, _, said = await run(home, "context", "add", "lab", "plaits://localhost", "--ca", str(ours.folder / "odd.pem"))
    assert (code, "holds no certificates" in said) == (1, True)


async def test_tokens_at_the_prompt(home: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open-sesame\n")
    async with broker_process(
        "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0", "--token-file", tmp_path / "token"
    ) as broker:
        await broker.ready()
        plain, http = f"plait://127.0.0.1:{broker.port}", broker.http.replace("0.0.0.0", "127.0.0.1")
        code, _, said = await run(home, "pub", "x=1", "--url", plain)
        assert (code, "TOKEN@HOST" in said, "--token -" in said) == (1, True, True)
        code, _, said = await run(home, "sub", "x > 0", "--wait", "1", PLAIT_URL=plain.replace("//", "//wrong@"))
        assert (code, "TOKEN@HOST" in said, "wrong" in said) == (1, True, False)
        with_token = plain.replace("//", "//open-sesame@")
        assert (await run(home, "pub", "x=1", "--confirm", "broker", "--url", with_token))[0] == 0
        assert (await run(home, "pub", "x=1", "--confirm", "broker", PLAIT_URL=with_token))[0] == 0
        code, _, said = await run(home, "ls", "brokers", "--url", plain, "--http", http)
        assert (code, "401" in said, "TOKEN@HOST" in said) == (1, True, True)
        add = ("context", "add", "lab", plain, "--http", http, "--token", "-", "--use")
        assert (await run(home, *add, stdin="open-sesame\n"))[0] == 0
        assert (await run(home, "pub", "x=1", "--confirm", "broker"))[0] == 0
        code, listed, _ = await run(home, "ls", "brokers", "--json")
        assert (code, json.loads(listed)["counters"]["admitted"]) == (0, 3)
