"""Lines of `plait sub`: an event as JSON for programs, as text for people."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from ..terminal.durations import shown
from ..terminal.output import attributes_text, json_text, printable

if TYPE_CHECKING:
    from ... import Event

PAYLOAD_SHOWN_MAX = 200
"""Characters of a payload that the text shows."""


def event_json(event: Event) -> str:
    """Return an event as a line of JSON. A payload that is no UTF-8 text is `{"base64": ...}`."""
    sealed = {} if event.verified is None else {"sealed_by": f"{event.verified.publisher:016x}"}
    return json_text(
        {
            "id": str(event.id),
            "publisher": f"{event.publisher:016x}",
            "seq": event.seq,
            "attributes": dict(event),
            "payload": payload_json(event.payload),
            "delay_ms": round(event.delay * 1000, 3),
            "hops": event.hops,
            "path": list(event.path),
            **sealed,
        }
    )


def payload_json(payload: bytes) -> str | dict[str, str]:
    """Return a payload as JSON: a string if it is UTF-8, else an object with its base64 text."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(payload).decode("ascii")}


def event_text(event: Event) -> str:
    """Return an event as text: `12:30:01.250  symbol=IBM price=99.5  (0.4 ms)`."""
    parts = [f"{event.published_at:%H:%M:%S.%f}"[:-3], attributes_text(event)]
    if event.payload:
        payload = event.payload
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            text = f"<{len(payload)} bytes>"
        parts.append(printable(text[:PAYLOAD_SHOWN_MAX]) + ("..." if len(text) > PAYLOAD_SHOWN_MAX else ""))
    parts.append(f"({shown(event.delay)})")
    return "  ".join(parts)
