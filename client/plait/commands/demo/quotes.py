"""Stock quotes for the demo: a random walk for each company, equal for equal seeds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from plait_core import Attributes


@dataclass(slots=True)
class Company:
    """One listed company and its last price."""

    symbol: str
    sector: str
    exchange: str
    price: float
    volatility: float


_LISTED: Final = (
    ("IBM", "tech", "NYSE", 121.0, 0.004),
    ("MSFT", "tech", "NASDAQ", 410.0, 0.003),
    ("NVDA", "tech", "NASDAQ", 120.0, 0.008),
    ("XOM", "energy", "NYSE", 112.0, 0.003),
    ("SHEL", "energy", "NYSE", 68.0, 0.003),
    ("JPM", "finance", "NYSE", 198.0, 0.003),
    ("BAC", "finance", "NYSE", 39.0, 0.004),
    ("PFE", "health", "NYSE", 28.0, 0.004),
    ("AMGN", "health", "NASDAQ", 310.0, 0.003),
    ("KO", "food", "NYSE", 62.0, 0.002),
)


def quotes(seed: int, exchange: str) -> Iterator[Attributes]:
    """Yield quotes of one exchange without end."""
    draw = random.Random(seed)  # noqa: S311 (prices, not secrets)
    companies = [Company(*listed) for listed in _LISTED if listed[2] == exchange]
    for number in count(1):
        company = draw.choice(companies)
        company.price = max(1.0, company.price * (1 + draw.gauss(0, company.volatility)))
        quote: Attributes = {
            "symbol": company.symbol,
            "sector": company.sector,
            "exchange": company.exchange,
            "price": round(company.price, 2),
            "volume": 100 * max(1, round(draw.paretovariate(1.2))),
            "quote": number,
        }
        if draw.random() < 0.02:
            quote["halted"] = True
        yield quote
