"""Sealed events: content that routing brokers cannot read, with a signature of its publisher (thesis ch. 5).

Reading order: `attributes` (credentials and the schema), `hazmat` (the scheme), `realm`, `keys`, `authority` (issues
keys). One event: `envelope`, `plaintext`, `sealing`, `keyring`. Steady traffic: `merkle`, `sessions`,
`session_readers`, `seen_events`, `sealed_payload`. Then `routing` (tag tests of brokers) and `keyserver` (policy and
requests). No I/O anywhere.
"""

from .attributes.credentials import Credential
from .attributes.enumerations import OneOf
from .attributes.numeric import Numbers
from .attributes.schema import Schema
from .attributes.strings import Texts
from .attributes.validity import Epochs
from .authority import Authority
from .errors import KeyInvalid, KeyMissing, KeyRefused, RingClosed, SealError, SealInvalid, Unopenable
from .keyring import Keyring
from .keys import PublisherKeys, RoutingTokens, SubscriberKeys
from .plaintext import Metadata, Opened
from .realm import Realm
from .routing import DEPOSIT_KINDS, DepositKind, Router, TagTest, deposit
from .sealed_payload import PayloadReader, PayloadSealer
from .sealing import Draft, Sealed, Sealer
from .sessions import SealedMember, SealingSession, SessionSealer

__all__ = [
    "DEPOSIT_KINDS",
    "Authority",
    "Credential",
    "DepositKind",
    "Draft",
    "Epochs",
    "KeyInvalid",
    "KeyMissing",
    "KeyRefused",
    "Keyring",
    "Metadata",
    "Numbers",
    "OneOf",
    "Opened",
    "PayloadReader",
    "PayloadSealer",
    "PublisherKeys",
    "Realm",
    "RingClosed",
    "Router",
    "RoutingTokens",
    "Schema",
    "SealError",
    "SealInvalid",
    "Sealed",
    "SealedMember",
    "Sealer",
    "SealingSession",
    "SessionSealer",
    "SubscriberKeys",
    "TagTest",
    "Texts",
    "Unopenable",
    "deposit",
]
