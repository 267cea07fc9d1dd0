"""Options of `format("plait")`. No Spark: the reference page and most tests do without it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from plait_core import PlaitError
from plait_core.telemetry import RecordKind

from ..records.columns import EVER
from ..tables.lake import MANIFEST, Lake

BATCH_RECORDS: Final = 1_000_000
"""Records of a batch of a stream during a backlog, by default."""

OPTIONS: Final = {
    "table": "name of a table. Then DIR is a directory that `plait analyze --out` wrote, and `read` returns the table",
    "kinds": "kinds of records to read, separated by commas: `delivery,drop`. Default: all",
    "startingTime": "ISO 8601, in UTC unless it names a zone: read records from this time on. A stream also takes "
    "`earliest` (the default) and `latest`, which begins with records that are written from now on",
    "endingTime": "ISO 8601: read records before this time. Not for streams",
    "maxRecordsPerTrigger": f"of a stream: records of a batch, about. Default: {BATCH_RECORDS:,}",
}
"""The options. Spark does not distinguish upper and lower case in their names."""


class SourceError(PlaitError):
    """Options of the source that cannot be used."""


class SourceOptions:
    """The options of one read, checked."""

    def __init__(self, given: Mapping[str, str]) -> None:
        options = {name.lower(): value for name, value in given.items()}
        known = {name.lower(): name for name in OPTIONS}
        unknown = sorted(options.keys() - known.keys() - {"path", "paths"})
        if unknown:
            raise SourceError(f"there is no option {unknown[0]}; there are {', '.join(OPTIONS)}")
        self.directories = [options["path"]] if "path" in options else json.loads(options.get("paths", "[]"))
        if not self.directories:
            raise SourceError("a directory is missing: load(DIR)")
        self.table = options.get("table", "")
        self.kinds = [_kind(name.strip()) for name in options.get("kinds", "").split(",") if name.strip()]
        self.starting = options.get("startingtime", "earliest")
        self.between = (_micros(self.starting, EVER[0]), _micros(options.get("endingtime", "latest"), EVER[1]))
        self.bounded = "endingtime" in options
        self.records_max = int(options.get("maxrecordspertrigger", BATCH_RECORDS))
        if self.records_max < 1:
            raise SourceError("maxRecordsPerTrigger is at least 1")
        for directory in self.directories:
            if not Path(directory).is_dir():
                raise SourceError(f"{directory} is no directory on this machine")

    @property
    def lake(self) -> Lake:
        """Return the tables in the one directory."""
        if len(self.directories) != 1:
            raise SourceError("the option table is for one directory")
        return Lake(self.directories[0])

    def refuse_tables(self) -> None:
        """Raise SourceError if a directory has tables and not records."""
        for directory in self.directories:
            if (Path(directory) / MANIFEST).is_file():
                raise SourceError(f'{directory} has tables: choose one, as in .option("table", "subscriptions")')


def _kind(name: str) -> int:
    try:
        return int(RecordKind[name.upper()])
    except KeyError:
        kinds = ", ".join(kind.name.lower() for kind in RecordKind)
        raise SourceError(f"there is no kind of record {name}; there are {kinds}") from None


def _micros(text: str, otherwise: int) -> int:
    """Return a time in microseconds, `otherwise` for a word."""
    if text in ("earliest", "latest"):
        return otherwise
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise SourceError(f"{text} is no time: write it as 2026-11-18T14:00:00") from None
    return round((when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp() * 1_000_000)
