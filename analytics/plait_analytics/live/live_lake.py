"""Live tables: each batch of closed windows adds a file to each table. The manifest names the last batch.

The manifest is that of `lake.py` with an entry `live`: the last batch and its query's id. A batch that was written is
not written again. Files of batches are joined when there are many. A batch waits for what must survive a crash; pages
and the summary follow within seconds, outside the batch (`LiveLake.show`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plait_core.telemetry import RecordKind
from plait_core.values import Json

from ..records.counts import SCHEMA as COUNTS
from ..records.counts import merged_batch
from ..records.words import IdNames
from ..tables.definitions import TABLES
from ..tables.derive_tables import COUNTED, derive
from ..tables.incidents import HISTORY
from ..tables.json_pages import ROWS_MAX, column_description, page_of
from ..tables.lake import FORMAT, MANIFEST, Lake, replace
from ..tables.presentation import ids_of, presented
from ..tables.summary import SUMMARY, WINDOWS, summary_bytes
from ..tables.table_directories import FILES, PAGES, LakeError

JOINED_FILES: Final = 32
"""Files of single batches beyond which those of a table are joined into one."""

STATUS: Final = "live.json"
"""The status file: the last batch, its time, and the records counted, late or odd. Health checks read its age."""

ENGINE: Final = "spark-live"

SHOWN_EVERY_S: Final = 5.0
"""Seconds between two writes of pages and summary, which people and predictions read: they need not follow each
batch."""

Windows = dict[int, pa.Table]
"""Counts by window, the oldest first."""


class _Shown(NamedTuple):
    """The input of pages and summary."""

    recent: dict[str, pa.Table]
    windows: Windows
    names: pa.Table


class LiveLake:
    """The tables of one live analysis."""

    def __init__(self, directory: Path, window_us: int) -> None:
        self._directory = directory
        self._window_us = window_us
        self._lake = Lake(directory)
        self._manifest = self._begun()
        self._lake.show(self._manifest)  # a run that was killed may have left the directories behind the manifest
        self._recent = {name: self._tail(name, ROWS_MAX) for name in self._manifest["tables"]}
        self._windows = _newest(_by_window(self._counts_before()), WINDOWS)
        self._before = {window: _coarse(counts) for window, counts in _newest(self._windows, HISTORY).items()}
        self._unshown: _Shown | None = None
        self._shown_s = 0.0

    @property
    def batch(self) -> int:
        """The last batch that was written; -1 before the first."""
        return int(self._manifest["live"]["batch"])

    def append(self, batch: int, counts: pa.Table, names: pa.Table) -> None:
        """Add the windows of a batch to all tables. The manifest is replaced last, so a failure half-way adds
        nothing."""
        query = self._query()
        known = self._manifest["live"]["query"]
        if known not in ("", query):
            raise LakeError(
                f"the tables in {self._directory} are of another checkpoint",
                hint="give another --out, or put its checkpoint back",
            )
        if batch <= self.batch:
            return
        fresh = _by_window(counts)
        before = {**self._before, **{window: _coarse(part) for window, part in fresh.items()}}
        history = pa.concat_tables(before.values())
        tables = derive(counts, names, window_us=self._window_us, only=COUNTED, history=history, settled=True)
        described, recent, shown_names = {}, {}, IdNames(names)
        for name, table in tables.items():
            mine = table.filter(pc.is_in(table["window_us"], pa.array(fresh, table["window_us"].type)))
            described[name], recent[name] = self._grown(name, presented(name, mine, shown_names), batch)
        manifest = {
            **self._manifest,
            "records": self._manifest["records"] + pc.sum(counts["records"]).as_py(),
            "live": {"batch": batch, "query": query},
            "tables": described,
        }
        replace(self._directory / MANIFEST, json.dumps(manifest).encode())
        self._lake.show(manifest, before=self._manifest)
        self._manifest, self._recent = manifest, recent
        self._windows = _newest({**self._windows, **fresh}, WINDOWS)
        self._before = _newest(before, HISTORY)
        self._unshown = _Shown(recent, self._windows, names)

    def show(self, now_s: float) -> None:
        """Write pages and summary if there are new rows and the last write is old enough. Runs outside the batches."""
        shown = self._unshown
        if shown is None or now_s - self._shown_s < SHOWN_EVERY_S:
            return
        self._shown_s, self._unshown = now_s, None
        for name, recent in shown.recent.items():
            replace(self._directory / _page(name), page_of(name, recent, self._window_us), sync=False)
        whole = pa.concat_tables(shown.windows.values())
        replace(self._directory / SUMMARY, summary_bytes(whole, shown.names, self._window_us), sync=False)

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Write the status file."""
        replace(self._directory / STATUS, json.dumps(dict(status)).encode(), sync=False)

    def _begun(self) -> Json:
        found = self._lake.manifest()
        if found is None:
            self._lake.directories.refuse_others(TABLES)
            return {
                "format": FORMAT, "digest": "", "engine": ENGINE, "window_us": self._window_us, "records": 0,
                "segments": 0, "left_out": [], "live": {"batch": -1, "query": ""}, "tables": {},
            }  # fmt: skip
        if found.get("engine") != ENGINE or found["window_us"] != self._window_us:
            raise LakeError(
                f"the tables in {self._directory} are of another analysis",
                hint="give another --out, or the --window that they were made with",
            )
        return found

    def _query(self) -> str:
        try:
            return str(json.loads((self._directory / "checkpoint" / "metadata").read_text())["id"])
        except (OSError, ValueError, KeyError):
            return ""

    def _grown(self, name: str, shown: pa.Table, batch: int) -> tuple[Json, pa.Table]:
        """Add rows to a table. Return its manifest entry and its newest rows."""
        before = self._manifest["tables"].get(name, {"rows": 0, "files": [], "json": ""})
        files, part, kind = list(before["files"]), shown, "live"
        single = [file for file in files if file.startswith(f"{FILES}/{name}/live-")]
        if len(single) >= JOINED_FILES:  # each file once, so that the last batch of a day is as fast as its first
            kind = "joined"
            part = pa.concat_tables([*map(self._lake.read_file, single), part])
            files = [file for file in files if file not in single]
        if part.num_rows or not files:  # a table without rows has a file, so that its columns are known
            files.append(self._lake.write_file(name, f"{kind}-{batch:08d}", part))
        recent = pa.concat_tables([self._recent[name], shown]) if name in self._recent else shown
        recent = recent.slice(max(0, recent.num_rows - ROWS_MAX))
        page = _page(name)
        if not (self._directory / page).is_file():
            replace(self._directory / page, page_of(name, recent, self._window_us), sync=False)
        entry = {
            "description": TABLES[name].description,
            "rows": before["rows"] + shown.num_rows,
            "columns": {field.name: column_description(name, field) for field in shown.schema},
            "files": files,
            "json": page,
        }
        return entry, recent

    def _tail(self, name: str, rows: int) -> pa.Table:
        """Return the newest rows of a table, in order."""
        parts: list[pa.Table] = []
        for file in reversed(self._manifest["tables"][name]["files"]):
            parts.insert(0, self._lake.read_file(file))
            if sum(part.num_rows for part in parts) >= rows:
                break
        whole = pa.concat_tables(parts)
        return whole.slice(max(0, whole.num_rows - rows))

    def _counts_before(self) -> pa.Table:
        """Return the counts of the last windows, with which the next windows are compared."""
        files = self._manifest["tables"].get("counts", {"files": []})["files"]
        if not files:
            return COUNTS.empty_table()
        parts: list[pa.Table] = []
        for file in reversed(files):
            parts.insert(0, ids_of(self._lake.read_file(file)))
            if len(set().union(*(pc.unique(part["window_us"]).to_pylist() for part in parts))) > WINDOWS:
                break
        return pa.concat_tables(parts)


def _page(name: str) -> str:
    return f"{PAGES}/{name}/live.json"


def _by_window(counts: pa.Table) -> Windows:
    windows = sorted(pc.unique(counts["window_us"]).to_pylist())
    if len(windows) == 1:
        return {windows[0]: counts}
    return {window: counts.filter(pc.equal(counts["window_us"], window)) for window in windows}


def _newest(windows: Windows, most: int) -> Windows:
    return {window: windows[window] for window in sorted(windows)[-most:]}


def _coarse(counts: pa.Table) -> pa.Table:
    """Reduce counts to the keys that incidents use: brokers as a whole and single links. A few rows remain of
    thousands."""
    link = counts["kind"].to_numpy() == int(RecordKind.LINK)
    for name in ("entity", "reason", "marks", "bucket", "cell"):
        place, column = counts.schema.get_field_index(name), counts[name].to_numpy()
        kept = link if name == "entity" else np.zeros(len(link), bool)
        counts = counts.set_column(place, name, pa.array(np.where(kept, column, 0).astype(column.dtype)))
    return pa.Table.from_batches([merged_batch(counts.combine_chunks().to_batches())])
