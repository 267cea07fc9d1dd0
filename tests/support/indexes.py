"""The available implementations of the index, for a common test suite."""

from __future__ import annotations

from plait_core.matching import Index, index_name, new_index

KINDS = ["python", *(["native"] if index_name() == "native" else [])]


def make(kind: str) -> Index:
    """Return an empty index of a kind."""
    return new_index(native=kind == "native")
