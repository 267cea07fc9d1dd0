"""The native kernel, where it is installed: the one door to it.

What it takes over (matching, hot frames, plain attributes, proofs, records of telemetry) exists in Python too, with the
same answers.
`PLAIT_NATIVE=off` leaves it out, to find out whether it is to blame for something.
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
    "EventProver",
    "Recorder",
)


def _load() -> Any:
    """The module. One that is there and does not serve, half built or of another version, is told of."""
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
        f"the native kernel is left out ({problem}), Python serves with the same answers; "
        "install plait-kernel anew (in the repository: make kernel)",
        RuntimeWarning,
        stacklevel=3,
    )


kernel: Final[Any] = _load()
"""The native module, or None."""
