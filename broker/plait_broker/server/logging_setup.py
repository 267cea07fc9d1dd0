"""The log for operators: one line a record on stderr, with control characters escaped and repeated lines limited."""

from __future__ import annotations

import json
import logging
import sys
from time import monotonic
from typing import Final

LINES_PER_PERIOD: Final = 20
PERIOD_S: Final = 10.0
"""Period in which one kind of line may appear LINES_PER_PERIOD times. The next period begins with the number
omitted."""

KINDS_MAX: Final = 1024


class Lines(logging.Formatter):
    """`2026-01-31 12:00:00.123 INFO broker: text`, with control characters escaped and tracebacks on the same line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(short)s: %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        record.short = record.name.rpartition(".")[2]
        return _one_line(super().format(record))


class JsonLines(logging.Formatter):
    """A record as one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        found = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found)


class RateLimitedLog(logging.Filter):
    """Passes a limited number of lines of a kind per period. A kind is a place in the code, so peers cannot make new
    ones."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = (record.pathname, record.lineno), monotonic()
        since, count = self._kinds.get(kind, (now, 0))
        if now - since >= PERIOD_S:
            if count > LINES_PER_PERIOD:
                record.msg = f"{record.getMessage()} (and {count - LINES_PER_PERIOD} more like this)"
                record.args = None
            since, count = now, 0
        if len(self._kinds) < KINDS_MAX or kind in self._kinds:
            self._kinds[kind] = (since, count + 1)
        return count < LINES_PER_PERIOD


def write_to_stderr(level: str, *, as_json: bool = False) -> None:
    """Configure logging for a broker's process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Lines())
    handler.addFilter(RateLimitedLog())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _one_line(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " | ".join(line for line in lines if line))
