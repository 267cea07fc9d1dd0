"""The strategies that `[overlay] dissemination` can name."""

from __future__ import annotations

from typing import Final

from .shortest_paths import ShortestPaths
from .strategy import StrategyFactory

STRATEGIES: Final[dict[str, StrategyFactory]] = {strategy.name: strategy for strategy in (ShortestPaths,)}
