"""The page of all tables, from what the code says of them: `python -m plait_analytics.tables.tables_reference` writes
it."""

from __future__ import annotations

import sys
from typing import Final

from ..records.counts import COLUMNS, KEY
from .definitions import TABLES
from .table import Table

KEYS: Final = {
    "window_us": ("window", "where the window begins, UTC"),
    "broker": ("broker", "id of the broker whose record it is"),
    "neighbour": ("neighbour", "id of the broker at the other end"),
    "subscription": ("subscription", "its number at its broker"),
    "publisher": ("publisher", "id"),
    "sequence": ("sequence", "with the publisher the event's name"),
    "cell": ("cell", "a dz-expression: the part of the event space, halved once for each bit"),
    "source": ("source", "id of the publishers' broker"),
    "destination": ("destination", "id of the subscribers' broker"),
    "other_broker": ("other_broker", "id of the other subscription's broker"),
    "other": ("other", "number of the other subscription"),
    "entity": ("entity", "`broker` or `link`"),
    "measure": ("measure", "`rate`, `delay` or `lost`"),
    "kind": ("kind", "of record, as in `schema-1.json` beside the segments"),
    "subject": ("subject", "what the record is about: a subscription, a neighbour"),
    "bucket": ("bucket", "floor(8 log2 microseconds)"),
}
"""Key columns: by name here, the name in files and what they say."""

HEAD: Final = """# Tables of telemetry

What `plait analyze` makes of the records of brokers. `plait analyze batch DIR --out OUT` makes all of them, by DuckDB
or Spark; `plait analyze live DIR --out OUT` all but those of single events (`unaccounted`, `journeys`, `similarity`,
and what gaps between events say), window by window while brokers run.
`plait analyze show OUT TABLE --json` prints rows.

**How to read them.** `OUT/manifest.json` says under `tables.TABLE.files` which Parquet files hold now, and under
`tables.TABLE.json` where the newest 5,000 rows are as JSON:
`{"table", "window_us", "columns": [{"name", "type", "says"}], "rows": [[...]]}`. It is replaced in one step: never list
directories, files lie there that do not count any more. `OUT/summary.json` is the short form for brokers and
predictions: `links`, `brokers`, `publishers` and `subscriptions` with their rates and distributions of delay in the
last windows. `OUT/live.json` tells how a live analysis goes.

A broker that is started with `--tables OUT` serves these: `/api/v1/analytics/TABLE`, `/api/v1/summary`, and the page
`/analytics`.

Windows are of the broker's calendar. Ids are texts of 16 hexadecimal digits. Counts are of events, also where only some
were recorded. Percentiles are read off buckets of 9%, in the middle: within 4.4%. What is not known is null.
This page is made by `python -m plait_analytics.tables.tables_reference`.
"""


def page() -> str:
    """All of it, as Markdown."""
    return "\n".join([HEAD, *(_section(table) for table in TABLES.values())])


def _section(table: Table) -> str:
    lines = [f"## {table.name}", "", table.says, "", "| column | says |", "|---|---|"]
    for name in table.key:
        shown, says = KEYS.get(name, (name, COLUMNS.get(name, "")))
        if table.name == "counts" and name in COLUMNS:
            says = COLUMNS[name]
        lines.append(f"| **{shown}** | {says} |")
    lines += [f"| {name} | {says} |" for name, says in table.columns.items()]
    return "\n".join([*lines, ""])


assert set(KEY) <= {*KEYS, *COLUMNS}, "all that the counts are told apart by is explained"

if __name__ == "__main__":
    sys.stdout.write(page())
