"""What one side of a bridge asks for, cell by cell, so that no more of it is carried there.

A bridge offers each cell to one side, and hears whether anyone there asks for it; on the other side it subscribes to
those cells alone. A cell is a part of the first attribute of the group's event space: coarse, so that the
subscription seldom changes. Offers say that they have an attribute that the bridges' own subscriptions exclude:
otherwise bridges would hear each other ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any, Final

from plait_core.space import FloatRange, IntRange, Schema

from ..advertisement import Advertisement
from ..client import Client
from ..subscription import Subscription

PROBE: Final = "plait.bridge_probe"
"""No event has it: what a bridge advertisements to learn who asks."""
CELLS: Final = 16
"""Parts of the event space that are asked for, or not: each is an advertisement on both sides."""
NOTHING: Final = ("has(plait.bridge_nothing)", "false")
"""What is subscribed to while nobody asks, at brokers and among peers: brokers refuse what no event can match, and to
peers whatever may match is all of the event space."""


def cells_of(space: Schema | None) -> tuple[str, ...]:
    """Filters that make up the whole space; one for everything where it has nothing to cut, or there is none."""
    for name, domain in zip(space.names, space.domains, strict=True) if space is not None else ():
        if isinstance(domain, IntRange | FloatRange) and (cuts := _cuts(domain)):
            inner = [f"{name} >= {low!r} and {name} < {high!r}" for low, high in pairwise(cuts)]
            return (f"{name} < {cuts[0]!r}", *inner, f"{name} >= {cuts[-1]!r}")
    return ("true",)


def _cuts(domain: IntRange | FloatRange) -> list[float]:
    """Where its values are parted."""
    if isinstance(domain, IntRange):
        size = domain.hi - domain.lo + 1
        count = min(CELLS, size)
        return [domain.lo + size * place // count for place in range(1, count)]
    width = domain.hi - domain.lo
    return [domain.lo + width * place / CELLS for place in range(1, CELLS)]


def cells_filter(side: int, terms: str, cells: Sequence[str]) -> str:
    """What a bridge subscribes to at brokers (0) or among peers (1): of these cells, as far as its terms go."""
    interest = " or ".join(f"({cell})" for cell in cells) or NOTHING[side]
    return f"({terms}) and ({interest}) and not has({PROBE})"


class BridgeInterest:
    """Lets a subscription on one side follow what the other side asks for."""

    def __init__(
        self, client: Client, subscription: Subscription[Any], side: int, terms: str, cells: Sequence[str]
    ) -> None:
        """`side` is where it hears; `terms` bound what is offered, and what is heard."""
        self._side = side
        self.interest: tuple[str, ...] = ()
        """The cells that somebody asks for."""
        self._client = client
        self._subscription = subscription
        self._terms = terms
        self._cells = tuple(cells)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            advertisements: list[Advertisement] = []
            for cell in self._cells:
                advertisement = self._client.advertise(f"({self._terms}) and ({cell}) and has({PROBE})")
                advertisements.append(await stack.enter_async_context(advertisement))
            for each in advertisements:
                tasks.create_task(self._watch(each))
            while True:
                await self._changed.wait()
                self._changed.clear()
                interest = tuple(cell for cell, each in zip(self._cells, advertisements, strict=True) if each.matching)
                if interest != self.interest:
                    await self._subscription.update(cells_filter(self._side, self._terms, interest))
                    self.interest = interest

    async def _watch(self, advertisement: Advertisement) -> None:
        async for _ in advertisement.matching_changes():
            self._changed.set()
