"""docs/reference/sdk.md: the names of `import plait`, from their docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import Final, is_typeddict

import plait
from plait import errors

from .reading import HEAD, callables, class_in, described, docstring, function_in, one_line, paragraphs, path_of, values

PARTS: Final = {
    "Connecting": ("connect", "ConnectOptions", "peer", "Client", "PeerClient", "Reconnect", "Outbox", "SessionStats"),
    "Publishing": ("EventOptions", "PublishOptions", "Receipt", "Advertisement", "Seal"),
    "Subscribing": ("SubscribeOptions", "Subscription", "Buffer", "SubscriptionStats", "Opening"),
    "Events": ("Event", "EventId", "Verified"),
    "Notices": ("Notice", "Gap", "Late", "Rerouted", "SlowConsumer"),
    "Filters": ("F", "parse", "Filter"),
}

INTERNAL: Final = {
    "start",
    "reply_to",
    "forget_subscription",
    "acknowledge",
    "decline",
    "report_unusable",
    "take_batch",
    "take_opened",
    "unsealing",
    "manual_ack",
    "convert",
    "cancel_workers",
    "detach",
}
"""Methods that only the SDK's own modules call."""


def sdk_page() -> str:
    """Return the page."""
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
        signature = described(node).signature
        return (
            f"### {name}\n\n{_code(signature)}\n\n{paragraphs(docstring(node))}{_options_link(signature, chr(10) * 2)}"
        )
    if is_typeddict(found):
        return _options(name, class_in(path, name))
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
        f"- `{one.signature}`: {one_line(one.says.partition(chr(10) * 2)[0])}{_options_link(one.signature, ' ')}"
        for one in callables(node.body)
        if one.name not in INTERNAL
    ]
    return "\n\n".join(parts + (["\n".join(items)] if items else []))


def _options(name: str, node: ast.ClassDef) -> str:
    """Return the section of a TypedDict: its options with their types, and their meaning from its docstring."""
    meanings = dict(re.findall(r"^- `(\w+)`: (.*(?:\n  .*)*)", docstring(node), re.MULTILINE))
    kinds = {value.name: value.kind for value in values(node.body)}
    assert list(meanings) == list(kinds), f"{name}: one entry of the docstring for each option, in their order"
    bases = [ast.unparse(base) for base in node.bases if ast.unparse(base) != "TypedDict"]
    head = "Keyword options" + "".join(f", beside those of [{base}](#{base.lower()})" for base in bases) + "."
    items = [f"- `{option}: {kind}`: {one_line(meanings[option])}" for option, kind in kinds.items()]
    return "\n\n".join([f"### {name}", head, "\n".join(items)])


def _options_link(signature: str, separator: str) -> str:
    """Return where the options of a function are described, if it takes any."""
    found = re.search(r"Unpack\[(\w+)\]", signature)
    return f"{separator}Options: [{found[1]}](#{found[1].lower()})." if found is not None else ""


def _home(found: object) -> Path:
    module = getattr(found, "__module__", "plait")
    return path_of(sys.modules[module])


def _code(signature: str) -> str:
    return f"```text\n{signature}\n```"
