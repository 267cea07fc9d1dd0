"""The strategies that `[overlay] dissemination` can name."""

from __future__ import annotations

from typing import Final

from .paper_tid import PaperTid
from .shortest_paths import ShortestPaths
from .strategy import StrategyFactory
from .tree_tables import TreeTablesStrategy

_ALL: Final[tuple[StrategyFactory, ...]] = (ShortestPaths, TreeTablesStrategy, PaperTid)

STRATEGIES: Final = {strategy.name: strategy for strategy in _ALL}


def strategy_named(name: str, *, laboratory: bool = False) -> StrategyFactory:
    """Return a strategy. Raise ValueError if there is none of that name, or if it may run only in the laboratory."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise ValueError(f"no strategy {name!r}; there are {', '.join(sorted(STRATEGIES))}")
    if not strategy.loop_free and not laboratory:
        raise ValueError(f"{name} may loop and lose events; it runs with laboratory = true alone")
    return strategy
