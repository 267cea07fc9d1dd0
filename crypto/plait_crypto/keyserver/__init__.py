"""The key server without I/O: who may hold which keys, what is asked and answered, how its secrets are kept at rest.

Read in this order: `policy` (who may), `asking` (the lines that travel), `pace` (how often), `desk` (one request
answered), `enrolments` (tokens that are good once), `vault` (the master secret under a passphrase).
"""

from .asking import AskInvalid, Enrol, IssueKeys, Refusal, ShowRealm, read_ask, reply_line
from .desk import Caller, Desk, Record, Registry
from .enrolments import Enrolments
from .policy import Holder, Policy, PolicyInvalid
from .vault import VaultClosed, close_vault, open_vault

__all__ = [
    "AskInvalid",
    "Caller",
    "Desk",
    "Enrol",
    "Enrolments",
    "Holder",
    "IssueKeys",
    "Policy",
    "PolicyInvalid",
    "Record",
    "Refusal",
    "Registry",
    "ShowRealm",
    "VaultClosed",
    "close_vault",
    "open_vault",
    "read_ask",
    "reply_line",
]
