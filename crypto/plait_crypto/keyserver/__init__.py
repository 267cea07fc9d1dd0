"""The key server without I/O: who may hold which keys, what is asked and answered, how its secrets are kept at rest.

Read in this order: `policy` (who may), `asking` (the lines that travel), `pace` (how often), `desk` (one request
answered), `enrolments` (tokens that are good once), `vault` (the master secret under a passphrase).
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
