"""The client of a key server: enrol, and request the realm and keys. The replicas are tried in turn.

Each request has a connection of its own. A certificate and its key are texts, so no files are needed.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plait_core import Filter
from plait_core.values import Json
from plait_crypto import PublisherKeys, Realm, Schema, SealError, SealInvalid, SubscriberKeys
from plait_crypto.hazmat import ArkworksGroups, Parameters, PointInvalid
from plait_crypto.keyserver import Enrol, IssueKeys, Refusal, ShowRealm
from plait_crypto.keyserver.limits import KNOWN_MAX, REPLY_BYTES_MAX
from plait_crypto.keyserver.messages import KeyRequest, RequestInvalid, read_reply, request_line

from .certificates import key_pem, load_pair, new_key, request_for
from .private_files import write_private

CONNECT_S: Final = 10.0
"""Seconds to connect. Another replica is tried then."""

ANSWER_S: Final = 120.0
"""Seconds to request and receive: the largest keys take 17 s to issue, and others have their turns meanwhile."""

CLOSE_S: Final = 1.0
"""Seconds for the other side to close a TLS connection. It is aborted then."""

PLACES_SHOWN: Final = 4
"""Addresses that an error lists."""


class Unreachable(SealError):
    """No replica answers."""

    retryable = True


@dataclass(frozen=True, repr=False)
class Identity:
    """A holder's certificate and its key, PEM."""

    key: str
    certificate: str

    def to_pem(self) -> str:
        """Return the content of one file with both."""
        return self.key + self.certificate

    @classmethod
    def from_pem(cls, text: str) -> Identity:
        """Parse the output of `to_pem`."""
        at = text.find("-----BEGIN CERTIFICATE-----")
        if at <= 0:
            raise SealError("not a key with its certificate", hint="the output of `plait keys issue --token-file`")
        return cls(text[:at], text[at:])

    def save(self, path: Path | str) -> None:
        """Write it to a file that its owner alone can read."""
        write_private(Path(path), self.to_pem().encode())

    @classmethod
    def load(cls, path: Path | str) -> Identity:
        """Read the file that `save` wrote."""
        return cls.from_pem(Path(path).read_text())


@dataclass(frozen=True, eq=False)
class Term:
    """A realm, and the time in which events are sealed in it."""

    realm: Realm
    decided_us: int = 0
    """When it was drawn: a later one succeeds it."""
    begins_us: int = 0
    ends_us: int | None = None
    """Its keys are issued until then. None: no successor is known."""

    def ended(self, now_us: int) -> bool:
        """Return whether no event of it is accepted any more."""
        return self.ends_us is not None and now_us >= self.ends_us


@dataclass(frozen=True)
class RealmNow:
    """The realms that are served, and the epochs of the present one that keys are issued for."""

    terms: tuple[Term, ...]
    """The oldest first: more than one only around a rotation."""
    epochs: tuple[int, ...]
    now_us: int
    """The server's time."""

    @property
    def realm(self) -> Realm:
        """The realm that events are sealed in now."""
        return present(self.terms, self.now_us).realm


def present(terms: Sequence[Term], now_us: int) -> Term:
    """Return the term that a time is in."""
    begun = [term for term in terms if term.begins_us <= now_us]
    return begun[-1] if begun else terms[0]


