"""The key server's process and its clients: files, certificates, TLS and threads around `plait_crypto`.

Read in this order: `directory` (files), `private_files` and `audit_log`, `certificates` (identities), `service` (the
process), `client` (its requests), `membership` (keys that renew themselves), `rings` (keys in use), `following` (rings
around a rotation), `commands` and `operating` (`plait keys`), and `command` (`plait keyserver`).
"""

from .client import Identity, KeyClient, Unreachable
from .directory import KeyDirectory
from .following import FollowingPublisherRing, FollowingSubscriberRing
from .membership import Membership
from .rings import PublisherRing, SubscriberRing
from .service import KeyService

__all__ = [
    "FollowingPublisherRing",
    "FollowingSubscriberRing",
    "Identity",
    "KeyClient",
    "KeyDirectory",
    "KeyService",
    "Membership",
    "PublisherRing",
    "SubscriberRing",
    "Unreachable",
]
