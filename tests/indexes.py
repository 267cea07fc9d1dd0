"""The implementations of the index that are here, so that one suite tests them all."""

from __future__ import annotations

import importlib.util

from plait_core.matching import Index, new_index

KINDS = ["python", *(["native"] if importlib.util.find_spec("plait_kernel") else [])]


def make(kind: str) -> Index:
    """An empty index of a kind."""
    return new_index(native=kind == "native")
