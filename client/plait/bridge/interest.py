"""Exchange of interest across a bridge, cell by cell, so that only requested events are carried.

The bridge advertises each cell on one side, and learns whether a subscription there intersects it. On the other side
it subscribes to those cells only. A cell is a part of the first attribute of the group's event space. Cells are
coarse, so that the subscription seldom changes. The advertisements contain an attribute that the bridges' own
subscriptions exclude. Otherwise bridges would match each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any, Final

from plait_core.filters import parse
from plait_core.space import FloatRange, IntRange, Schema

from ..advertisement import Advertisement
from ..client import Client
from ..subscription import Subscription

PROBE: Final = "plait.bridge_probe"
"""The attribute of the bridge's advertisements. No event has it."""
CELLS: Final = 16
"""Number of cells. Each is an advertisement on both sides."""
NOTHING: Final = ("has(plait.bridge_nothing)", "false")
"""Filters, by side, for a subscription without interest. Brokers refuse a filter that no event can match. Among peers,
a filter that may match anything would mean the whole event space."""


def satisfiable(filter: str) -> bool:
    """Return whether some event may match a filter."""
    return bool(parse(filter).normal)


def cells_of(space: Schema | None) -> tuple[str, ...]:
    """Return filters that together match the whole space: one for everything if it has no numeric attribute."""
    for name, domain in zip(space.names, space.domains, strict=True) if space is not None else ():
        if isinstance(domain, IntRange | FloatRange) and (cuts := _cuts(domain)):
            inner = [f"{name} >= {low!r} and {name} < {high!r}" for low, high in pairwise(cuts)]
            return (f"{name} < {cuts[0]!r}", *inner, f"{name} >= {cuts[-1]!r}")
    return ("true",)


def _cuts(domain: IntRange | FloatRange) -> list[float]:
    """Return the values at which the domain is cut."""
    if isinstance(domain, IntRange):
        size = domain.hi - domain.lo + 1
        count = min(CELLS, size)
        return [domain.lo + size * place // count for place in range(1, count)]
    width = domain.hi - domain.lo
    return [domain.lo + width * place / CELLS for place in range(1, CELLS)]


def cells_filter(side: int, terms: str, cells: Sequence[str]) -> str:
    """Return the bridge's subscription at brokers (0) or among peers (1): the cells, restricted by the terms."""
    interest = " or ".join(f"({cell})" for cell in cells) or NOTHING[side]
    wanted = f"({terms}) and ({interest})"
    return f"{wanted if satisfiable(wanted) else NOTHING[side]} and not has({PROBE})"


class BridgeInterest:
    """Keeps a subscription on one side equal to the interest of the other side."""

    def __init__(
        self, client: Client, subscription: Subscription[Any], side: int, terms: str, cells: Sequence[str]
    ) -> None:
        """`subscription` belongs to `side`. `terms` restrict the advertisements and the subscription."""
        self._side = side
        self.interest: tuple[str, ...] = ()
        """Cells that intersect a subscription of the other side."""
        self._client = client
        self._subscription = subscription
        self._terms = terms
        self._cells = tuple(cell for cell in cells if satisfiable(f"({terms}) and ({cell})"))
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
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
