"""Deposits: the routing tokens that subscriptions give brokers, with the client or broker that each comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from plait_core.limits import DEPOSITS_BYTES_MAX

CLIENT: Final = "client"
BROKER: Final = "broker"

Depositor: TypeAlias = tuple[str, int]
"""A client with its session's id, or another broker, which has deposits of its clients, with its id."""


class Deposit(NamedTuple):
    """The routing tokens of one subscription."""

    digest: bytes
    """Stands for the tokens: equal deposits are tested once."""
    tokens: bytes
    depositor: Depositor

    def __repr__(self) -> str:  # without the tokens, for logs and tracebacks
        return f"Deposit(digest={self.digest!r}, depositor={self.depositor!r})"


class Deposits:
    """The deposits of this broker's subscriptions, or of those of all other brokers, by the number of each."""

    def __init__(self) -> None:
        self.by_number: dict[int, Deposit] = {}
        self.removed = 0
        """Number of removals."""
        self._uses: Counter[bytes] = Counter()
        self._bytes = 0

    def add(self, number: int, tokens: bytes, depositor: Depositor) -> None:
        """Keep the tokens of a subscription. Beyond the bound they are dropped, so that it may get more than it can
        read."""
        if tokens and self._bytes + len(tokens) <= DEPOSITS_BYTES_MAX:
            deposit = self.by_number[number] = Deposit(sha256(tokens).digest(), tokens, depositor)
            self._uses[deposit.digest] += 1
            self._bytes += len(tokens)

    def remove(self, number: int) -> None:
        """Forget the tokens of a subscription, if there are any."""
        deposit = self.by_number.pop(number, None)
        if deposit is not None:
            self.removed += 1
            self._bytes -= len(deposit.tokens)
            self._uses[deposit.digest] -= 1
            if not self._uses[deposit.digest]:
                del self._uses[deposit.digest]

    def tokens(self, number: int) -> bytes:
        """Return the tokens of a subscription, b"" if there are none."""
        deposit = self.by_number.get(number)
        return b"" if deposit is None else deposit.tokens

    def among(self, numbers: Iterable[int]) -> list[Deposit]:
        """Return the deposits of those subscriptions that have one."""
        by_number = self.by_number
        return [by_number[number] for number in numbers if number in by_number]

    def in_use(self, digest: bytes) -> bool:
        """Return whether some subscription has these tokens."""
        return digest in self._uses
