"""Every bound of the key server, by name, with its reason."""

from __future__ import annotations

from typing import Final

REQUEST_BYTES_MAX: Final = 24 * 1024
"""Bytes of a request: the longest filter or a certificate request, and the overhead of JSON."""

REPLY_BYTES_MAX: Final = 12 * 1024 * 1024
"""Bytes of a reply: the largest keys in base64."""

POLICY_TEXT_MAX: Final = 4 * 1024 * 1024
"""Characters of a policy: ten thousand holders with some filters each."""

POLICY_HOLDERS_MAX: Final = 100_000
POLICY_FILTERS_MAX: Final = 64
"""Filters of one holder in one role: each is compared with the requested filter."""

GRANTS_SHOWN: Final = 4
GRANT_CHARS_SHOWN: Final = 80
"""Filters of its own that a refused holder is shown, and characters of each: clients keep 500 characters of a hint."""

CALLERS_KEPT: Final = 4096
"""Callers whose request rate is tracked. The least recently active one is evicted."""

ISSUES_PER_S: Final = 2.0
ISSUES_BURST: Final = 32
"""Keys for one holder: a client with a dozen grants renews them all at once, twice an epoch."""

STRANGER_REQUESTS_PER_S: Final = 0.5
STRANGER_REQUESTS_BURST: Final = 8
"""Requests from one address without a certificate: enrolling takes two.

A token of 256 bits cannot be guessed anyway.
"""

TOKENS_MAX: Final = 10_000
"""Enrolment tokens that wait to be used."""

TOKEN_LIFE_US: Final = 7 * 24 * 3600 * 1_000_000
"""Microseconds that a token waits to be used."""

SCRYPT_N_MAX: Final = 2**20
"""Cost of the passphrase hash: refuses a file that would take more than a gigabyte of memory to open."""
