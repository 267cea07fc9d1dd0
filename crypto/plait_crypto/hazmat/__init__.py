"""The dangerous floor: groups, pairings and the scheme's equations (thesis 5.5, corrected in type-3 groups).

Nothing here decides who may do what, checks an epoch or remembers a sequence number; used alone it is easy to use
wrongly. Use `plait_crypto` instead. Whoever changes a line here changes the frozen vectors knowingly, or has a bug.
"""

from .arkworks import ArkworksGroups
from .backend import ORDER, Groups, PointInvalid
from .capsule import Capsule, Shape
from .issuing import PublisherPair, SubscriberPart, SubscriberSet, issue_publisher_pair, issue_subscriber_set
from .parameters import MasterSecret, Parameters, set_up
from .scheme import Rejected, Scheme, SignatureInvalid, tag_of

__all__ = [
    "ORDER",
    "ArkworksGroups",
    "Capsule",
    "Groups",
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
    "issue_publisher_pair",
    "issue_subscriber_set",
    "set_up",
    "tag_of",
]
