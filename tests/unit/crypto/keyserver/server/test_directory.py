"""The content of a vault: what it keeps, and what is refused although the vault opens."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from random import Random
from typing import Any

import pytest
import sealed_cases
from sealed_world import HOUR_US, NOON_US, areas

from plait_crypto.keyserver import VaultClosed
from plait_keyserver.server.directory import Secrets


@pytest.fixture(scope="module")
def secrets() -> Secrets:
    return Secrets.new(areas(), NOON_US, Random(1))


def test_secrets_survive_their_encoding(secrets: Secrets) -> None:
    rotated = secrets.rotated(NOON_US + HOUR_US, Random(2), at_once=False)
    again = Secrets.decode(rotated.encode())
    assert again.encode() == rotated.encode()
    assert [each.digest for each in again.served()] == [each.digest for each in rotated.served()]


def master_secrets() -> list[Any]:
    """Return encodings of master secrets to refuse."""
    cases = sealed_cases.cases("keys/master_secrets.json")
    return [pytest.param(case["steps"][0]["bytes"], id=f"{case['attack']}, {case['comment']}") for case in cases]


@pytest.mark.parametrize("encoded", master_secrets())
def test_a_vault_with_a_malformed_master_secret_stays_closed(secrets: Secrets, encoded: Any) -> None:
    broken = b64encode(sealed_cases.Runner(secrets.realm.parameters.groups).bytes_of(encoded)).decode()
    given = json.loads(secrets.encode())
    for changed in ({**given, "master": broken}, {**given, "former": {**given, "ends_us": 0, "master": broken}}):
        with pytest.raises(VaultClosed):
            Secrets.decode(json.dumps(changed).encode())


def test_a_vault_with_other_malformed_parts_stays_closed(secrets: Secrets) -> None:
    given = json.loads(secrets.encode())
    parameters = b64decode(given["parameters"])
    for name, broken in {
        "schema": ["", "{}", None, given["schema"][:-1]],
        "parameters": ["", "é", 5, given["parameters"] + "!", b64encode(parameters[:-1]).decode()],
        "master": [None, [], given["master"] + "!", given["master"][:-4]],
        "former": [[], {}, "AAAA"],
        "begins_us": [None, "noon"],
    }.items():
        for each in broken:
            with pytest.raises(VaultClosed):
                Secrets.decode(json.dumps({**given, name: each}).encode())
    for whole in (b"", b"[]", b"{}", b"\xff", b"[" * 2000):
        with pytest.raises(VaultClosed):
            Secrets.decode(whole)
