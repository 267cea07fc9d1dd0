"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("plait")
"""The version of the SDK, as `pip` shows it."""
