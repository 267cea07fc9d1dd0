"""docs/reference/wire.md: the frames, from their declarations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plait_core import limits
from plait_core.wire import handshake
from plait_core.wire.frame_types.frame_schema import FRAME_SCHEMAS

from .reading import HEAD, docstring, markdown_table, one_line, path_of, tree_of, values

_WIRE: Final = path_of(handshake).parent
_ARCHITECTURE: Final = Path(__file__).parents[3] / "ARCHITECTURE.md"
_ROOMS: Final = {
    "connection_frames": "Handshake",
    "session_frames": "Clients",
    "overlay_frames": "Brokers",
    "strategy_frames": "Strategies",
    "trace_frames": "Tracing",
    "peer_frames": "Peers",
}


def wire_page() -> str:
    """Return the page."""
    text = _ARCHITECTURE.read_text()
    start = text.index("## The wire\n") + len("## The wire\n")
    shape = text[start : text.index("\n## ", start)].strip()
    parts = [f"{HEAD}# Wire protocol\n\n{shape}\n\n## Control frames\n\nFields marked with = may be left out."]
    for room, title in _ROOMS.items():
        rows = list(_frames(_WIRE / "frame_types" / f"{room}.py"))
        if rows:
            parts.append(f"### {title}\n\n" + markdown_table(("type", "frame", "fields", ""), rows))
    bounds = [(f"`{v.name}`", f"{_size(v.default)}", v.says) for v in values(tree_of(path_of(limits)).body) if v.says]
    parts.append("## Limits\n\n" + markdown_table(("", "", ""), bounds))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _frames(path: Path) -> Iterator[tuple[str, str, str, str]]:
    for node in tree_of(path).body:
        if not isinstance(node, ast.ClassDef):
            continue
        control_frame = next((d for d in node.decorator_list if ast.unparse(d).startswith("control(")), None)
        number = (
            next((n for n, known in FRAME_SCHEMAS.items() if known.frame.__name__ == node.name), None)
            if control_frame
            else None
        )
        if number is not None:
            fields = ", ".join(f"`{value.name}{'=' if value.default else ''}`" for value in values(node.body))
            yield f"`{number:#x}`", node.name, fields, one_line(docstring(node))


def _size(text: str) -> str:
    """Format a bound as a number if it is a product or power of numbers."""
    return f"{eval(text):,}" if re.fullmatch(r"[\d_ *+<-]+", text) else f"`{text}`"  # noqa: S307 - numbers alone
