"""The key server's face, and its members': files, certificates, TLS and threads around `plait_crypto`.

Read in this order: `directory` (what is on disk), `certificates` (who is who), `service` (the process), `client` (the
other end), `membership` (keys that renew themselves), `rings` (keys in use), `commands` (`plait keys`) and `command`
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
