"""The key server without I/O: its policy, its requests and replies, and its secrets at rest.

Read in this order: `policy` (grants of holders), `messages` (the lines on the wire), `admission` (budgets of lines),
`turns` (the order of work), `served_realms` (realms and decisions), `request_handler` (answers one request), `records`
(the audit log), `enrolments` (one-time tokens), `vault` (the master secret under a passphrase).
"""

from .admission import Admission
from .enrolments import Enrolments
from .messages import Enrol, IssueKeys, Refusal, RequestInvalid, ShowRealm, read_line, read_request, reply_line
from .policy import Holder, Policy, PolicyInvalid
from .records import Caller, Record, Tallies
from .request_handler import Answer, Certified, Registry, RequestHandler
from .served_realms import Decisions, ServedRealm
from .turns import Turns
from .vault import VaultClosed, close_vault, open_vault

__all__ = [
    "Admission",
    "Answer",
    "Caller",
    "Certified",
    "Decisions",
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
    "ServedRealm",
    "ShowRealm",
    "Tallies",
    "Turns",
    "VaultClosed",
    "close_vault",
    "open_vault",
    "read_line",
    "read_request",
    "reply_line",
]
