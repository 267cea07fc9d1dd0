"""The choice of the index: the native kernel if it is installed, else the Python one, with the same results."""

from __future__ import annotations

import importlib

from ..native import kernel
from .index import Index


def new_index(*, native: bool | None = None) -> Index:
    """Return an empty index.

    `native`: True requires the kernel, False requires Python, None takes the kernel if there is one.
    """
    if native is False or (native is None and kernel is None):
        from .python_index import PythonIndex

        return PythonIndex()
    index: Index = importlib.import_module("plait_kernel").Index()
    return index


def index_name() -> str:
    """Return the name of the index that `new_index()` creates: "native" or "python"."""
    return "python" if kernel is None else "native"
