"""Every bound of sealed events, by name, with its reason."""

from __future__ import annotations

from typing import Final

ROWS_MAX: Final = 16
"""Attributes that guard an event, time included: each costs a pairing and a half to open. The thesis has 16 (5.7)."""

PLACES_MAX: Final = 128
"""Credentials that one value matches: a number halved 64 times has 65, a text one for each letter of its prefix."""

NUMBER_BITS_MAX: Final = 64
"""Halvings of one number: a range of 64 bits needs 126 credentials, a millisecond of issuing each."""

SLOT_BITS_MAX: Final = 24
"""Halvings of an epoch: seconds of half a year (thesis 5.5.7 has 22 for a month)."""

EARLY_ENDS_MAX: Final = 1024
"""Epochs of one realm that end early: all members need their times, 17 bytes each in a reply. `plait keys rotate`
begins a realm without any."""

HOLES_MAX: Final = 64
"""Excluded values that one range is cut at: each may double its credentials."""

CREDENTIALS_MAX: Final = 512
"""Credentials of one conjunction: half a second of the key server's time, and 150 KB of keys."""

SCHEMA_TEXT_MAX: Final = 1024 * 1024
"""Characters of a schema: fifteen enumerations of a thousand words fit."""

BOXES_MAX: Final = 64
"""Conjunctions of one grant, each with a set of keys."""

KEYS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of one holder's encoded keys for one epoch."""

LABEL_BYTES_MAX: Final = 16 * 1024 + 5
"""Bytes of a credential's label: the longest is "text " and a whole text value."""

BODY_BYTES_MAX: Final = 1280 * 1024
"""Bytes of the encrypted part of an envelope: the largest payload, all attributes and headers, padded."""

BATCH_MAX: Final = 64
"""Events under one root: their proofs are six digests, and a signature costs each a microsecond or two."""

SESSION_EVENTS_MAX: Final = 65_536
"""Events under one encapsulated key: each reader keeps 8 KB to refuse repeated ones."""

SESSION_US_MAX: Final = 60_000_000
"""Microseconds that one encapsulated key is used: the most that a stolen session key reveals."""

SESSIONS_SEALED_MAX: Final = 256
"""Sessions that a publisher keeps open: one for each vector of credentials in use."""

SESSIONS_OPENED_MAX: Final = 1024
"""Sessions whose keys a reader keeps: ten MB with their bitmaps."""

RESULTS_KEPT: Final = 65_536
"""Points that each testing thread of a broker keeps decoded, and results of tag tests, some 500 bytes for both.
Decoding a point takes a tenth of a pairing."""

EPOCH_KEYS_MAX: Final = 64
"""Sets of keys of one keyring, over all grants and epochs."""

HOLDERS_MAX: Final = 1_000_000
"""Revoked holders that an authority remembers."""
