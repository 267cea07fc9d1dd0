"""Reconnect backoff: exponential, with full jitter, over the addresses in turn."""

from __future__ import annotations

from plait_core import Randomness

from ..options.addresses import Address
from ..options.settings import Reconnect


class Backoff:
    """Counts failed attempts and draws waiting times.

    After a loss the same address comes first: its broker may still have the session.
    """

    def __init__(self, addresses: tuple[Address, ...], settings: Reconnect, randomness: Randomness) -> None:
        assert addresses, "at least one address"
        self._addresses = addresses
        self._settings = settings
        self._randomness = randomness
        self._at = 0
        self._attempts = 0

    @property
    def address(self) -> Address:
        """The address of the current attempt."""
        return self._addresses[self._at]

    @property
    def tried_all(self) -> bool:
        """Whether all addresses have failed since the last stable connection."""
        return self._attempts >= len(self._addresses)

    def wait_max_s(self) -> float:
        """Return the bound of the next wait. It grows after each round over all addresses."""
        settings, rounds = self._settings, self._attempts // len(self._addresses)
        # The exponent is bounded because a float overflows after some thousand rounds.
        return min(settings.max_s, settings.first_s * settings.factor ** min(rounds, 64))

    def wait_after_loss(self) -> float:
        """Return the seconds to wait before the same address is tried again after a connection broke."""
        return self._randomness.random() * self.wait_max_s()

    def wait_after_failure(self) -> float:
        """Move on to the next address. Return the seconds to wait before it is tried."""
        wait_s = self._randomness.random() * self.wait_max_s()
        self._attempts += 1
        self._at = (self._at + 1) % len(self._addresses)
        return wait_s

    def reset(self) -> None:
        """Reset the failure count: the connection is stable."""
        self._attempts = 0