class KeyClient:
    """Send requests to the replicas at these addresses. `authority` signed their certificates."""

    def __init__(self, addresses: Sequence[tuple[str, int]], authority: str, identity: Identity | None = None) -> None:
        assert addresses, "at least one replica"
        self.addresses = list(addresses)
        self.authority = authority
        self.identity = identity

    async def realm(self, known: Sequence[Realm] = ()) -> RealmNow:
        """Return the realms that keys are issued in. Those in `known` are returned as they are given.

        Their early ends of epochs are added to them.
        """
        by_digest = {realm.digest.hex(): realm for realm in known}
        reply = await self._request(ShowRealm(tuple(by_digest)[-KNOWN_MAX:]))
        try:
            terms = tuple(_term(given, by_digest) for given in reply["realms"])
            found = RealmNow(terms, tuple(int(epoch) for epoch in reply["epochs"]), int(reply["now_us"]))
        except (KeyError, ValueError, TypeError, PointInvalid, SealInvalid):
            raise RequestInvalid("a reply without a realm") from None
        if not terms:
            raise RequestInvalid("a reply without a realm")
        return found

    async def enrol(self, token: str) -> Identity:
        """Generate a key and have it certified. A token is valid once, so the caller must store the result."""
        key = new_key()
        reply = await self._request(Enrol(token, request_for(key)))
        self.identity = Identity(key_pem(key), str(reply.get("certificate")))
        return self.identity

    async def subscriber_keys(
        self, realm: Realm, filter: Filter, epoch: int, slots: tuple[int, int] | None = None
    ) -> SubscriberKeys:
        """Request keys to open events that match a filter."""
        reply = await self._request(IssueKeys("subscriber", filter, epoch, 0, slots, realm.digest.hex()))
        return SubscriberKeys.decode(realm.parameters.groups, _keys(reply))

    async def publisher_keys(
        self, realm: Realm, filter: Filter, epoch: int, instance: int, slots: tuple[int, int] | None = None
    ) -> PublisherKeys:
        """Request keys to seal events that match a filter, for one process of the holder."""
        reply = await self._request(IssueKeys("publisher", filter, epoch, instance, slots, realm.digest.hex()))
        return PublisherKeys.decode(realm.parameters.groups, _keys(reply))

    async def _request(self, request: KeyRequest) -> Json:
        failure: Exception | None = None
        tried = list(self.addresses)
        for host, port in tried:
            try:
                return await self._request_from(host, port, request)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                failure = error
            except Refusal as refusal:
                if refusal.code != "busy":
                    raise
                failure = refusal
            self.addresses.append(self.addresses.pop(0))  # the next request begins with another replica
        places = ", ".join(f"{host}:{port}" for host, port in tried[:PLACES_SHOWN])
        raise Unreachable(f"no key server answers at {places}: {failure}", hint=_hint(failure)) from failure

    async def _request_from(self, host: str, port: int, request: KeyRequest) -> Json:
        context = ssl.create_default_context(cadata=self.authority)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if self.identity is not None:
            load_pair(context, self.identity.key, self.identity.certificate)
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=REPLY_BYTES_MAX)
        try:
            writer.write(request_line(request))
            async with asyncio.timeout(ANSWER_S):
                return read_reply(await reader.readuntil(b"\n"))
        finally:
            await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection before the event loop may end: `asyncio.run` would leave its socket open."""
    writer.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _hint(failure: Exception | None) -> str:
    """Return what a user can do when no replica answers. The texts are OpenSSL's."""
    if "WRONG_VERSION_NUMBER" in str(failure) or "RECORD_LAYER_FAILURE" in str(failure):
        return "another server uses this port: is it a broker's?"
    if "CERTIFICATE_VERIFY_FAILED" in str(failure):
        return "is --ca the authority.pem of this key server, and the host one of its --host?"
    return "is `plait keyserver` running there?"


def _term(given: Json, known: Mapping[str, Realm]) -> Term:
    realm = known.get(given["digest"])
    if realm is None:
        parameters = Parameters.decode(ArkworksGroups(), b64decode(given["parameters"]))
        realm = Realm(parameters, Schema.from_json(given["schema"]))
        if realm.digest.hex() != given["digest"]:
            raise ValueError("another realm than it says")
    realm.end_epochs(int(each) for each in given["early_ends_us"])
    ends_us = None if given["ends_us"] is None else int(given["ends_us"])
    return Term(realm, int(given["decided_us"]), int(given["begins_us"]), ends_us)


def _keys(reply: Json) -> bytes:
    try:
        return b64decode(reply["keys"], validate=True)
    except (KeyError, ValueError, TypeError):
        raise RequestInvalid("a reply without keys") from None
