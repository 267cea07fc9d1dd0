"""The cryptographic core: groups, pairings and the scheme's equations (thesis 5.5, corrected in type-3 groups).

This package makes no access decisions, checks no epochs and stores no sequence numbers, so its direct use is dangerous.
Use `plait_crypto` instead. A change of the frozen test vectors is either deliberate or a bug.
"""

from .arkworks import ArkworksGroups
from .backend import ORDER, Groups, PointInvalid
from .capsule import Capsule, Shape
from .issuing import Issuer, PublisherPair, SubscriberPart, SubscriberSet
from .parameters import MasterSecret, Parameters, set_up
from .scheme import Rejected, Scheme, SignatureInvalid, tag_of

__all__ = [
    "ORDER",
    "ArkworksGroups",
    "Capsule",
    "Groups",
    "Issuer",
    "MasterSecret",
    "Parameters",
    "PointInvalid",
    "PublisherPair",
    "Rejected",
    "Scheme",
    "Shape",
    "SignatureInvalid",
    "SubscriberPart",
    "SubscriberSet",
    "set_up",
    "tag_of",
]
