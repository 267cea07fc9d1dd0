"""Write docs/reference/wire.md: the frames, documents and messages, from their declarations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plait_core import limits
from plait_core.wire import handshake
from plait_core.wire.frame_types import peer_frames as _peer_frames  # noqa: F401 - registers its frames
from plait_core.wire.frame_types.envelope_frames import DOCUMENT_KINDS
from plait_core.wire.frame_types.frame_schema import BODY_SCHEMAS, FRAME_SCHEMAS

from .reading import HEAD, docstring, markdown_table, one_line, path_of, tree_of, values

_WIRE: Final = path_of(handshake).parent
_ARCHITECTURE: Final = Path(__file__).parents[3] / "ARCHITECTURE.md"
_ROOMS: Final = {
    "connection_frames": "Handshake",
    "session_frames": "Clients",
    "envelope_frames": "Envelopes between brokers",
    "overlay_frames": "Brokers",
    "group_frames": "Stream groups",
    "strategy_frames": "Strategies",
    "trace_frames": "Tracing",
    "peer_frames": "Peers",
}


def wire_page() -> str:
    """Return the whole page."""
    text = _ARCHITECTURE.read_text()
    start = text.index("## The wire\n") + len("## The wire\n")
    shape = text[start : text.index("\n## ", start)].strip()
    parts = [
        f"{HEAD}# Wire protocol\n\n{shape}\n\n## Control frames, documents and messages\n\n"
        "Fields marked with = may be left out. A document floods in a `Signed` frame, and a message travels in an "
        "`EndToEnd` frame. The envelope carries the fields in parentheses."
    ]
    for room, title in _ROOMS.items():
        rows = list(_frames(_WIRE / "frame_types" / f"{room}.py"))
        if rows:
            parts.append(f"### {title}\n\n" + markdown_table(("number", "name", "is a", "fields", ""), rows))
    bounds = [(f"`{v.name}`", f"{_size(v.default)}", v.says) for v in values(tree_of(path_of(limits)).body) if v.says]
    parts.append("## Limits\n\n" + markdown_table(("", "", ""), bounds))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _frames(path: Path) -> Iterator[tuple[str, str, str, str, str]]:
    numbers = {schema.frame.__name__: number for number, schema in (BODY_SCHEMAS | FRAME_SCHEMAS).items()}
    for node in tree_of(path).body:
        declared = isinstance(node, ast.ClassDef) and any(
            ast.unparse(decorator).startswith(("control(", "body(")) for decorator in node.decorator_list
        )
        if not declared or not isinstance(node, ast.ClassDef):
            continue
        number = numbers[node.name]
        roles = ["frame"] if number in FRAME_SCHEMAS else []
        if number in BODY_SCHEMAS:
            roles.append("document" if number in DOCUMENT_KINDS else "message")
        carried = BODY_SCHEMAS[number].checks if number in BODY_SCHEMAS else FRAME_SCHEMAS[number].checks
        names = [f"{value.name}{'=' if value.default else ''}" for value in values(node.body)]
        fields = ", ".join(f"`{name}`" if name.rstrip("=") in carried else f"(`{name}`)" for name in names)
        yield f"`{number:#x}`", node.name, ", ".join(roles), fields, one_line(docstring(node))


def _size(text: str) -> str:
    """Format a bound as a number if it is a product or power of numbers."""
    return f"{eval(text):,}" if re.fullmatch(r"[\d_ *+<-]+", text) else f"`{text}`"  # noqa: S307 - numbers alone
