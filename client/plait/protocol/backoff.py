"""When to connect next, and where to: exponential backoff with full jitter over the addresses in turn."""

from __future__ import annotations

from plait_core import Randomness

from ..options.addresses import Address
from ..options.settings import Reconnect


class Backoff:
    """Counts failed attempts. The address that worked last comes first: its broker may still have our session."""

    def __init__(self, addresses: tuple[Address, ...], settings: Reconnect, randomness: Randomness) -> None:
        assert addresses, "somewhere to connect to"
        self._addresses = addresses
        self._settings = settings
        self._randomness = randomness
        self._at = 0
        self._attempts = 0

    @property
    def address(self) -> Address:
        """Where the current attempt goes."""
        return self._addresses[self._at]

    @property
    def tried_all(self) -> bool:
        """Whether every address has failed since the last good connection."""
        return self._attempts >= len(self._addresses)

    def wait_max_s(self) -> float:
        """The bound of the next wait: it grows once a round over all addresses."""
        settings, rounds = self._settings, self._attempts // len(self._addresses)
        # The exponent is bounded because a float overflows after some thousand rounds.
        return min(settings.max_s, settings.first_s * settings.factor ** min(rounds, 64))

    def wait_after_loss(self) -> float:
        """A good connection broke: how long to wait before the same address is tried again."""
        return self._randomness.random() * self.wait_max_s()

    def wait_after_failure(self) -> float:
        """An attempt failed: how long to wait before the next address is tried."""
        wait_s = self._randomness.random() * self.wait_max_s()
        self._attempts += 1
        self._at = (self._at + 1) % len(self._addresses)
        return wait_s

    def reset(self) -> None:
        """The connection has proved itself."""
        self._attempts = 0
