"""Which index is used: the native kernel where it is installed, else the Python one. Same answers either way."""

from __future__ import annotations

import importlib

from ..native import kernel
from .index import Index


def new_index(*, native: bool | None = None) -> Index:
    """An empty index. `native`: True insists on the kernel, False on Python, None takes what there is."""
    if native is False or (native is None and kernel is None):
        from .python_index import PythonIndex

        return PythonIndex()
    index: Index = importlib.import_module("plait_kernel").Index()
    return index


def index_name() -> str:
    """What `new_index()` gives, for people: "native" or "python"."""
    return "python" if kernel is None else "native"
