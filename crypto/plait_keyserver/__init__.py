"""The key server's process and its clients: files, certificates, TLS and threads around `plait_crypto`.

Read in this order: `directory` (files), `certificates` (identities), `service` (the process), `client` (its requests),
`membership` (keys that renew themselves), `rings` (keys in use), `commands` (`plait keys`) and `command`
(`plait keyserver`).
"""

from .client import Identity, KeyClient, Unreachable
from .directory import KeyDirectory
from .membership import Membership
from .rings import PublisherRing, SubscriberRing
from .service import KeyService

__all__ = [
    "Identity",
    "KeyClient",
    "KeyDirectory",
    "KeyService",
    "Membership",
    "PublisherRing",
    "SubscriberRing",
    "Unreachable",
]
