"""docs/reference/sdk.md: what `import plait` gives, from its docstrings."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from typing import Final

import plait
from plait import errors

from .reading import HEAD, callables, class_in, described, docstring, function_in, one_line, paragraphs, path_of, values

PARTS: Final = {
    "Connecting": ("connect", "peer", "Client", "PeerClient", "Reconnect", "Outbox", "SessionStats"),
    "Publishing": ("Receipt", "Advertisement", "Seal"),
    "Subscribing": ("Subscription", "Buffer", "SubscriptionStats", "Opening"),
    "Events": ("Event", "EventId", "Verified"),
    "Notices": ("Notice", "Gap", "Late", "Rerouted", "SlowConsumer"),
    "Filters": ("F", "parse", "Filter"),
}

INTERNAL: Final = {"start", "answer", "forget_subscription", "acknowledge", "decline", "reply_to"}
"""Methods that the SDK's own modules call."""


def sdk_page() -> str:
    """The whole page."""
    listed = {name for names in PARTS.values() for name in names}
    raised = {name for name in plait.__all__ if isinstance(getattr(plait, name), type) and name in errors.__all__}
    beside = {"sync", "testing"}
    assert listed | raised | beside == set(plait.__all__), listed ^ (set(plait.__all__) - raised - beside)
    parts = [HEAD + "# Python SDK\n\n`import plait`. Everything is typed. `plait.sync` is the same without `async`."]
    for part, names in PARTS.items():
        parts.append(f"## {part}")
        parts += [_entry(name) for name in names]
    parts.append("## Errors\n\nAll under `plait.Error`: see [errors](errors.md).")
    for name in sorted(beside):
        module = getattr(plait, name)
        parts.append(f"## plait.{name}\n\n" + paragraphs(inspect.getdoc(module) or ""))
    return "\n\n".join(parts) + "\n"


def _entry(name: str) -> str:
    found = getattr(plait, name)
    path = _home(found)
    if inspect.isfunction(found):
        node = function_in(path, found.__name__)
        return f"### {name}\n\n{_code(described(node).signature)}\n\n{paragraphs(docstring(node))}"
    if isinstance(found, type):
        return _class(name, class_in(path, found.__name__))
    return f"### {name}\n\n{paragraphs(inspect.getdoc(found) or '')}"


def _class(name: str, node: ast.ClassDef) -> str:
    parts = [f"### {name}", paragraphs(docstring(node))]
    items = [
        f"- `{value.name}: {value.kind}{f' = {value.default}' if value.default else ''}`"
        + (f": {value.says}" if value.says else "")
        for value in values(node.body)
        if value.kind
    ]
    items += [
        f"- `{one.signature}`: {one_line(one.says.partition(chr(10) * 2)[0])}"
        for one in callables(node.body)
        if one.name not in INTERNAL
    ]
    return "\n\n".join(parts + (["\n".join(items)] if items else []))


def _home(found: object) -> Path:
    module = getattr(found, "__module__", "plait")
    return path_of(sys.modules[module])


def _code(signature: str) -> str:
    return f"```text\n{signature}\n```"
