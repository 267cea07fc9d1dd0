"""The native kernel, if it is installed. All of Plait uses it through this module.

The kernel replaces matching, hot frames, plain attributes, event MACs and telemetry records; Python has the same with
the same results. `PLAIT_NATIVE=off` disables the kernel, to find out whether it causes a problem.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any, Final

_NEEDED: Final = (
    "Index",
    "Splitter",
    "EventFrame",
    "EventFrameReader",
    "AttributeReader",
    "DeliveryWriter",
    "common_stream",
    "EventProver",
    "Recorder",
)


def _load() -> Any:
    """Import the module. Warn about one that is installed but unusable: half built, or of another version."""
    if os.environ.get("PLAIT_NATIVE", "").lower() in ("off", "0", "no", "false"):
        return None
    try:
        module = importlib.import_module("plait_kernel._kernel")
    except ImportError as problem:
        if not (isinstance(problem, ModuleNotFoundError) and problem.name == "plait_kernel"):
            _warn(f"it does not load: {problem}")
        return None
    missing = [name for name in _NEEDED if not hasattr(module, name)]
    if missing:
        _warn(f"it is of another version, without {missing[0]}")
        return None
    return module


def _warn(problem: str) -> None:
    warnings.warn(
        f"the native kernel is not used ({problem}); Python gives the same results, slower; "
        "reinstall plait-kernel (in the repository: make kernel)",
        RuntimeWarning,
        stacklevel=3,
    )


kernel: Final[Any] = _load()
"""The native module, or None."""
