"""The key server without I/O: keys are issued by policy, and denials reveal nothing."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sealed_world import HOUR_US, NOON_US, World, areas, foundations

from plait_core import parse
from plait_crypto import (
    Authority,
    Draft,
    Keyring,
    PublisherKeys,
    Realm,
    Sealer,
    SealError,
    SealInvalid,
    SubscriberKeys,
)
from plait_crypto.authority import finished
from plait_crypto.keyserver import (
    Admission,
    Caller,
    Certified,
    Decisions,
    Enrolments,
    Policy,
    PolicyInvalid,
    Record,
    Refusal,
    RequestHandler,
    RequestInvalid,
    ServedRealm,
    VaultClosed,
    close_vault,
    open_vault,
    read_line,
    read_request,
    reply_line,
)
from plait_crypto.keyserver.limits import (
    REQUEST_BYTES_MAX,
    REQUESTS_BURST,
    STRANGER_REQUESTS_BURST,
    TOKEN_LIFE_US,
    TOKENS_MAX,
)
from plait_crypto.keyserver.messages import read_reply

POLICY = """
[holders.alice]
publish = ["area < 64"]
subscribe = ["area < 16", "area >= 64 and location == 'Paris'"]

[holders.bob]
subscribe = ["location == 'London'"]
"""


class Office:
    """A request handler with its registry in memory."""

    def __init__(self, policy: str = POLICY) -> None:
        self.world = World.of(areas())
        self.rng, self.enrolments = Random(1), Enrolments()
        self.decisions = Decisions(Policy.from_toml(policy))
        self.admission = Admission()
        self.handler = self.served(ServedRealm(Authority(self.world.realm, foundations()[1])))
        self.record: Record | None = None

    def served(self, *realms: ServedRealm) -> RequestHandler:
        self.handler = RequestHandler(realms, self, self.decisions)
        return self.handler

    def decide(self, **changes: Any) -> None:
        self.decisions = replace(self.decisions, **changes)
        self.handler.use(self.decisions)

    def redeem(self, token: str, now_us: int) -> str | None:
        return self.enrolments.redeem(token, now_us)

    def certify(self, holder: str, request: str, now_us: int) -> Certified:
        if request != "a request":
            raise SealInvalid("no certificate request")
        return Certified(f"certificate of {holder}", "5e1a")

    def send(
        self, holder: str, line: bytes, now_us: int = NOON_US, address: str = "10.0.0.1", certificate: str = ""
    ) -> dict[str, Any]:
        caller = Caller(address, holder, certificate)
        refused = self.admission.admit(caller, now_us)
        if refused is None:
            reply, self.record = finished(self.handler.answer(caller, line, now_us, self.rng))
        else:
            reply = reply_line(refused)
        assert reply.endswith(b"\n")
        found: dict[str, Any] = json.loads(reply)
        return found

    def keys(
        self,
        holder: str,
        filter: str,
        role: str = "subscriber",
        now_us: int = NOON_US,
        certificate: str = "",
        **more: Any,
    ) -> Any:
        ask = {"v": 1, "ask": "keys", "role": role, "filter": filter, "epoch": 0, **more}
        return self.send(holder, json.dumps(ask).encode(), now_us, certificate=certificate)

    def realms(self, holder: str = "alice", now_us: int = NOON_US, known: Sequence[str] = ()) -> Any:
        return self.send(holder, json.dumps({"v": 1, "ask": "realm", "known": known}).encode(), now_us)


@pytest.fixture
def office() -> Office:
    return Office()


# --- policy -----------------------------------------------------------------------------------------------------------


def test_keys_that_are_issued_open_what_the_filter_matches_and_nothing_else(office: Office) -> None:
    world, groups = office.world, office.world.groups
    publishing = office.keys("alice", "area < 32", "publisher", instance=5)
    reading = office.keys("alice", "area < 8")
    sealer = Sealer(world.realm, publishing["publisher"])
    sealer.add(PublisherKeys.decode(groups, b64decode(publishing["keys"])))
    ring = Keyring(world.realm)
    ring.add(SubscriberKeys.decode(groups, b64decode(reading["keys"])))
    sealed = [
        sealer.seal(Draft({"area": area, "location": "Paris"}, b"p", area), now_us=NOON_US, randomness=office.rng)
        for area in (7, 8)
    ]
    opened = ring.open(sealed[0].clear, sealed[0].envelope, now_us=NOON_US, randomness=office.rng)
    assert opened.attributes["area"] == 7
    assert opened.publisher == publishing["publisher"]
    with pytest.raises(SealError):
        ring.open(sealed[1].clear, sealed[1].envelope, now_us=NOON_US, randomness=office.rng)


OWN = "subscribe of alice: area < 16; area >= 64 and location == 'Paris'"


@pytest.mark.parametrize(
    ("holder", "role", "filter", "message", "hint"),
    [
        ("alice", "subscriber", "area < 17", "no filter under 'subscribe' of alice", OWN),
        ("alice", "subscriber", "area >= 64", "no filter under 'subscribe' of alice", OWN),
        ("alice", "subscriber", "true", "no filter under 'subscribe' of alice", OWN),
        ("alice", "subscriber", "area < 8 or area == 20", "no filter under 'subscribe' of alice", OWN),
        ("alice", "publisher", "area < 65", "no filter under 'publish' of alice", "publish of alice: area < 64"),
        ("bob", "publisher", "location == 'London'", "'publish' of bob", "bob has no filter under 'publish'"),
        ("bob", "subscriber", "area < 8", "'subscribe' of bob", "subscribe of bob: location == 'London'"),
        ("carol", "subscriber", "area < 8", "carol is revoked, or not in the policy", "ask who runs"),
        ("", "subscriber", "area < 8", "only holders with a certificate", "enrol with a token"),
    ],
)
def test_a_denied_request_names_the_rule(
    office: Office, holder: str, role: str, filter: str, message: str, hint: str
) -> None:
    reply = office.keys(holder, filter, role, **({"instance": 1} if role == "publisher" else {}))
    assert (reply["ok"], reply["error"]) == (False, "denied")
    assert message in reply["message"]
    assert reply["hint"].startswith(hint)
    assert office.record is not None
    assert (office.record.outcome, bool(office.record.details["why"])) == ("denied", True)


def test_a_denied_caller_learns_nothing_of_others(office: Office) -> None:
    others = {"alice": ("bob", "London"), "bob": ("alice", "area", "Paris")}
    for holder, words in others.items():
        reply = office.keys(holder, "size > 3")
        assert not [word for word in words if word in reply["message"] + reply["hint"]]
    stranger = office.keys("", "area < 8")
    assert not [word for word in ("alice", "bob", "area", "London") if word in stranger["message"] + stranger["hint"]]


def test_a_revoked_holder_and_an_unknown_one_get_one_reply(office: Office) -> None:
    office.decide(revoked={"alice": NOON_US})
    revoked = office.keys("alice", "area < 8")
    assert office.record is not None
    assert office.record.details["why"] == "revoked"
    unknown = office.keys("carol", "area < 8")
    assert office.record.details["why"] == "not in the policy", "the audit log has the exact reason"
    assert {**revoked, "message": ""} == {**unknown, "message": ""}
    assert revoked["message"].replace("alice", "carol") == unknown["message"]


def test_the_filters_that_a_reply_lists_are_bounded() -> None:
    office = Office("[holders.many]\nsubscribe = [" + ", ".join(f'"area == {n}"' for n in range(9)) + "]\n")
    hint = office.keys("many", "area > 60")["hint"]
    assert hint == "subscribe of many: area == 0; area == 1; area == 2; area == 3; and 5 more"


@pytest.mark.parametrize("filter", ["area < 16", "area >= 100 and location == 'Paris'", "area in [1, 2, 3]"])
def test_keys_are_issued_for_filters_that_a_policy_filter_covers(office: Office, filter: str) -> None:
    assert office.keys("alice", filter)["ok"]


def test_publisher_ids_of_different_holders_and_processes_differ() -> None:
    office = Office('[holders.a]\npublish = ["true"]\n[holders.b]\npublish = ["true"]\n')
    ids = [
        office.keys(holder, "true", "publisher", instance=each)["publisher"] for holder in "ab" for each in (1, 2**31)
    ]
    assert len(set(ids)) == 4
    assert ids[0] >> 32 == ids[1] >> 32 != ids[2] >> 32


# --- epochs -----------------------------------------------------------------------------------------------------------


def test_the_next_epoch_is_issued_only_near_the_end_of_this_one(office: Office) -> None:
    assert office.keys("alice", "area < 8", epoch=1)["error"] == "epoch"
    assert office.keys("alice", "area < 8", epoch=1, now_us=23 * HOUR_US)["ok"]
    assert office.keys("alice", "area < 8", epoch=0, now_us=25 * HOUR_US)["error"] == "epoch"


def test_a_revoked_holder_gets_nothing_more_and_cannot_enrol_again(office: Office) -> None:
    token = office.enrolments.make("alice", NOON_US, office.rng)
    office.decide(revoked={"alice": NOON_US})
    assert office.keys("alice", "area < 8")["error"] == "denied"
    ask = {"v": 1, "ask": "enrol", "token": token, "request": "a request"}
    assert office.send("", json.dumps(ask).encode())["error"] == "denied"
    assert office.keys("bob", "location == 'London'")["ok"]
    office.decide(revoked={})
    assert office.keys("alice", "area < 8")["error"] == "denied", "revocations are permanent"


def test_a_policy_that_grants_less_counts_at_once(office: Office) -> None:
    assert office.keys("bob", "location == 'London'")["ok"]
    office.decide(policy=Policy.from_toml("[holders.bob]\n"))
    assert office.keys("bob", "location == 'London'")["error"] == "denied"


# --- enrolling ------------------------------------------------------------------------------------------------------


def test_a_token_is_good_once(office: Office) -> None:
    token = office.enrolments.make("bob", NOON_US, office.rng)
    line = json.dumps({"v": 1, "ask": "enrol", "token": token, "request": "a request"}).encode()
    assert office.send("", line)["certificate"] == "certificate of bob"
    assert office.record is not None
    assert (office.record.caller.holder, office.record.caller.certificate) == ("bob", "5e1a")
    used = office.send("", line)
    assert used["error"] == "denied"
    unknown = json.dumps({"v": 1, "ask": "enrol", "token": "never made", "request": "a request"}).encode()
    assert office.send("", unknown) == used, "nobody can find out which tokens exist"
    assert "the token is unknown, used or too old" in used["message"]


def test_tokens_are_kept_as_digests_and_for_a_week() -> None:
    enrolments = Enrolments()
    token = enrolments.make("bob", 0, Random(1))
    assert token not in enrolments.to_json()
    assert Enrolments.from_json(enrolments.to_json()).redeem(token, TOKEN_LIFE_US - 1) == "bob"
    assert Enrolments.from_json(enrolments.to_json()).redeem(token, TOKEN_LIFE_US) is None
    with pytest.raises(SealError):
        Enrolments.from_json('{"v": 1, "waiting": [1]}')


def test_tokens_are_bounded() -> None:
    enrolments, chance = Enrolments(), Random(1)
    enrolments._waiting = {str(each): ("bob", 10) for each in range(TOKENS_MAX)}
    with pytest.raises(SealInvalid):
        enrolments.make("bob", 9, chance)
    assert enrolments.make("bob", 10, chance)


# --- rate limits and errors -------------------------------------------------------------------------------------------


def test_each_caller_has_its_own_rate_limit(office: Office) -> None:
    line = b'{"v": 1, "ask": "realm"}'
    assert all(office.send("alice", line)["ok"] for _ in range(REQUESTS_BURST))
    refused = office.send("alice", line)
    assert (refused["error"], refused["retry_s"], "try again in 0.5 s" in refused["hint"]) == ("too_often", 0.5, True)
    assert office.send("bob", line)["ok"]
    assert office.send("alice", line, NOON_US + 1_000_000)["ok"]
    assert all(office.send("", line, address="a")["error"] == "denied" for _ in range(STRANGER_REQUESTS_BURST))
    assert office.send("", line, address="a")["error"] == "too_often"
    assert office.send("", line, address="b")["error"] == "denied"


def test_a_line_that_is_no_request_counts_and_is_refused_unread(office: Office) -> None:
    replies = [office.send("alice", b"garbage")["error"] for _ in range(500)]
    assert replies == ["invalid"] * REQUESTS_BURST + ["too_often"] * (500 - REQUESTS_BURST)
    assert office.keys("alice", "area < 8")["error"] == "too_often"
    assert office.keys("bob", "location == 'London'")["ok"]


def test_only_holders_get_the_realm(office: Office) -> None:
    """Its parameters and schema are what an attack on hidden attributes begins with."""
    stranger = office.realms("")
    assert (stranger["error"], "realms" in stranger) == ("denied", False)
    assert office.realms("carol")["error"] == "denied"
    (shown,) = office.realms("alice")["realms"]
    assert shown["digest"] == office.world.realm.digest.hex()
    (again,) = office.realms("alice", known=[shown["digest"]])["realms"]
    assert set(shown) - set(again) == {"parameters", "schema"}
    assert office.record is not None
    assert office.record.counted, "members ask for changes often: that has no line of its own"


def test_a_strangers_filter_is_not_parsed(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_crypto.keyserver.messages.parse", lambda text: pytest.fail("parsed"))
    assert office.keys("", "area < 8")["error"] == "denied"
    office.decide(revoked={"alice": NOON_US})
    assert office.keys("alice", "area < 8")["error"] == "denied"


# --- budgets in credentials, slices -----------------------------------------------------------------------------------


def test_a_budget_is_counted_in_credentials(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_crypto.keyserver.request_handler.CREDENTIALS_BURST", 9)
    office.served(ServedRealm(Authority(office.world.realm, foundations()[1])))
    assert office.keys("alice", "area < 8")["ok"], "1 credential and the whole of the other attribute"
    assert office.record is not None
    assert office.record.details["credentials"] == 2
    assert office.keys("alice", "area in [1, 3, 5, 7, 9, 11]")["ok"], "seven more"
    refused = office.keys("alice", "area < 8")
    assert refused["error"] == "too_often"
    assert refused["retry_s"] > 0
    assert office.record.details["why"] == "2 credentials are more than you may have now"
    assert office.keys("bob", "location == 'London'")["ok"], "each holder has its own"
    assert office.keys("alice", "area < 8", now_us=NOON_US + 1_000_000)["ok"]
    never = office.keys(
        "alice", "area in [1, 3, 5, 7, 9, 11, 13, 15] and location in ['Paris', 'London']", now_us=NOON_US + 60_000_000
    )
    assert (never["error"], never["message"]) == ("invalid", "keys of 10 credentials")


def test_a_denied_request_costs_no_credentials(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_crypto.keyserver.request_handler.CREDENTIALS_BURST", 9)
    office.served(ServedRealm(Authority(office.world.realm, foundations()[1])))
    for _ in range(9):
        assert office.keys("alice", "area < 17")["error"] == "denied"
    assert office.keys("alice", "area in [1, 3, 5, 7, 9, 11]")["ok"]


def test_an_issue_takes_a_step_for_each_credential(office: Office) -> None:
    ask = {"v": 1, "ask": "keys", "role": "subscriber", "filter": "area in [1, 3, 5]", "epoch": 0}
    steps = office.handler.answer(Caller("a", "alice"), json.dumps(ask).encode(), NOON_US, office.rng)
    assert sum(1 for _ in steps) == 4 + 2, "and the head and one box are encoded"


def test_who_is_revoked_during_an_issue_gets_nothing(office: Office) -> None:
    ask = {"v": 1, "ask": "keys", "role": "subscriber", "filter": "area in [1, 3, 5]", "epoch": 0}
    steps = office.handler.answer(Caller("a", "alice"), json.dumps(ask).encode(), NOON_US, office.rng)
    next(steps)
    office.decide(revoked={"alice": NOON_US})
    assert json.loads(finished(steps).reply)["error"] == "denied"


def test_one_certificate_is_revoked(office: Office) -> None:
    office.decide(certificates=frozenset({"a1"}))
    assert office.keys("alice", "area < 8", certificate="a1")["error"] == "denied"
    assert office.record is not None
    assert office.record.details["why"] == "its certificate is revoked"
    assert office.keys("alice", "area < 8", certificate="b2")["ok"]


# --- early ends of epochs, rotations ----------------------------------------------------------------------------------


def test_an_epoch_that_ends_early_ends_what_a_revoked_holder_reads(office: Office) -> None:
    office.handler = office.served(ServedRealm(Authority(Realm(foundations()[0], areas()), foundations()[1])))
    office.decide(revoked={"alice": NOON_US}, epoch_ends=(NOON_US + 1,))
    shown = office.realms("bob", NOON_US + 2)
    assert shown["epochs"] == [0, 1], "members get keys of the next epoch before it begins"
    assert shown["realms"][0]["early_ends_us"] == [NOON_US + 1 + HOUR_US]
    assert office.keys("bob", "location == 'London'", now_us=NOON_US + 2, epoch=1)["ok"]
    assert office.realms("bob", NOON_US + 2 + HOUR_US)["epochs"] == [1]
    assert office.keys("alice", "area < 8", now_us=NOON_US + 2 + HOUR_US, epoch=1)["error"] == "denied"


def test_two_realms_are_served_around_a_rotation(office: Office) -> None:
    old = Authority(Realm(foundations()[0], areas()), foundations()[1])
    new = Authority(Realm(foundations(2)[0], areas()), foundations(2)[1])
    begins_us, ends_us = NOON_US + HOUR_US, NOON_US + 2 * HOUR_US
    office.served(ServedRealm(old, 0, 0, ends_us), ServedRealm(new, NOON_US, begins_us))
    names = [realm.realm.digest.hex() for realm in (old, new)]
    assert [each["digest"] for each in office.realms()["realms"]] == names
    for now_us, served in ((NOON_US, names), (begins_us, names), (ends_us, names[1:])):
        for name in names:
            reply = office.keys("alice", "area < 8", now_us=now_us, realm=name)
            assert reply.get("error", "") == ("" if name in served else "realm")
        reply = office.keys("alice", "area < 8", now_us=now_us)
        keys = SubscriberKeys.decode(office.world.groups, b64decode(reply["keys"]))
        assert keys.realm.hex() == (names[0] if now_us < begins_us else names[1])


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 20_000,
        b'{"v": 2, "ask": "realm"}',
        b'{"v": 1, "ask": "master"}',
        b'{"v": 1, "ask": "keys"}',
        b'{"v": 1, "ask": "keys", "role": "subscriber", "filter": "a <", "epoch": 0}',
        b'{"v": 1, "ask": "keys", "role": "subscriber", "filter": "true", "epoch": -1}',
        b'{"v": 1, "ask": "keys", "role": "subscriber", "filter": "true", "epoch": true}',
        b'{"v": 1, "ask": "keys", "role": "subscriber", "filter": "true", "epoch": 0, "instance": 1}',
        b'{"v": 1, "ask": "keys", "role": "publisher", "filter": "true", "epoch": 0}',
        b'{"v": 1, "ask": "keys", "role": "subscriber", "filter": "true", "epoch": 0, "slots": [1]}',
        b'{"v": 1, "ask": "keys", "role": "subscriber", "filter": "true", "epoch": 0, "realm": "x"}',
        b'{"v": 1, "ask": "realm", "known": ["x"]}',
        b'{"v": 1, "ask": "realm", "known": 5}',
        b'{"v": 1, "ask": "enrol", "token": 5, "request": "r"}',
        b'{"v": 1, "ask": "enrol", "token": "t", "request": ""}',
        b" " * (REQUEST_BYTES_MAX + 1),
        b"\xff\xfe",
    ],
)
def test_every_invalid_request_is_one_error(office: Office, line: bytes) -> None:
    with pytest.raises(RequestInvalid):
        read_request(read_line(line))
    assert office.send("alice", line)["error"] == "invalid"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("role", "filter", "epoch", "instance", "slots", "realm", "known", "token", "request")
VALUES = JSON | st.sampled_from(["subscriber", "publisher", "area < 8", "true", 0, 1, [0, 1], "a" * 64, "a request"])


@given(st.binary(max_size=200) | st.builds(lambda given: json.dumps(given).encode(), JSON))
def test_any_line_has_one_reply(line: bytes) -> None:
    office = Office()
    for holder in ("alice", ""):
        assert office.send(holder, line)["error"] in ("invalid", "denied")


@given(st.sampled_from(["realm", "keys", "enrol"]), st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_any_request_has_one_reply(ask: str, fields: dict[str, Any]) -> None:
    office = Office()
    for holder in ("alice", ""):
        reply = office.send(holder, json.dumps({"v": 1, "ask": ask, **fields}).encode())
        assert reply["ok"] or reply["error"] in ("invalid", "denied", "epoch", "realm")
        assert holder or not reply["ok"]


@pytest.mark.parametrize(
    ("sent", "heard"),
    [(2.5, 2.5), (0, 0), (-1, 0), (10**9, 3600), ("soon", 0), (None, 0), (True, 1), (float("nan"), 0)],
)
def test_the_time_to_retry_is_bounded(sent: object, heard: float) -> None:
    line = json.dumps({"ok": False, "error": "too_often", "message": "m", "hint": "h", "retry_s": sent}).encode()
    with pytest.raises(Refusal) as refused:
        read_reply(line)
    assert (refused.value.retry_s, refused.value.retryable) == (heard, True)


def test_records_hold_no_keys(office: Office) -> None:
    reply = office.keys("alice", "area < 8")
    assert office.record is not None
    written = json.dumps(office.record.line())
    assert "area < 8" in written
    assert reply["keys"][:40] not in written
    assert b64decode(reply["keys"]).hex()[100:140] not in written


@pytest.mark.parametrize(
    "text",
    [
        "holders = 5",
        "[holders.a]\nallow = []",
        "[holders.a]\npublish = 'true'",
        "[holders.a]\npublish = ['a <']",
        "[holders.'a b']\n",
        "[other]\n",
        "[",
        "[holders.a]\nsubscribe = [1]",
    ],
)
def test_an_invalid_policy_is_refused(text: str) -> None:
    with pytest.raises(PolicyInvalid):
        Policy.from_toml(text)


def test_a_filter_that_cannot_be_compared_is_no_grant() -> None:
    holder = Policy.from_toml("[holders.a]\nsubscribe = [\"symbol like '%x%y%'\"]").holders["a"]
    assert not holder.may("subscriber", parse("symbol like '%xy%'"))
    assert not holder.may("publisher", parse("symbol like '%x%y%'"))


# --- at rest --------------------------------------------------------------------------------------------------------


def test_a_vault_opens_with_its_passphrase_and_whole() -> None:
    text = close_vault(b"the master secret", "correct horse", Random(1), cost_n=2)
    assert open_vault(text, "correct horse") == b"the master secret"
    assert "master" not in text
    composed, decomposed = "caf\u00e9 and so on", "cafe\u0301 and so on"
    assert open_vault(close_vault(b"secret", composed, Random(1), cost_n=2), decomposed) == b"secret"
    with pytest.raises(VaultClosed):
        open_vault(text, "correct horsf")
    given = json.loads(text)
    for name, value in given.items():
        changed = value * 2 if isinstance(value, int) else ("B" if value[0] == "A" else "A") + value[1:]
        with pytest.raises(VaultClosed):
            open_vault(json.dumps({**given, name: changed}), "correct horse")
    for bad in ("", "{}", "[]", "{", json.dumps({**given, "n": 2**40}), json.dumps({**given, "box": "é"})):
        with pytest.raises(VaultClosed):
            open_vault(bad, "correct horse")


def test_coarse_tokens_are_issued_where_the_policy_allows_them() -> None:
    policy = '[holders.alice]\nsubscribe = ["area < 16"]\n[holders.bob]\nsubscribe = ["area < 16"]\ncoarse = 2\n'
    office = Office(policy)
    groups = office.world.groups
    alice, bob = (
        SubscriberKeys.decode(groups, b64decode(office.keys(name, "area == 5")["keys"])) for name in ("alice", "bob")
    )
    assert [bool(box.coarse) for keys in (alice, bob) for box in keys.boxes] == [False, True]
    assert bob.routing(groups, coarse=True).boxes
    for wrong in ("-1", "true", "'2'", "129"):
        with pytest.raises(PolicyInvalid, match="coarse"):
            Policy.from_toml(f"[holders.bob]\ncoarse = {wrong}\n")
