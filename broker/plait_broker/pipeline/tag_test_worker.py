"""Tests of the tags of sealed events, for the server, the simulator and users' tests: they carry out a broker's Probes.

The arithmetic comes with plait-crypto. Without it nothing is tested: sealed events go to every subscription whose
filter matches their unencrypted attributes, and readers check the tags.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from plait_core.sealed_opening import Fit

from ..outputs import Probe, Probed

if TYPE_CHECKING:
    from plait_crypto import Router


UNTESTED: Final = Probed(Fit.UNDECIDED, 0)
"""The answer for a test that cannot be carried out."""


class TagTestWorker:
    """Tests tags. Not thread-safe: each thread has its own. One may go on with a test that another has begun."""

    def __init__(self) -> None:
        self._router: Router | None = _new_router()

    def answer(self, probe: Probe) -> Probed | None:
        """Return the answer for `Broker.probed`."""
        if self._router is None:
            return UNTESTED
        from plait_crypto import TagTest, Unopenable

        try:
            test = probe.rest if isinstance(probe.rest, TagTest) else TagTest(probe.opening, probe.deposit)
            steps = self._router.run(test, probe.steps)
        except Unopenable:
            return None
        return Probed(test.fit, steps, test)


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
