"""The advertisements of this broker's clients: they flood, and wait until all brokers have sent their interest in them.

Every interest update names the fingerprint of our advertisements that it was computed against. An advertisement is
*known* when no broker that can be reached is behind the revision that contains it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from plait_core.filters import Filter
from plait_core.wire.frame_types.envelope_frames import ADVERTISEMENT
from plait_core.wire.frame_types.overlay_frames import Advertisement

from ..outputs import Advertised, Output
from ..topology.flooding import Flooding
from .advertisement_table import AdvertisementTable
from .remote_interest import HomeInterest

ADVERTISE_TIMES: Final = 2
"""Timeout of an advertisement, in detection times: a reachable broker that sends no interest must not keep others from
publishing."""


class LocalAdvertisements:
    """The advertisements of one broker's clients."""

    def __init__(
        self,
        me: int,
        table: AdvertisementTable,
        flooding: Flooding,
        detect_s: float,
        outputs: list[Output],
        counts: Counter[str],
    ) -> None:
        self._me = me
        self._table = table
        self._flooding = flooding
        self._timeout_s = ADVERTISE_TIMES * detect_s
        self._outputs = outputs
        self._counts = counts
        self.waiting: dict[int, tuple[int, float]] = {}
        """By number of an advertisement that not all brokers know, the revision that has it, and the timeout."""

    def advertise(self, number: int, filter: Filter, rate: float, values: bytes, now: float) -> None:
        """Flood an advertisement. `Advertised` follows once all brokers know it."""
        self._flood(number, filter.text, rate, values)
        self.waiting[number] = (self._table.revision, now + self._timeout_s)

    def withdraw(self, number: int) -> None:
        """Withdraw an advertisement."""
        self.waiting.pop(number, None)
        self._flood(number, "")

    def settle(self, homes: Mapping[int, HomeInterest], reached: Collection[int], now: float) -> None:
        """Report the advertisements that timed out, or that all brokers in reach know by now."""
        known = self._table.revision
        for broker in reached:
            if broker != self._me:
                home = homes.get(broker)
                known = min(known, -1 if home is None else self._table.revision_of(home.offers))
        for number, (revision, timeout_at) in list(self.waiting.items()):
            if revision <= known or now >= timeout_at:
                self._counts["advertisements_unacked"] += revision > known
                del self.waiting[number]
                self._outputs.append(Advertised(number))

    def next_deadline(self) -> float | None:
        """Return the next timeout, or None."""
        return min((timeout_at for _, timeout_at in self.waiting.values()), default=None)

    def _flood(self, number: int, text: str, rate: float = 0.0, values: bytes = b"") -> None:
        version = self._flooding.next_version((self._me, ADVERTISEMENT, number))
        advertisement = Advertisement(self._me, number, version, text, rate, values)
        self._table.learn(advertisement)
        self._flooding.originate(advertisement)
