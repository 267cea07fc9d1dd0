"""Sealed events: content that the brokers which route it cannot read, and that names who wrote it (thesis ch. 5).

Read in this order: `credentials`, `numeric`, `strings`, `enumerations`, `validity`, `schema` (what one may know),
`hazmat` (the scheme), `realm`, `keys`, `authority` (who gets which keys), `envelope`, `contents`, `sealing`, `keyring`
(one event), `merkle`, `sessions`, `members`, `parcels` (steady traffic), `routing` (what brokers do), `keyserver` (who
is given keys). No I/O anywhere.
"""

from .authority import Authority
from .contents import Opened
from .credentials import Credential
from .enumerations import OneOf
from .errors import KeyInvalid, KeyMissing, KeyRefused, SealError, SealInvalid, Unopenable
from .keyring import Keyring
from .keys import PublisherKeys, RoutingKeys, SubscriberKeys
from .numeric import Numbers
from .parcels import ParcelReader, ParcelSealer
from .realm import Realm
from .routing import Router, deposit
from .schema import Schema
from .sealing import Draft, Sealed, Sealer
from .sessions import SealedMember, SessionSealer
from .strings import Texts
from .validity import Epochs

__all__ = [
    "Authority",
    "Credential",
    "Draft",
    "Epochs",
    "KeyInvalid",
    "KeyMissing",
    "KeyRefused",
    "Keyring",
    "Numbers",
    "OneOf",
    "Opened",
    "ParcelReader",
    "ParcelSealer",
    "PublisherKeys",
    "Realm",
    "Router",
    "RoutingKeys",
    "Schema",
    "SealError",
    "SealInvalid",
    "Sealed",
    "SealedMember",
    "Sealer",
    "SessionSealer",
    "SubscriberKeys",
    "Texts",
    "Unopenable",
    "deposit",
]
