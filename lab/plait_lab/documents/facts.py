"""docs/reference: configuration, metrics, telemetry and errors, from their declarations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import plait_core.errors
from plait import errors
from plait_broker import drop_reasons, settings
from plait_broker.server import connection_limits
from plait_broker.server.config import configuration
from plait_broker.web.metrics.overlay_metrics import INCIDENTS
from plait_core.telemetry import schema
from plait_core.wire.frame_types import session_frames

from .metric_names import MetricFamily
from .reading import HEAD, class_in, docstring, markdown_table, members, one_line, path_of, tree_of, values

_ELSEWHERE: Final = {"name", "capabilities", "log_filter", "linking"}
"""Broker settings that are not limits."""


def configuration_page() -> str:
    """Return the page of a broker's configuration."""
    text = docstring(tree_of(path_of(configuration)))
    first, _, rest = text.partition("\n\n")
    example, after = rest.split("\n\nA variable ", 1)
    limits = [
        (f"`{value.name}`", f"`{_number(value.default)}`", value.says)
        for module, name in ((settings, "BrokerSettings"), (connection_limits, "ConnectionLimits"))
        for value in values(class_in(path_of(module), name).body)
        if value.name not in _ELSEWHERE
    ]
    return _page(
        "# Configuration of a broker",
        first,
        f"```toml\n{inspect.cleandoc(example)}\n```",
        f"A variable {after}",
        "`plait broker --check-config --config FILE` checks a file.",
        "## [limits]",
        markdown_table(("key", "default", "why"), limits),
    )


def _page(*parts: str) -> str:
    return HEAD + "\n\n".join(part.rstrip() for part in parts) + "\n"


def _number(text: str) -> str:
    return f"{eval(text):_}" if re.fullmatch(r"[\d_]+ << \d+", text) else text  # noqa: S307 - numbers alone


def metrics_page(families: Sequence[MetricFamily]) -> str:
    """Return the page of `/metrics`."""
    ours = [family for family in families if family.name.startswith("plait_")]
    return _page(
        "# Metrics",
        "`/metrics` of every broker, for Prometheus. There is no label for clients, subscriptions or events.",
        markdown_table(
            ("name", "type", "labels", ""), [(f"`{f.name}`", f.kind, ", ".join(f.labels), f.says) for f in ours]
        ),
        "Those of the log are there with `--data`, those of telemetry with `--telemetry`. Besides there are those of\n"
        "any process in Python: `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds`, …",
        "## Incidents",
        "`plait_overlay_incidents_total{incident=…}`:",
        markdown_table(("incident", ""), [(f"`{name}`", says) for name, says in INCIDENTS.items()]),
        "Reasons of drops, faults and codes: [errors](errors.md). What to do about them: [alerts](alerts.md).",
    )


_OF_PEERS: Final = (
    ("publish", "count: the peers that it is sent to, in this process and others. Later receivers are not "
     "known, so expected is 0. subject: its cell, if the group has an event space"),
    ("arrival", "one for each subscription that an event arrives for. subject: the publisher's process, which may be "
     "this one, 0 if it is unknown; expected: 1 if the filter matches"),
    ("forward", "one for each copy to a peer of another process; hops count peers"),
    ("drop", "`unmatched`: it was sent for its sub-space and no filter matched, or there is no subscription; `late`; "
     "`outbox_bytes`: the application reads too slowly; `overlay_full`: the link does; `unreachable`, `gone`: the peer "
     "that it was for; `duplicate`; `not_allowed`: sent by a peer that is no parent; `invalid`"),
    ("link", "delay and jitter that subscriptions measure from parents over the link, else its first round "
     "trip; expected: parents that are overdue"),
    ("queue", "size: bytes that wait for applications; expected: applications that do not read"),
    ("match", "one read from a link was processed: decoded, matched and delivered"),
    ("membership", "a known process, while it is linked or named by gossip"),
    ("routing", "the process of a publisher, and the neighbour from which its events arrive"),
)  # fmt: skip
"""The meaning of records written by peers."""


def telemetry_page() -> str:
    """Return the page of telemetry records."""
    path = path_of(schema)
    document = schema.schema_document()
    flags = {value.name.lower(): value.says for value in values(tree_of(path).body)}
    kinds = [(str(document["kinds"][name]), f"`{name}`", says) for name, says in members(path, "RecordKind")]
    fields = [(f"`{field.name}`", field.code, field.says) for field in schema.SCHEMAS[schema.SCHEMA_VERSION]]
    reasons = [(str(code), f"`{name}`") for name, code in document["reasons"].items()]
    return _page(
        "# Telemetry records",
        f"`plait broker --telemetry DIR` writes segments of {schema.RECORD_BYTES}-byte records, little-endian, version "
        f"{schema.SCHEMA_VERSION}, with a copy of this\nschema as JSON beside them, and names (filters, brokers, "
        "clients) in a dictionary; `plait peer --telemetry DIR` does the\nsame ([of peers](#of-peers)). "
        "[`plait analyze`](../how-to/analyse.md) makes tables of them. A broker's records are events\nfor whoever "
        "listens: [as events](../how-to/monitor.md#as-events). There a field has a `$` before its name, `$kind` and\n"
        "`$reason` are words, ids are text, each flag is true or false where it means something, and `$broker` is who "
        "recorded it.",
        "## Fields",
        markdown_table(("field", "type", ""), fields),
        "## Kinds",
        markdown_table(("kind", "", "a record when"), kinds),
        "## Flags",
        markdown_table(
            ("bit", "", ""), [(str(bit), f"`{name}`", flags.get(name, "")) for name, bit in document["flags"].items()]
        ),
        "## Reasons",
        "What they mean: [errors](errors.md#drops), [in clients](errors.md#drops-in-clients).",
        markdown_table(("code", "reason"), reasons),
        "## Of peers",
        "A process of peers stands where a broker does: its id is in the header, `broker` in tables, `subject` of "
        "links. Each of its\nsubscriptions is a peer of its own, numbered from 1.",
        markdown_table(("kind", ""), [(f"`{kind}`", says) for kind, says in _OF_PEERS]),
    )


def errors_page() -> str:
    """Return the page of errors."""
    return _page(
        "# Errors",
        "Every error has `.retryable`, whether the same call may succeed later, and `.hint`, what to do.",
        f"```text\n{_tree(path_of(errors))}\n```",
        "## Codes",
        "Why something was refused: `.code` of `plait.Refused`, label `code` of `plait_rejected_total`.",
        _listed(path_of(session_frames), "Code"),
        "## Drops",
        "Why an event, or one delivery of it, ended where it did: label `reason` of `plait_events_dropped_total`,\n"
        "`.reason` of a `Gap`, the last line of `plait why`.",
        _listed(path_of(drop_reasons), "DropReason"),
        "## Drops in clients",
        "Why an application has not seen a delivery that was written for it: label `reason` of\n"
        "`plait_client_events_dropped_total`, `client_dropped` of `plait ls subs --json`. A client's reports say it.",
        _listed(path_of(session_frames), "Unseen"),
        "## Faults",
        "Why a connection was closed: label `fault` of `plait_faults_total`.",
        _listed(path_of(plait_core.errors), "FrameFault"),
    )


def _tree(path: Path) -> str:
    _, _, tree = docstring(tree_of(path)).partition("\n\n")
    return tree.strip()


def _listed(path: Path, name: str) -> str:
    return markdown_table(("", ""), [(f"`{value}`", one_line(says)) for value, says in members(path, name)])
