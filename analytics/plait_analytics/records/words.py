"""Texts for the ids and codes in records, computed once for each distinct value of a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plait_core.ids import id_text
from plait_core.telemetry import FULL, LATE, TO_BROKER, RecordKind, reason_text, subject_is_id

from .id_names import SCHEMA as NAMES

Numbers = Mapping[str, np.ndarray]
"""Columns of signed numbers by name."""

MARKS: Final = {
    0: None, LATE: "late", TO_BROKER: "to_broker", LATE | TO_BROKER: "late, to_broker", FULL: "full",
}  # fmt: skip
KINDS: Final = {int(kind): kind.name.lower() for kind in RecordKind}


class IdNames:
    """Names of ids."""

    def __init__(self, names: pa.Table | None = None) -> None:
        rows = (names if names is not None else NAMES.empty_table()).to_pylist()
        self._names = {(row["kind"], row["broker"], row["id"]): row["client"] or row["name"] or None for row in rows}

    def broker(self, id: int) -> str | None:
        return self._names.get(("broker", 0, id))

    def publisher(self, id: int) -> str | None:
        return self._names.get(("publisher", 0, id))

    def client(self, broker: int, subscription: int) -> str | None:
        """Return the name of a subscription's client."""
        return self._names.get(("subscription", broker, subscription))

    def subject(self, broker: int, subject: int, kind: int, marks: int) -> str | None:
        """Return the name of the subject of records, or of the entity of counts."""
        if kind == RecordKind.PUBLISH:
            return self.publisher(subject)
        return self.broker(subject) if subject_is_id(kind, marks) else self.client(broker, subject)


def texts(numbers: Numbers, columns: Sequence[str], text: Callable[..., str | None]) -> pa.Array:
    """Return a text for each row, from the columns that it depends on."""
    if len(columns) == 1:  # sorting numbers is ten times as fast as sorting rows
        distinct, places = np.unique(numbers[columns[0]], return_inverse=True)
        values = [text(number) for number in distinct.tolist()]
    else:
        keys = np.stack([numbers[column] for column in columns], axis=1)
        distinct, places = np.unique(keys, axis=0, return_inverse=True)
        values = [text(*key) for key in distinct.tolist()]
    return pa.array(values, pa.string()).take(pa.array(places.reshape(-1)))


def codes(column: pa.ChunkedArray, code: Callable[[Any], int]) -> pa.Array:
    """Return the number of each text, 0 for null."""
    encoded = column.combine_chunks().dictionary_encode()
    found = pa.array([code(text) for text in encoded.dictionary.to_pylist()], pa.int64())
    return pc.fill_null(found.take(encoded.indices), 0)


def hex_of(id: int) -> str:
    """Return the text of a signed id."""
    return id_text(id & 0xFFFFFFFFFFFFFFFF)


def id_of(text: str) -> int:
    """Return the signed id of a text."""
    return int(np.uint64(int(text, 16)).astype(np.int64))


def subject_text(subject: int, kind: int, marks: int) -> str | None:
    """Return the subject of records, or the entity of counts, as text. Return None if there is none."""
    if not subject:
        return None
    return hex_of(subject) if entity_is_id(kind, marks) else str(subject)


def entity_is_id(kind: int, marks: int) -> bool:
    """Return whether the entity of counts is an id. Those of publications are publishers."""
    return kind == RecordKind.PUBLISH or subject_is_id(kind, marks)


def kind_text(code: int) -> str:
    return KINDS.get(code) or str(code)  # a record of a kind that this version does not know


def reason_or_none(code: int) -> str | None:
    return reason_text(code) or None
