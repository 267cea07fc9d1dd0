"""Tables as Parquet: TABLE/date=DAY/DIGEST.parquet, and manifest.json, which lists the valid files.

The newest rows of each table are also stored as JSON (`json_pages.py`).

The manifest is replaced in one step after all files that it names, so a reader gets one complete analysis: this one or
the one before. Readers take files from the manifest and never list directories.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from plait_core import PlaitError
from plait_core.values import Json

from ..records.counts import SCHEMA as COUNTS
from ..records.id_names import read_names
from ..records.inventory import Inventory
from .definitions import TABLES
from .json_pages import column_description, page_of
from .summary import SUMMARY, summary_bytes

MANIFEST: Final = "manifest.json"
FORMAT: Final = 2
"""Version of the manifest and of a live analysis's state."""

_IDS: Final = frozenset({"broker", "publisher", "neighbour", "source", "destination", "other_broker"})
"""Columns of ids, which are stored as the texts that people see elsewhere."""


class LakeError(PlaitError):
    """A directory whose manifest cannot be used."""


class Lake:
    """The tables in one directory."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def manifest(self) -> Json | None:
        """Return the current manifest, or None before the first analysis."""
        try:
            found = json.loads((self.directory / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise LakeError(f"{self.directory / MANIFEST} is no manifest of ours", hint="give another directory")
        return found

    def holds(self, inventory: Inventory, window_us: int) -> bool:
        """Return whether the tables of the same records are stored already."""
        manifest = self.manifest()
        return manifest is not None and (manifest["digest"], manifest["window_us"]) == (inventory.digest(), window_us)

    def read(self, table: str) -> pa.Table:
        """Return a table from the files that the manifest names."""
        manifest = self.manifest()
        if manifest is None or table not in manifest["tables"]:
            raise LakeError(f"there is no table {table} in {self.directory}", hint="plait analyze makes it")
        return pa.concat_tables([self.read_file(name) for name in manifest["tables"][table]["files"]])

    def read_file(self, name: str) -> pa.Table:
        """Return one file of a table."""
        return pq.read_table(self.directory / name, partitioning=None)

    def write(self, tables: Mapping[str, pa.Table], inventory: Inventory, engine: str, window_us: int) -> None:
        """Store these tables, replace the manifest, and delete the files of the tables before."""
        known = self.manifest()  # raises an error for a foreign directory, before anything is written
        if known is not None and "live" in known:
            raise LakeError(f"{self.directory} has tables of a live analysis", hint="give another --out")
        digest = inventory.digest()
        described: Json = {}
        for name, table in tables.items():
            shown = presented(name, table)
            described[name] = {
                "description": TABLES[name].description,
                "rows": shown.num_rows,
                "columns": {field.name: column_description(name, field) for field in shown.schema},
                "files": self._write_days(name, shown, f"{digest}-{window_us}-{engine}"),
                "json": self._write_page(name, shown, f"{digest}-{window_us}-{engine}", window_us),
            }
        manifest = {
            "format": FORMAT,
            "digest": digest,
            "engine": engine,
            "window_us": window_us,
            "records": inventory.records,
            "segments": len(inventory.segments),
            "left_out": [{"path": found.path, "why": found.why} for found in inventory.findings],
            "tables": described,
        }
        if "counts" in tables:
            short = summary_bytes(tables["counts"].cast(COUNTS), read_names(inventory), window_us)
            replace(self.directory / SUMMARY, short)
        replace(self.directory / MANIFEST, json.dumps(manifest, indent=1).encode())
        self._forget(described)

    def _write_days(self, name: str, table: pa.Table, file: str) -> list[str]:
        """Write a file for each day. A table without rows gets one file, so that its columns are known."""
        days = pc.strftime(table["window"], format="%Y-%m-%d")
        names = []
        for day in sorted(pc.unique(days).to_pylist()) or ["none"]:
            path = Path(name) / f"date={day}" / f"{file}.parquet"
            (self.directory / path).parent.mkdir(parents=True, exist_ok=True)
            part = table.filter(pc.equal(days, day)) if day != "none" else table
            partial = self.directory / f"{path}.partial"
            pq.write_table(part, partial, compression="zstd")
            os.replace(partial, self.directory / path)
            names.append(str(path))
        return names

    def _write_page(self, name: str, table: pa.Table, file: str, window_us: int) -> str:
        path = Path(name) / f"{file}.json"
        (self.directory / name).mkdir(parents=True, exist_ok=True)
        replace(self.directory / path, page_of(name, table, window_us))
        return str(path)

    def _forget(self, described: Mapping[str, Any]) -> None:
        """Delete files of our tables that the manifest does not name. Other files in the directory are left alone."""
        kept = {self.directory / file for table in described.values() for file in (*table["files"], table["json"])}
        for name in TABLES:
            for kind in ("date=*/*.parquet*", "*.json*"):
                for path in (self.directory / name).glob(kind):
                    if path not in kept:
                        path.unlink(missing_ok=True)


def presented(name: str, table: pa.Table) -> pa.Table:
    """Return an engine's table in the form in which it is stored: ids as texts, typed times, sorted."""
    columns: dict[str, pa.Array] = {}
    key = TABLES[name].key
    for field in sorted(table.schema, key=lambda field: (field.name not in key, _place(name, field.name))):
        column = table[field.name].combine_chunks()
        if field.name == "window_us":
            columns["window"] = column.cast(pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        elif field.name in _IDS:
            ids = column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
            columns[field.name] = pa.array([f"{id:016x}" for id in ids.tolist()], pa.string())
        elif field.name == "sequence":
            numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64)
            columns[field.name] = pa.array(numbers.view(np.uint64))
        elif pa.types.is_integer(field.type) or pa.types.is_decimal(field.type):
            columns[field.name] = column.cast(pa.int64())
        elif pa.types.is_floating(field.type):
            columns[field.name] = column.cast(pa.float64())
        else:
            columns[field.name] = column.cast(pa.string())
    shown = pa.table(columns)
    return shown.sort_by([("window" if part == "window_us" else part, "ascending") for part in key])


def parquet_of(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def ids_of(counts: pa.Table) -> pa.Table:
    """Return the table `counts` with numeric ids, so that it can be merged again."""
    ids = np.array([int(text, 16) for text in counts["broker"].to_pylist()], np.uint64).view(np.int64)
    columns = {name: counts[name] for name in COUNTS.names if name in counts.column_names}
    columns |= {"window_us": counts["window"].cast(pa.int64()), "broker": pa.array(ids)}
    return pa.table({name: columns[name] for name in COUNTS.names}).cast(COUNTS)


def _place(table: str, column: str) -> int:
    """Return a column's position in the order of the table's definition."""
    order = [*TABLES[table].key, *TABLES[table].columns]
    return order.index(column)


def replace(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file in one step. `sync`: flush the data to the disk first."""
    partial = path.with_name(f"{path.name}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(partial, path)
