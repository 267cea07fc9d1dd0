"""docs/reference/sdk.md: the names of `import plait`, from their docstrings."""

from __future__ import annotations

import ast
import copy
import inspect
import re
import sys
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Final, is_typeddict

import plait
from plait import errors

from .reading import (
    HEAD,
    attributes,
    callables,
    class_in,
    described,
    docstring,
    function_in,
    one_line,
    paragraphs,
    path_of,
    tree_of,
    values,
)

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
    "reply_failure",
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
    "as_filter",
    "normal",
    "system",
}
"""Methods that only Plait's own modules call."""

HIDDEN: Final = frozenset({"dial", "randomness", "limits"})
"""Parameters that only tests replace."""


def sdk_page() -> str:
    """Return the page."""
    listed = {name for names in PARTS.values() for name in names}
    raised = {name for name in plait.__all__ if isinstance(getattr(plait, name), type) and name in errors.__all__}
    beside = {"sync", "testing"}
    assert listed | raised | beside | {"__version__"} == set(plait.__all__), listed ^ (
        set(plait.__all__) - raised - beside
    )
    parts = [
        HEAD + "# Python SDK\n\n`import plait`. Everything is typed. `plait.sync` is the same without `async`.\n\n"
        'A `Duration` is a number of seconds, a text with a unit such as `"50ms"`, or a `timedelta`. '
        "`plait.__version__` is the installed version. "
        "[Values](values.md) has the mapping of Python values to attributes."
    ]
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
    path = _home(name)
    if inspect.isfunction(found):
        node = _shown(function_in(path, found.__name__), path)
        signature = described(node).signature
        text = re.sub(r"^- `dial`.*\n?", "", docstring(node), flags=re.MULTILINE)
        return f"### {name}\n\n{_code(signature)}\n\n{paragraphs(text)}{_options_link(signature, chr(10) * 2)}"
    if is_typeddict(found):
        return _options(name, class_in(path, name))
    if isinstance(found, type):
        return _class(name, class_in(path, found.__name__), path)
    if name == "F":
        attribute = _class("F.name", class_in(path, "Attribute"), path)
        return _class(name, class_in(path, type(found).__name__), path) + "\n\n" + attribute
    (alias,) = (value for value in values(tree_of(path).body) if value.name == name)
    return f"### {name}\n\n`{alias.default}`\n\n{alias.says}"


def _class(name: str, node: ast.ClassDef, path: Path) -> str:
    parts = [f"### {name}", paragraphs(docstring(node))]
    names = _constants(path)
    items = [
        f"- `{value.name}: {value.kind}{f' = {names.get(value.default, value.default)}' if value.default else ''}`"
        + (f": {value.says}" if value.says else "")
        for value in [*values(node.body), *attributes(node.body)]
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


def _home(name: str) -> Path:
    """Return the module that defines a name of `plait`, as `plait` imports it for type checkers, or imports it from."""
    for node in ast.walk(tree_of(path_of(plait))):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            module = resolve_name("." * node.level + (node.module or ""), "plait")
            found = getattr(sys.modules.get(module) or import_module(module), name)
            home = type(found).__module__ if name == "F" else getattr(found, "__module__", module)
            home = module if home == "types" else home  # a union has no module of its own
            return path_of(sys.modules[home if home in sys.modules else module])
    raise AssertionError(f"plait does not import {name}")


def _constants(path: Path) -> dict[str, str]:
    """Return the numbers and texts that a module names, also those that it imports, as they are written."""
    (module,) = {found for found in list(sys.modules.values()) if getattr(found, "__file__", None) == str(path)}
    return {name: repr(value) for name, value in vars(module).items() if isinstance(value, int | float | str)}


def _shown(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Return a function without hidden parameters, and with the values of constants that are defaults."""
    shown, names = copy.deepcopy(node), _constants(path)
    arguments = shown.args
    positional = arguments.posonlyargs + arguments.args
    without = len(positional) - len(arguments.defaults)
    kept = [(arg, i - without) for i, arg in enumerate(arguments.args) if arg.arg not in HIDDEN]
    arguments.defaults = [arguments.defaults[place] for _, place in kept if place >= 0]
    arguments.args = [arg for arg, _ in kept]
    pairs = [
        pair for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if pair[0].arg not in HIDDEN
    ]
    arguments.kwonlyargs, arguments.kw_defaults = [arg for arg, _ in pairs], [default for _, default in pairs]

    def written(default: ast.expr) -> ast.expr:
        return ast.parse(names.get(ast.unparse(default), ast.unparse(default)), mode="eval").body

    arguments.defaults = [written(default) for default in arguments.defaults]
    arguments.kw_defaults = [default and written(default) for default in arguments.kw_defaults]
    return shown


def _code(signature: str) -> str:
    return f"```text\n{signature}\n```"
