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

KNOWN_MAX: Final = 4
"""Realms that a member names as known: two around a rotation."""

CALLERS_KEPT: Final = 4096
"""Callers whose request rate is tracked. The least recently active one is evicted."""

REQUESTS_PER_S: Final = 2.0
REQUESTS_BURST: Final = 32
"""Lines of one holder, requests or not: a client with a dozen grants renews them all at once, twice an epoch."""

CREDENTIALS_PER_S: Final = 128
"""Credentials of one holder over time: an eighth of the issuing thread, at a millisecond each."""

CREDENTIALS_BURST: Final = 16_384
"""Credentials of one holder at once, and of one request: keys of 5 MB, which take the thread 17 s in all.

A holder with a dozen grants of full conjunctions (512 each) renews them all at once.
"""

SLICE_CREDENTIALS: Final = 32
"""Credentials that are issued before the next holder has its turn: some 30 ms."""

SLICE_S: Final = 0.03
"""Seconds after which a slice ends anyway: other steps than an issue may take longer."""

PENDING_MAX: Final = 256
"""Requests that wait for the issuing thread, of all callers; further ones are refused as busy."""

PENDING_PER_CALLER_MAX: Final = 32
"""Requests of one caller that wait: a client sends a request for each of its grants."""

TALLIES_MAX: Final = 1024
"""Callers whose uneventful requests are counted apart in one interval of the audit log. Others share a line."""

STRANGER_REQUESTS_PER_S: Final = 0.5
STRANGER_REQUESTS_BURST: Final = 8
"""Lines from one address without a certificate: enrolling takes one.

A token of 256 bits cannot be guessed anyway.
"""

TOKENS_MAX: Final = 10_000
"""Enrolment tokens that wait to be used."""

TOKEN_LIFE_US: Final = 7 * 24 * 3600 * 1_000_000
"""Microseconds that a token waits to be used."""

SCRYPT_N_MAX: Final = 2**20
"""Cost of the passphrase hash: refuses a file that would take more than a gigabyte of memory to open."""
