"""Options of the data source for Spark, checked without Spark, and its page."""

from __future__ import annotations

import pytest

from plait_analytics.engines.source_options import SourceOptions
from plait_core import PlaitError


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "a directory is missing"),
        ({"path": "/nowhere"}, "/nowhere is no directory"),
        ({"path": ".", "kinds": "delivery, dorp"}, "no kind of record dorp; there are publish, "),
        ({"path": ".", "startingTime": "yesterday"}, "yesterday is no time: write it as 2026-"),
        ({"path": ".", "startingtimes": "x"}, "there is no option startingtimes; there are table, kinds"),
        ({"path": ".", "maxRecordsPerTrigger": "0"}, "at least 1"),
    ],
)
def test_wrong_options_are_refused_with_what_would_be_right(options: dict[str, str], error: str) -> None:
    with pytest.raises(PlaitError, match=error):
        SourceOptions(options)
