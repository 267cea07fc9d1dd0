"""The names of ids in records, from the dictionaries that brokers write beside their segments. The last entry wins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from plait_core.values import Json

from .inventory import Inventory, SegmentFile

SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("broker", pa.int64()),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("filter", pa.string()),
        ("client", pa.string()),
        ("within_us", pa.int64()),
    ]
)


def read_names(inventory: Inventory) -> pa.Table:
    """Return all names of an inventory's brokers. Incomplete lines, left by a broker that died, are skipped."""
    found: dict[tuple[str, int, int], Json] = {}
    files: dict[Path, int] = {}
    for segment in inventory.segments:
        files[names_file(segment)] = segment.header.broker
    for path, broker in files.items():
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            row = _row(line, signed(broker))
            if row is not None:
                found[row["kind"], row["broker"], row["id"]] = row
    return pa.Table.from_pylist(list(found.values()), schema=SCHEMA)


def names_file(segment: SegmentFile) -> Path:
    """Return the path of the dictionary: beside segments by start time, beside compacted records by broker and start
    time."""
    started = f"{segment.header.started_us:016d}"
    if segment.compacted:
        return Path(segment.path).parents[3] / "names" / f"{segment.header.broker:016x}-{started}.names.jsonl"
    return Path(segment.path).parent / f"{started}.names.jsonl"


def signed(id: int) -> int:
    """Return an id as the signed integer that the engines use."""
    return int(np.uint64(id).astype(np.int64))


def _row(line: str, broker: int) -> Json | None:
    try:
        entry = json.loads(line)
        kind = entry["kind"]
        id = int(entry["id"]) if kind == "subscription" else signed(int(entry["id"], 16))
        texts = {key: str(entry.get(key, "")) for key in ("name", "filter", "client")}
        owner = broker if kind == "subscription" else 0
        return {"kind": str(kind), "broker": owner, "id": id, **texts, "within_us": int(entry.get("within_us", 0))}
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
