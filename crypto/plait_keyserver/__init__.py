"""The key server's process and its clients: files, certificates, TLS and threads around `plait_crypto`.

Both sides use `private_files` and `certificates`. The server is in `server/`: `directory` (its files), `audit_log`, and
`service` (the process). A member has, in the order to read: `client` (its requests), `membership` (keys that renew
themselves), `rings` (keys in use) and their `seen_record`, `following` (rings around a rotation), `folders` (a member's
files). The command line is in `commands/`.
"""

from .client import Identity, KeyClient, Unreachable
from .following import FollowingPublisherRing, FollowingSubscriberRing
from .membership import Membership
from .rings import PublisherRing, SubscriberRing
from .server.directory import KeyDirectory
from .server.service import KeyService

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
