"""What ids in records mean: the dictionaries that brokers keep beside their segments. What was said last holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

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
    """All names of an inventory's brokers. A line that is no name is left out: its broker died while it wrote it."""
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
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
    """Beside segments, by their broker's start; beside compacted records, by broker and start."""
    started = f"{segment.header.started_us:016d}"
    if segment.compacted:
        return Path(segment.path).parents[3] / "names" / f"{segment.header.broker:016x}-{started}.names.jsonl"
    return Path(segment.path).parent / f"{started}.names.jsonl"


def signed(id: int) -> int:
    """An id as the engines have it."""
    return int(np.uint64(id).astype(np.int64))


def _row(line: str, broker: int) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
        kind = said["kind"]
        id = int(said["id"]) if kind == "subscription" else signed(int(said["id"], 16))
        texts = {key: str(said.get(key, "")) for key in ("name", "filter", "client")}
        owner = broker if kind == "subscription" else 0
        return {"kind": str(kind), "broker": owner, "id": id, **texts, "within_us": int(said.get("within_us", 0))}
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
