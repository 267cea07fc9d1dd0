"""The implementations of the index that are here, so that one suite tests them all."""

from __future__ import annotations

from plait_core.matching import Index, index_name, new_index

KINDS = ["python", *(["native"] if index_name() == "native" else [])]


def make(kind: str) -> Index:
    """An empty index of a kind."""
    return new_index(native=kind == "native")
