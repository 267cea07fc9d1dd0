"""Tables as Parquet: `OUT/TABLE` is a directory with the current files of a table, and manifest.json lists them.

The newest rows of each table are also stored as JSON (`json_pages.py`). `table_directories.py` has the layout.

The manifest is replaced in one step after all files that it names, then the directories follow, then the files of the
analysis before are deleted. So a reader of the manifest gets one complete analysis, and a reader of a directory gets
one complete table: this one or the one before.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from plait_core.values import Json

from ..records.counts import SCHEMA as COUNTS
from ..records.id_names import read_names
from ..records.inventory import Inventory
from ..records.words import IdNames
from .definitions import TABLES
from .json_pages import column_description, page_of
from .presentation import presented
from .summary import SUMMARY, summary_bytes
from .table_directories import FILES, PAGES, PARTIAL, LakeError, TableDirectories

MANIFEST: Final = "manifest.json"
FORMAT: Final = 3
"""Version of the manifest and of a live analysis's state."""

READS_MAX: Final = 3
"""Attempts to read a table. The second fails only if the tables were replaced twice within one read."""

ROW_GROUP_ROWS: Final = 1 << 17
"""Rows of a row group. Rows are ordered by window, so a reader of one hour skips the other groups."""


class Lake:
    """The tables in one directory."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.directories = TableDirectories(self.directory)

    def manifest(self) -> Json | None:
        """Return the current manifest, or None before the first analysis."""
        try:
            found = json.loads((self.directory / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise LakeError(
                f"{self.directory / MANIFEST} is no manifest of this version of plait analyze",
                hint="give another directory",
            )
        return found

    def holds(self, inventory: Inventory, window_us: int) -> bool:
        """Return whether the tables of the same records are stored already."""
        manifest = self.manifest()
        return manifest is not None and (manifest["digest"], manifest["window_us"]) == (inventory.digest(), window_us)

    def read(self, table: str) -> pa.Table:
        """Return a table from the files that the manifest names."""
        for _ in range(READS_MAX):
            files = self.files(table)
            try:
                return pa.concat_tables([self.read_file(name) for name in files])
            except FileNotFoundError:
                if files == self.files(table):
                    raise LakeError(
                        f"{self.directory} lacks files of the table {table}", hint="plait analyze makes it"
                    ) from None
        raise LakeError(f"the table {table} was replaced {READS_MAX} times while it was read", hint="read it again")

    def files(self, table: str) -> list[str]:
        """Return the current files of a table, relative to the directory."""
        manifest = self.manifest()
        if manifest is None or table not in manifest["tables"]:
            raise LakeError(f"there is no table {table} in {self.directory}", hint="plait analyze makes it")
        files: list[str] = manifest["tables"][table]["files"]
        return files

    def read_file(self, name: str) -> pa.Table:
        """Return one file of a table."""
        return pq.read_table(self.directory / name, partitioning=None)

    def write(self, tables: Mapping[str, pa.Table], inventory: Inventory, engine: str, window_us: int) -> None:
        """Store these tables, replace the manifest, and delete files of earlier analyses."""
        known = self.manifest()  # raises an error for a foreign directory, before anything is written
        if known is not None and "live" in known:
            raise LakeError(f"{self.directory} has tables of a live analysis", hint="give another --out")
        self.directories.refuse_others(tables)
        names = read_names(inventory)
        generation = known["generation"] + 1 if known is not None else 1
        file = f"{generation:06d}-{inventory.digest()}"
        described: Json = {}
        for name, table in tables.items():
            shown = presented(name, table, IdNames(names))
            described[name] = {
                "description": TABLES[name].description,
                "rows": shown.num_rows,
                "columns": {field.name: column_description(name, field) for field in shown.schema},
                "files": [self.write_file(name, file, shown)],
                "json": self._write_page(name, shown, file, window_us),
            }
        manifest = {
            "format": FORMAT,
            "generation": generation,
            "digest": inventory.digest(),
            "engine": engine,
            "window_us": window_us,
            "records": inventory.records,
            "segments": len(inventory.segments),
            "left_out": [{"path": found.path, "why": found.why} for found in inventory.findings],
            "tables": described,
        }
        if "counts" in tables:
            replace(self.directory / SUMMARY, summary_bytes(tables["counts"].cast(COUNTS), names, window_us))
        replace(self.directory / MANIFEST, json.dumps(manifest, indent=1).encode())
        self.show(manifest, before=known)

    def show(self, manifest: Json, *, before: Json | None = None) -> None:
        """Make the directories of tables agree with the manifest. `before`: the manifest that it has replaced."""
        now_s, current = time(), _paths(manifest)
        self.directories.supersede(_paths(before) - current, now_s)
        self.directories.show({name: table["files"] for name, table in manifest["tables"].items()}, now_s)
        self.directories.forget(current, now_s)

    def write_file(self, table: str, file: str, rows: pa.Table) -> str:
        """Write a file of a table, not yet visible, and return its path relative to the directory."""
        path = Path(FILES) / table / f"{file}.parquet"
        replace(self.directory / path, parquet_of(rows), partial=self.directory / PARTIAL)
        return str(path)

    def _write_page(self, name: str, table: pa.Table, file: str, window_us: int) -> str:
        path = Path(PAGES) / name / f"{file}.json"
        replace(self.directory / path, page_of(name, table, window_us))
        return str(path)


def read(out: Path | str, table: str) -> pa.Table:
    """Return the current rows of a table in a directory that `plait analyze --out` wrote."""
    return Lake(out).read(table)


def _paths(manifest: Json | None) -> set[str]:
    """Return all files that a manifest names."""
    tables = manifest["tables"].values() if manifest is not None else ()
    return {path for table in tables for path in (*table["files"], table["json"])}


def parquet_of(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    return buffer.getvalue()


def replace(path: Path, data: bytes, *, sync: bool = True, partial: Path | None = None) -> None:
    """Replace a file in one step. `sync`: flush the data to the disk first. `partial`: a folder for it until then."""
    unfinished = (partial or path.parent) / f"{path.name}.partial"
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(unfinished, path)
