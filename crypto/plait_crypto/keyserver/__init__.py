"""The key server without I/O: its policy, its requests and replies, and its secrets at rest.

Read in this order: `policy` (grants of holders), `messages` (the lines on the wire), `request_handler` (answers one
request), `enrolments` (one-time tokens), `vault` (the master secret under a passphrase).
"""

from .enrolments import Enrolments
from .messages import Enrol, IssueKeys, Refusal, RequestInvalid, ShowRealm, read_request, reply_line
from .policy import Holder, Policy, PolicyInvalid
from .request_handler import Caller, Record, Registry, RequestHandler
from .vault import VaultClosed, close_vault, open_vault

__all__ = [
    "Caller",
    "Enrol",
    "Enrolments",
    "Holder",
    "IssueKeys",
    "Policy",
    "PolicyInvalid",
    "Record",
    "Refusal",
    "Registry",
    "RequestHandler",
    "RequestInvalid",
    "ShowRealm",
    "VaultClosed",
    "close_vault",
    "open_vault",
    "read_request",
    "reply_line",
]
