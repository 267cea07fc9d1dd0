"""Configuration: valid files, one-line errors for invalid ones, and secrets that stay secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from plait_broker import ALL, Caller, OpenGate
from plait_broker.command import broker
from plait_broker.server.config.auth_config import auth_config, generate_token, needs_token
from plait_broker.server.config.configuration import (
    Configuration,
    ConfigurationError,
    parse_configuration,
    read_configuration,
)
from plait_broker.server.endpoints import Endpoint
from plait_core.space import IntRange, Schema
from plait_core.wire import Hello, Role

CANARY = "canary-0123456789-secret"


def configured(text: str, **variables: str) -> Configuration:
    return parse_configuration(text.encode(), environment=variables)


def mistake(text: str, **variables: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        configured(text, **variables)
    message = str(raised.value)
    assert "\n" not in message
    assert CANARY not in message
    return message


def hello(token: str | None) -> Hello:
    return Hello(1, 1, Role.CLIENT, "c", 1, token=token)


# --- good ones --------------------------------------------------------------------------------------------------------


def test_without_settings_a_broker_serves_this_machine_alone() -> None:
    found = configured("")
    assert (str(found.listen), str(found.http), found.data) == ("127.0.0.1:4680", "127.0.0.1:4681", None)
    assert found == Configuration()
    assert not needs_token(found)
    assert isinstance(auth_config(found, None).gate, OpenGate)


def test_a_second_broker_of_a_machine_has_another_name_and_page() -> None:
    found = configured("listen = '127.0.0.1:4690'")
    assert (found.name, str(found.http)) == ("broker-4690", "127.0.0.1:4691")
    assert configured("listen = '127.0.0.1:4690'\nname = 'broker'").name == "broker"
    assert str(configured("listen = '127.0.0.1:0'").http) == "127.0.0.1:4681"


def test_every_setting_can_be_given(tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem", "ca.pem"):
        (tmp_path / name).write_text("x")
    file = tmp_path / "broker.toml"
    file.write_text("""
        name = "north"
        listen = "0.0.0.0:5000"
        http = "off"
        data = "events"
        [retention]
        bytes_max = 1_048_576
        age_s_max = 60
        [tls]
        listen = "[::]:5001"
        certificate = "cert.pem"
        key = "key.pem"
        client_ca = "ca.pem"
        client_certificate = "optional"
        [limits]
        heartbeat_s = 2
        sessions_max = 7
        log_filter = "kind = 'trade'"
        connections_max = 9
        drain_s = 1.5
        [access]
        open = true
    """)
    found = read_configuration(file, environment={})
    assert (found.name, str(found.listen), found.http) == ("north", "0.0.0.0:5000", None)
    assert found.data == tmp_path / "events", "relative to the file"
    assert found.retention.bytes_max == 1_048_576
    assert found.settings.heartbeat_s == 2
    assert found.settings.sessions_max == 7
    assert found.settings.log_filter == "kind == 'trade'"
    assert found.settings.name == "north"
    assert (found.connection_limits.connections_max, found.connection_limits.drain_s) == (9, 1.5)
    assert found.tls is not None
    assert found.tls.certificate == tmp_path / "cert.pem"
    assert not found.tls.client_certificate_required
    assert found.access.open


def test_options_override_variables_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("name = 'file'\nlisten = '127.0.0.1:1'\nhttp = '127.0.0.1:2'\n[limits]\nheartbeat_s = 1.0\n")
    variables = {
        "PLAIT_BROKER__LISTEN": "127.0.0.1:11",
        "PLAIT_BROKER__NAME": "variable",
        "PLAIT_BROKER__LIMITS__HEARTBEAT_S": "2.5",
        "PLAIT_BROKER__LIMITS__SESSIONS_MAX": "12",
        "PATH": "/bin",
    }
    found = read_configuration(file, {"name": ("--name", "option")}, variables)
    assert (found.name, found.listen.port, str(found.http)) == ("option", 11, "127.0.0.1:2")
    assert (found.settings.heartbeat_s, found.settings.sessions_max) == (2.5, 12)


def test_a_token_overrides_a_token_however_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    document = b"[access]\ntoken = 'from-the-document'\n"
    options = {"access.token_file": ("--token-file", str(tmp_path / "token"))}
    found = parse_configuration(document, None, options)
    gate = auth_config(found, None).gate
    assert gate.admit(hello("from-a-file"), Caller()) is not None
    assert gate.admit(hello("from-the-document"), Caller()) is None


def test_a_variable_may_hold_principals() -> None:
    said = "[{name='a', token='aaaaaaaa', publish={allow=['x>1']}, subscribe={allow=[]}}]"
    found = configured("", PLAIT_BROKER__ACCESS__PRINCIPALS=said)
    principal = auth_config(found, None).gate.admit(hello("aaaaaaaa"), Caller())
    assert principal is not None
    assert principal.publish.permit({"x": 2})
    assert not principal.subscribe.permit({"x": 2})


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:4680", "::1", 4680), ("broker.example:65535", "broker.example", 65535)],
)
def test_endpoints_print_as_they_are_read(text: str, host: str, port: int) -> None:
    assert Endpoint.parse(text) == Endpoint(host, port)
    assert str(Endpoint.parse(text)) == text


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)]
    + [("::", False), ("10.0.0.1", False), ("localhost.example", False), ("127.0.0.1.example", False)],
)
def test_loopback_addresses_are_this_machine(host: str, loopback: bool) -> None:
    assert Endpoint(host, 1).loopback is loopback


# --- access -----------------------------------------------------------------------------------------------------------


def test_principals_come_in_by_token_or_certificate_and_have_their_rules() -> None:
    found = configured("""
        [[access.principals]]
        name = "feed"
        token = "feed-feed-feed"
        publish = { allow = ["symbol == 'IBM'"], deny = ["price < 0"] }
        subscribe = { allow = ["true"] }
        [[access.principals]]
        name = "gateway"
        certificate = "gw.example"
    """)
    gate = auth_config(found, None).gate
    feed = gate.admit(hello("feed-feed-feed"), Caller())
    assert feed is not None
    assert feed.publish.permit({"symbol": "IBM", "price": 1})
    assert not feed.publish.permit({"symbol": "IBM", "price": -1})
    assert feed.subscribe == ALL
    gateway = gate.admit(hello(None), Caller("", "gw.example"))
    assert gateway is not None
    assert (gateway.name, gateway.publish) == ("gateway", ALL)
    assert gate.admit(hello(None), Caller("", "other.example")) is None
    assert gate.admit(hello("wrong"), Caller("", "gw.example")) is None, "a wrong token is not excused by a certificate"
    assert gate.admit(hello(None), Caller()) is None


@pytest.mark.parametrize("listen", ["0.0.0.0:4680", "[::]:4680", "broker.example:4680"])
def test_beyond_this_machine_a_random_token_is_required_by_default(listen: str) -> None:
    found = configured(f"listen = '{listen}'")
    assert needs_token(found)
    drawn = generate_token()
    gate = auth_config(found, drawn).gate
    assert gate.admit(hello(drawn), Caller()) is not None
    assert gate.admit(hello(None), Caller()) is None
    assert gate.admit(hello(generate_token()), Caller()) is None
    with pytest.raises(AssertionError):
        auth_config(found, None)


def test_http_needs_its_token_or_the_right_to_all_events() -> None:
    found = configured("""
        http = "0.0.0.0:4681"
        [access]
        http_token = "for-metrics"
        [[access.principals]]
        name = "all"
        token = "hears-everything"
        [[access.principals]]
        name = "some"
        token = "hears-some"
        publish = { allow = ["true"] }
        subscribe = { allow = ["x == 1"] }
    """)
    doors = auth_config(found, None)
    assert doors.may_read("for-metrics", "")
    assert doors.may_read("hears-everything", "")
    assert not doors.may_read("hears-some", "")
    assert not doors.may_read("", "")
    assert doors.gate.admit(hello("for-metrics"), Caller()) is None, "it opens HTTP alone"


def test_open_access_does_not_open_http_beyond_this_machine() -> None:
    found = configured("http = '0.0.0.0:4681'\n[access]\nopen = true")
    assert needs_token(found)
    doors = auth_config(found, "drawn-token")
    assert isinstance(doors.gate, OpenGate)
    assert doors.may_read("drawn-token", "")
    assert not doors.may_read("anything", "")
    assert not doors.may_read("", "")


@pytest.mark.parametrize(
    "text",
    [
        "[access]",
        "[access]\nprincipals = []",
        "[access]\nopen = false",
        "[access]\ntoken = ''",
        "[access]\ntoken = '        '",
        "[access]\ntoken = 'short'",
        "[access]\ntoken_env = 'NOT_THERE'",
        "[access]\ntoken_file = '/does/not/exist'",
        "[access]\ntoken_file = '/dev/null'",
        "[access]\ntoken = 'aaaaaaaa'\ntoken_env = 'X'",
        "[access]\nopen = true\ntoken = 'aaaaaaaa'",
        "[[access.principals]]\nname = 'a'",
        "[[access.principals]]\ntoken = 'aaaaaaaa'",
        "[[access.principals]]\nname = 'a b'\ntoken = 'aaaaaaaa'",
        "[[access.principals]]\nname = 'a'\ntoken = 'aaaaaaaa'\npublish = { allow = ['true'] }",
        "[[access.principals]]\nname = 'a'\ntoken = 'aaaaaaaa'\npublish = {}\nsubscribe = {}",
        "[[access.principals]]\nname = 'a'\ntoken = 'aaaaaaaa'\npublish = { deny = [] }\nsubscribe = { allow = [] }",
        "[[access.principals]]\nname = 'a'\ntoken = 'aaaaaaaa'\n[[access.principals]]\nname = 'a'\ntoken = 'bbbbbbbb'",
        "[[access.principals]]\nname = 'a'\ntoken = 'aaaaaaaa'\n[[access.principals]]\nname = 'b'\ntoken = 'aaaaaaaa'",
        "[[access.principals]]\nname='a'\ncertificate='c'\n[[access.principals]]\nname='b'\ncertificate='c'",
        "access = 3",
        "access = [1]",
        "[access]\nprincipals = 3",
        "[access]\nprincipals = [3]",
        "[access]\nprincpals = []",
    ],
)
def test_incomplete_or_unknown_access_rules_are_refused(text: str) -> None:
    assert mistake(text).startswith("configuration: access")


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lissten = 'x'", "configuration: lissten: is not a known key here (did you mean listen?)"),
        ("[limits]\nheartbeat = 1.0", "limits.heartbeat: is not a known key"),
        ("[limits]\nheartbeat_s = 'often'", "limits.heartbeat_s: is not a number"),
        ("[limits]\nheartbeat_s = true", "limits.heartbeat_s: is not a number"),
        ("[limits]\nheartbeat_s = 0.0", "limits.heartbeat_s: is between 0.001 and 86400"),
        ("[limits]\nheartbeat_s = nan", "limits.heartbeat_s: is between"),
        ("[limits]\nheartbeat_s = inf", "limits.heartbeat_s: is between"),
        ("[limits]\nsessions_max = 0", "limits.sessions_max: is between 1 and"),
        ("[limits]\nsessions_max = 1.5", "limits.sessions_max: is not a whole number"),
        ("[limits]\nslow_fraction = 1.5", "limits.slow_fraction: is between 0.01 and 1"),
        ("[limits]\nunconfirmed_max = 5000", "limits.unconfirmed_max: is above duplicate_window"),
        ("[limits]\nname = 'x'", "limits.name: is not a known key"),
        ("[limits]\nlog_filter = 'a ='", "limits.log_filter: "),
        ("limits = []", "limits: is not a table, written [limits]"),
        ("listen = 4680", "listen: is not a text in quotes"),
        ("listen = '4680'", "listen: is written HOST:PORT, like 127.0.0.1:4680"),
        ("listen = '::1:4680'", "listen: an IPv6 address goes into brackets"),
        ("listen = 'h:99999'", "listen: the port is a number from 0 to 65535"),
        ("listen = 'h:²'", "listen: the port is a number"),
        ("listen = '127.0.0.1:4681'\nhttp = '127.0.0.1:4681'", "listen: is the address of another listener"),
        ("name = ''", "name: is a text of 1 to"),
        ("name = 'a b'", "name: is 1 to 64 letters"),
        ("data = \"a\\u0000b\"", "data: is a text of 1 to"),
        ("[tls]\ncertificate = '/none'\nkey = '/none'", "tls.certificate: /none cannot be read: No such file"),
        ("[tls]\nkey = '/dev/null'", "tls.certificate: is missing"),
        ("[tls]\ncertificate = '/dev/null'\nkey = '/dev/null'\nclient_certificate = 'never'", "tls.client_certificate"),
        ("[tls]\ncertificate='/dev/null'\nkey='/dev/null'\nclient_certificate='optional'", "needs client_ca"),
        ("[retention]\nbytes_max = -1", "retention.bytes_max: is between"),
        ("a = ", "configuration: is not TOML: Invalid value (at end of document)"),
        ("x = [" * 5000, "configuration: "),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_by_its_key(text: str, says: str) -> None:
    assert says in mistake(text)


def test_a_bad_filter_is_shown_where_it_goes_wrong() -> None:
    said = mistake(
        "[[access.principals]]\nname = 'a'\ntoken = 'aaaaaaaa'\n"
        "publish = { allow = [\"symbol == 'IBM' and and\"] }\nsubscribe = { allow = [] }"
    )
    assert said.startswith("configuration: access.principals[1].publish.allow: ")
    assert "at column 21" in said


def test_a_mistake_names_the_file_variable_or_option_to_correct(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("listen = 'nowhere'")
    cases: list[tuple[dict[str, str], dict[str, tuple[str, str]], str]] = [
        ({}, {}, str(file)),
        ({"PLAIT_BROKER__LISTEN": "here"}, {}, "PLAIT_BROKER__LISTEN"),
        ({"PLAIT_BROKER__LISTEN": "here"}, {"listen": ("--listen", "there")}, "--listen"),
        ({"PLAIT_BROKER__LIMITS__NO_SUCH": "1", "PLAIT_BROKER__LISTEN": "h:1"}, {}, "PLAIT_BROKER__LIMITS__NO_SUCH"),
        ({"PLAIT_BROKER__": "1", "PLAIT_BROKER__LISTEN": "h:1"}, {}, "PLAIT_BROKER__"),
    ]
    for variables, options, blamed in cases:
        with pytest.raises(ConfigurationError) as raised:
            read_configuration(file, options, variables)
        assert raised.value.source == blamed


def test_files_that_are_none(tmp_path: Path) -> None:
    for file, says in [(tmp_path / "none.toml", "No such file"), (tmp_path, "Is a directory"), (Path("a\0b"), "path")]:
        with pytest.raises(ConfigurationError, match=says):
            read_configuration(file, environment={})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_configuration(tmp_path / "binary.toml", environment={})
    (tmp_path / "large.toml").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(ConfigurationError, match="is over"):
        read_configuration(tmp_path / "large.toml", environment={})


KEYS = st.sampled_from(
    ["name", "listen", "http", "data", "limits", "tls", "access", "retention", "principals", "token", "allow", "open"]
    + ["heartbeat_s", "sessions_max", "publish", "certificate", "key", "bytes_max", "x"]
)
VALUES = st.sampled_from(
    ["'off'", "'127.0.0.1:0'", "''", "1", "-1", "1.5", "true", "[]", "{}", "['true']", "[{}]", "nan", "2020-01-01"]
    + ["[{name='a', token='aaaaaaaa'}]", "9" * 40, "'\\u0000'", "''''''"]
)
LINES = st.one_of(
    st.builds("{} = {}".format, KEYS, VALUES),
    st.builds("[{}]".format, KEYS),
    st.builds("[[{}.{}]]".format, KEYS, KEYS),
    st.builds("{}.{} = {}".format, KEYS, KEYS, VALUES),
)


@given(st.one_of(st.binary(max_size=200), st.lists(LINES, max_size=8).map("\n".join).map(str.encode)))
def test_any_bytes_are_a_configuration_or_one_mistake(document: bytes) -> None:
    try:
        assert isinstance(parse_configuration(document), Configuration)
    except ConfigurationError as error:
        assert "\n" not in str(error)


@given(st.dictionaries(KEYS, st.one_of(VALUES, st.text(max_size=30)), max_size=4))
def test_any_variables_are_a_configuration_or_one_mistake(variables: dict[str, str]) -> None:
    named = {f"PLAIT_BROKER__{key.upper()}": value for key, value in variables.items()}
    try:
        assert isinstance(parse_configuration(b"", environment=named), Configuration)
    except ConfigurationError as error:
        assert error.source


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_a_secret_is_in_no_representation(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{CANARY}-file\n")
    found = configured(
        f"[access]\ntoken = '{CANARY}'\nhttp_token_env = 'T'\n"
        f"[[access.principals]]\nname = 'p'\ntoken_file = '{tmp_path / 'token'}'",
        T=f"{CANARY}-env",
    )
    assert CANARY not in repr(found)
    assert "principal" not in repr(found).lower()
    assert CANARY not in repr(auth_config(found, None))


@pytest.mark.parametrize(
    "text",
    [
        f"[access]\ntoken = '{CANARY} with space'",
        f"[access]\ntoken = ['{CANARY}']",
        f"[access]\ntoken = '{CANARY}'\ntoken_file = 'x'",
        f"[access]\nopen = true\ntoken = '{CANARY}'",
        f"[access]\ntoken = '{CANARY}é'",
        f"[access]\ntoken = '{CANARY}",
        f"[[access.principals]]\nname = 'a'\ntoken = '{CANARY}'\n[[access.principals]]\nname='b'\ntoken='{CANARY}'",
    ],
)
def test_a_mistake_in_a_secret_does_not_print_it(text: str) -> None:
    mistake(text)  # which looks for the canary


# --- the command ------------------------------------------------------------------------------------------------------


def test_check_config(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("name = 'north'\nhttp = 'off'")
    good = CliRunner().invoke(broker, ["--config", str(file), "--check-config"])
    assert (good.exit_code, good.stdout) == (
        0,
        "the configuration is valid: name=north listen=127.0.0.1:4680 http=off\n",
    )
    json_too = CliRunner().invoke(broker, ["--check-config", "--json"])
    assert json_too.stdout.startswith('{"valid": true, "name": "broker"')
    file.write_text("nam = 'north'")
    bad = CliRunner().invoke(broker, ["--config", str(file), "--check-config"])
    assert bad.exit_code == 2
    assert bad.stderr == f"plait broker: {file}: nam: is not a known key here (did you mean name?)\n"


def test_certificates_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "pem").write_text("nothing")
    (tmp_path / "broker.toml").write_text("[tls]\ncertificate = 'pem'\nkey = 'pem'")
    bad = CliRunner().invoke(broker, ["--config", str(tmp_path / "broker.toml"), "--check-config"])
    assert bad.exit_code == 2
    assert "are no certificate and its key" in bad.stderr


def test_telemetry_has_a_place_or_is_off(tmp_path: Path) -> None:
    assert parse_configuration(b"").telemetry is None
    options = {"telemetry.directory": ("--telemetry", str(tmp_path))}
    found = parse_configuration(b"[telemetry]\nrecords_per_s_max = 7\nbytes_max = 2_000_000", options=options).telemetry
    assert found is not None
    assert (found.directory, found.settings.records_per_s_max, found.limits.budget_bytes) == (tmp_path, 7, 2_000_000)
    with pytest.raises(ConfigurationError, match="directory: is missing"):
        parse_configuration(b"[telemetry]\nrecords_per_s_max = 7")


def test_telemetry_may_have_an_event_space(tmp_path: Path) -> None:
    options = {"telemetry.directory": ("--telemetry", str(tmp_path))}
    space, path = Schema.of({"kind": IntRange(0, 7)}), tmp_path / "space.json"
    path.write_text(space.to_json())
    found = parse_configuration(f"[telemetry]\nspace = '{path}'".encode(), options=options).telemetry
    assert found is not None
    assert found.settings.space == space
    for wrong in (b"{}", b"\xff"):
        path.write_bytes(wrong)
        with pytest.raises(ConfigurationError, match="no event space"):
            parse_configuration(f"[telemetry]\nspace = '{path}'".encode(), options=options)


@pytest.mark.parametrize(
    ("links", "said"),
    [(["h"], "HOST:PORT"), (["h:0"], "port 0"), (["h:1", "h:1"], "twice"), (["h:99999"], "the port is a number")],
)
def test_links_that_lead_nowhere(links: list[str], said: str) -> None:
    options = [part for link in links for part in ("--link", link)]
    refused = CliRunner().invoke(broker, [*options, "--check-config"])
    assert refused.exit_code == 2
    assert "--link" in refused.output
    assert said in refused.output


def test_links_and_their_secret_come_from_the_file_too(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("open-sesame-42\n")
    document = b'[overlay]\nlinks = ["north:4680", "[::1]:4681"]\nsecret_file = "secret"'
    found = parse_configuration(document, tmp_path / "plait.toml")
    assert found.settings.linking.links == ("north:4680", "[::1]:4681")
    assert found.settings.linking.secret == "open-sesame-42"
    assert "sesame" not in repr(found)


def test_how_other_brokers_are_found() -> None:
    document = b"""
        [overlay]
        seeds = ["10.0.0.1:4680", "south:4681"]
        discover = true
        degree = 4
        links_max = 20
        advertise = "north.example:4680"
        name = "staging"
        group = "239.255.9.9:4700"
        interface = "10.0.0.3"
    """
    found = parse_configuration(document).overlay
    assert found.links.seeds == ("10.0.0.1:4680", "south:4681")
    assert (found.links.degree, found.links.links_max, found.links.discover) == (4, 20, True)
    assert found.links.selects_links
    assert (str(found.advertise), found.name, str(found.group)) == ("north.example:4680", "staging", "239.255.9.9:4700")
    assert not parse_configuration(b'[overlay]\nlinks = ["a:1"]').overlay.links.selects_links, (
        "it keeps the configured links alone"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('seeds = ["h"]', "overlay.seeds: is written HOST:PORT"),
        ('seeds = ["h:1", "h:1"]', "overlay.seeds: names an address twice"),
        ("degree = 0", "overlay.degree: is between 1 and 64"),
        ("degree = 12", "overlay.links_max: is above degree"),
        ('advertise = "h:0"', "overlay.advertise: has a port"),
        ('group = "10.0.0.1:4680"', "overlay.group: is an IPv4 multicast address"),
        ('interface = "eth0"', "overlay.interface: is an IPv4 address"),
        (f'name = "{"n" * 129}"', "overlay.name: is at most 128 bytes"),
        ("discovr = true", "did you mean discover?"),
    ],
)
def test_mistakes_about_other_brokers(line: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(f"[overlay]\n{line}".encode())
    assert said in str(caught.value)


def test_seeds_and_discovery_come_from_the_command_line() -> None:
    options = ["--seed", "a:1", "--seed", "b:2", "--discover", "--advertise", "c:3", "--check-config"]
    assert CliRunner().invoke(broker, options).exit_code == 0
    refused = CliRunner().invoke(broker, ["--seed", "a:0", "--check-config"])
    assert refused.exit_code == 2
    assert "--seed" in refused.output


def test_a_strategy_is_chosen_by_name() -> None:
    found = configured('[overlay]\ndissemination = "shortest-paths"\n')
    assert found.overlay.links.dissemination == "shortest-paths"


def test_a_strategy_that_is_not_there_or_not_allowed_is_refused() -> None:
    assert "is one of" in mistake('[overlay]\ndissemination = "fastest"\n')
    assert "laboratory = true" in mistake("[overlay]\nretransmit = false\n")
