"""Tests of the tags of sealed events, for the server, the simulator and users' tests: they carry out a broker's Probes.

The arithmetic comes with plait-crypto. Without it nothing is tested: sealed events go to every subscription whose
filter matches their unencrypted attributes, and readers check the tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from plait_core.sealed_opening import Fit

from ..outputs import Probe

if TYPE_CHECKING:
    from plait_crypto import Router


class TagTestWorker:
    """Tests tags. Not thread-safe: each thread has its own."""

    def __init__(self) -> None:
        self._router: Router | None = _new_router()

    def fits(self, probe: Probe) -> Sequence[Fit] | None:
        """Return the answer for `Broker.probed`."""
        if self._router is None:
            return [Fit.UNDECIDED] * len(probe.deposits)
        from plait_crypto import Unopenable

        try:
            return self._router.test(probe.opening, probe.deposits)
        except Unopenable:
            return None


@cache
def available() -> bool:
    """Return whether tags can be tested here."""
    return _new_router() is not None


def _new_router() -> Router | None:
    try:
        from plait_crypto import Router
        from plait_crypto.hazmat import ArkworksGroups
    except ImportError:
        return None
    return Router(ArkworksGroups())
