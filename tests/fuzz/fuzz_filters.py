"""Coverage-guided fuzzing of the filter language.

    python tests/fuzz/fuzz_filters.py -runs=1000000 tests/fuzz/corpus/filters

libFuzzer adds what it finds interesting to the first folder: name an empty one ahead of the corpus to keep it small.
"""

from __future__ import annotations

import math
import sys
from typing import Any

EVENTS: list[dict[str, Any]] = [
    {},
    {"x": 1, "y": "abc", "a.b": True, "price": 121.5},
    {"x": 2**53 + 1, "y": "", "a.b": False, "price": -0.0},
    {"x": math.nan, "y": None, "a.b": [1, "a"], "price": math.inf},
    {"x": "aab", "y": "\U0010ffff😀", "a.b": 2**200, "price": "100%"},
]


def check(data: bytes) -> None:
    """Check that a text is a filter or raises one error that points into it, and that a filter's text parses back."""
    from plait_core.errors import FilterSyntax, FilterTooComplex
    from plait_core.filters import parse

    text = data.decode(errors="surrogateescape")
    try:
        found = parse(text)
    except (FilterSyntax, FilterTooComplex) as refused:
        error = refused
    else:
        _check_filter(found, parse(found.text))
        return
    assert error.text == text
    assert 1 <= error.column <= len(text) + 1
    assert error.caret().endswith("^")


def _check_filter(found: Any, again: Any) -> None:
    from plait_core.errors import FilterTooComplex
    from plait_core.filters import satisfies

    assert again == found
    assert again.expr == found.expr
    try:
        normal = found.normal
    except FilterTooComplex:
        normal = None
    for event in EVENTS:
        result = found.evaluate(event)
        assert found.matches(event) is (result is True)
        assert found.explain(event).result is result
        if normal is not None:
            assert any(satisfies(event, conjunction) for conjunction in normal) is (result is True)
    if normal is not None:
        assert found.covers(again)
        assert found.intersects(again) or not any(map(found.matches, EVENTS))


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["plait_core"]):
        import plait_core.filters  # noqa: F401
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
