"""Checks that the pages of the format name every label and size of the code."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import plait_crypto
from plait_crypto import Schema, envelope, keys, limits, plaintext, routing, sessions
from plait_crypto.hazmat import ORDER, backend, capsule, hashing, issuing, parameters
from plait_crypto.hazmat.scheme import signature_bytes

ROOT = Path(__file__).parents[3]
FORMAT, KEYS = (
    (ROOT / "docs" / "reference" / f"{name}.md").read_text() for name in ("sealed-format", "sealed-format-keys")
)
PACKAGE = Path(plait_crypto.__file__).parent
BOX_BYTES = envelope.signature_box_bytes(0)
LABEL_AT = {"digest": 0, "exponent": 1, "derive": 1}
"""Which argument of the hash functions is the label."""


def labels() -> Iterator[str]:
    """Return the labels of all hashes in the code of the format."""
    for path in sorted(path for path in PACKAGE.rglob("*.py") if "keyserver" not in path.parts):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LABEL_AT:
                label = node.args[LABEL_AT[node.func.id]]
                if isinstance(label, ast.Constant):
                    yield label.value.decode()
                elif isinstance(label, ast.BinOp):
                    assert isinstance(label.left, ast.Constant)
                    yield from (label.left.value.decode() + role for role in ("SUB", "PUB"))


def credential_labels() -> Iterator[str]:
    """Return the beginnings of the labels of credentials."""
    for path in sorted((PACKAGE / "attributes").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, bytes) and node.value:
                yield node.value.decode()


def test_every_label_is_on_the_pages() -> None:
    found = set(labels())
    assert len(found) >= 25
    for label in found:
        assert f'("{label}",' in FORMAT + KEYS or f', "{label}",' in FORMAT + KEYS or f'("{label}")' in FORMAT, label


def test_every_hash_on_the_pages_has_a_label_of_the_code() -> None:
    told = set(re.findall(r'\b(?:H|X|KDF)\((?:[^()"]*(?:\([^()]*\)[^()"]*)*)"([^"]+)"', FORMAT + KEYS))
    assert told - {"label"} == set(labels())


def test_every_label_of_credentials_is_on_the_page() -> None:
    for label in {*credential_labels()} - {"schema", "credential ", "SUB", "PUB"}:
        assert f"`{label}`" in KEYS, label
    for name in (hashing.SUITE, hashing.TO_G2):
        assert f"`{name.decode()}`" in FORMAT


@pytest.mark.parametrize(
    "told",
    [
        f"r = 0x{ORDER:x}",
        f"| head | {envelope._HEAD.size} | version (1) = {envelope.VERSION}, kind (1), realm ({envelope.REALM_BYTES})",
        f"| head | {envelope._MEMBER_HEAD.size} | version (1) = {envelope.VERSION}, kind (1) = {envelope.MEMBER}",
        f"| signature | {BOX_BYTES} + {envelope.signature_box_bytes(1) - BOX_BYTES} n |",
        f"the signature ({signature_bytes(0)} + {signature_bytes(1) - signature_bytes(0)} n)",
        f"| body | {envelope.AEAD_BYTES} to {limits.BODY_BYTES_MAX:,} |",
        f"1\nto {limits.ROWS_MAX} rows with 1 to {limits.PLACES_MAX} places",
        f"| CT2 | {backend.G1_BYTES} |",
        f"| masked seed | {capsule.SEED_BYTES} |",
        f"| tags | {capsule.TAG_BYTES} for each place |",
        f"| G2 | `G`, the standard one | {backend.G2_BYTES}:",
        f'the first {capsule.TAG_BYTES} bytes of `H("H4", z)`',
        f"priority, 0 to {plaintext._PRIORITY_MAX}",
        f"Its payload has {sessions.TERMS.size} bytes",
        f"at most {limits.SESSION_EVENTS_MAX:,} events and {limits.SESSION_US_MAX // 1_000_000} s",
        f"the size of the batch, at most {limits.BATCH_MAX} ",
        f"| root's signature | {envelope.ROOT_SIGNATURE_BYTES} |",
        f"The nonce is the number in {sessions.NONCE_BYTES} bytes",
    ],
)
def test_sizes_of_events_are_on_the_page(told: str) -> None:
    assert told in FORMAT


@pytest.mark.parametrize(
    "told",
    [
        f"| public parameters | {parameters.PARAMETERS_BYTES:,} | version (1) = {parameters.VERSION}",
        f"| master secret | {parameters.MASTER_BYTES} | version (1) = {parameters.VERSION}",
        f"| head | {keys._HEAD.size} | version (1) = {keys.VERSION}",
        f'`KDF(seed, "fillers", H("row", c...))`: {issuing.FILLER_SEED_BYTES} bytes',
        f"a filler seed ({issuing.FILLER_SEED_BYTES}) for each row",
        f"1 to {limits.BOXES_MAX} boxes, 1 to {limits.ROWS_MAX} rows, at most {limits.CREDENTIALS_MAX} credentials",
        f"{limits.KEYS_BYTES_MAX >> 20} MiB in all",
        f"A place is below {limits.PLACES_MAX}, and a label has at most {limits.LABEL_BYTES_MAX:,} bytes",
        f"One entry has at most {routing.EPOCH_BYTES_MAX >> 10} KiB with its size, and a deposit "
        f"{routing.DEPOSIT_BYTES_MAX >> 10} KiB",
        f"slot bits B from 0 to {limits.SLOT_BITS_MAX}",
        f"1 to {limits.ROWS_MAX - 1} objects",
        f"1 to {limits.NUMBER_BITS_MAX} bits",
    ],
)
def test_sizes_of_keys_are_on_the_page(told: str) -> None:
    assert told in KEYS


def test_the_example_of_a_schema_is_one() -> None:
    (example,) = re.findall(r"```json\n(.+)\n```", KEYS)
    assert Schema.from_json(example).to_json() == example == json.dumps(json.loads(example), separators=(",", ":"))


def test_every_reason_is_on_the_page() -> None:
    from typing import get_args

    from plait_crypto.errors import UnopenableReason

    told = re.findall(r"^\| `(\w+)` \|", FORMAT.partition("## Refusals")[2], re.MULTILINE)
    assert set(told) == set(get_args(UnopenableReason))
