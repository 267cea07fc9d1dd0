"""Testing the tags of sealed events, for whoever carries out a broker's Probe: its face, the simulator, a user's tests.

The arithmetic comes with plait-crypto. Without it nothing is tested: sealed events then go wherever their attributes in
the clear do, and readers decide.
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
    """Tests tags. Not for several threads at once: each that tests has its own."""

    def __init__(self) -> None:
        self._router: Router | None = _new_router()

    def fits(self, probe: Probe) -> Sequence[Fit] | None:
        """What `Broker.probed` is to be told."""
        if self._router is None:
            return [Fit.UNDECIDED] * len(probe.deposits)
        from plait_crypto import Unopenable

        try:
            return self._router.test(probe.opening, probe.deposits)
        except Unopenable:
            return None


@cache
def available() -> bool:
    """Whether tags can be tested here."""
    return _new_router() is not None


def _new_router() -> Router | None:
    try:
        from plait_crypto import Router
        from plait_crypto.hazmat import ArkworksGroups
    except ImportError:
        return None
    return Router(ArkworksGroups())
