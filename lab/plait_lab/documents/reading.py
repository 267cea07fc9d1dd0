"""Reading of sources: names, signatures, docstrings, and comments beside values."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

HEAD = "<!-- Written by `make docs`. -->\n\n"


class Value(NamedTuple):
    """A name with a value, such as a field or a limit."""

    name: str
    kind: str
    default: str
    says: str


class Callable(NamedTuple):
    """A function or method with its signature."""

    name: str
    signature: str
    says: str
    is_property: bool


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a source, parsed once."""
    return ast.parse(path.read_text())


def path_of(module: ModuleType) -> Path:
    """Return the path of a module's source."""
    found = inspect.getsourcefile(module)
    assert found is not None, "it was written by somebody"
    return Path(found)


def class_in(path: Path, name: str) -> ast.ClassDef:
    """Return the syntax tree of a class."""
    return next(node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef) and node.name == name)


def function_in(path: Path, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Return the syntax tree of a function; of overloads, the last."""
    found = [node for node in tree_of(path).body if _is_function(node) and node.name == name]  # type: ignore[attr-defined]
    return found[-1]  # type: ignore[return-value]


def values(body: list[ast.stmt]) -> Iterator[Value]:
    """Yield names with values, each with the docstring below it."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if not isinstance(target, ast.Name) or target.id.startswith("_"):
            continue
        assert isinstance(node, ast.AnnAssign | ast.Assign)
        kind = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else ""
        default = ast.unparse(node.value) if node.value is not None else ""
        yield Value(target.id, kind, _plain(default), _text_under(after))


def callables(body: list[ast.stmt]) -> Iterator[Callable]:
    """Yield public methods, without overload declarations."""
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        if "overload" not in decorators:
            yield described(node, is_property=bool(decorators & {"property", "cached_property"}))


def attributes(body: list[ast.stmt]) -> Iterator[Value]:
    """Yield the public attributes that the constructor of a class sets and documents."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
                target = statement.target if isinstance(statement, ast.AnnAssign) else None
                says = _text_under(after)
                if isinstance(target, ast.Attribute) and not target.attr.startswith("_") and says:
                    assert isinstance(statement, ast.AnnAssign)
                    yield Value(target.attr, ast.unparse(statement.annotation), "", says)


def described(node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_property: bool = False) -> Callable:
    """Describe a function."""
    arguments = re.sub(r"^self(, )?", "", ast.unparse(node.args))
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    waits = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    signature = (
        f"{node.name}: {returns.removeprefix(' -> ')}" if is_property else f"{waits}{node.name}({arguments}){returns}"
    )
    return Callable(node.name, signature, docstring(node), is_property)


def docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Module) -> str:
    """Return the docstring of a node, or an empty text."""
    return ast.get_docstring(node) or ""


def members(path: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield the values of an enumeration with the comments beside them, which may continue on the next lines."""
    lines = path.read_text().splitlines()
    node = class_in(path, name)
    assert node.end_lineno is not None, "a class of a parsed file"
    last = takewhile(lambda line: re.match(r"\s+#", line), lines[node.end_lineno :])  # beside the last value
    found: list[list[str]] = []
    for line in (*lines[node.lineno : node.end_lineno], *last):
        match = re.match(r"    ([A-Z_]+) = (?:\"(\w+)\"|(\d+)|\()?(?:\s+# (.*))?$", line)
        if match is not None:
            found.append([match[2] or match[1].lower(), match[4] or ""])
        elif found and (more := re.match(r"\s+(?:\d+\s+# |#\s{2,})(.*)$", line)):
            found[-1][1] = f"{found[-1][1]} {more[1]}".strip()
    return ((name, says) for name, says in found)


def markdown_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return (
        "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in lines
        )
        + "\n"
    )


def one_line(text: str) -> str:
    """Return text without line breaks."""
    return re.sub(r"\s+", " ", text).strip()


def paragraphs(text: str) -> str:
    """Return a docstring as Markdown: indented paragraphs become code."""
    parts = re.split(r"\n\s*\n", textwrap.dedent(text).strip())
    return "\n\n".join(f"```text\n{textwrap.dedent(part)}\n```" if part.startswith("    ") else part for part in parts)


def _is_function(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _text_under(node: ast.stmt | None) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return one_line(node.value.value) if is_text else ""  # type: ignore[union-attr]


def _plain(value: str) -> str:
    """Return a default as a reader expects it: without a field factory."""
    found = re.fullmatch(r"field\(default_factory=(\w+)\)", value)
    return f"{found[1]}()" if found else re.sub(r"^field\(default=(.*?)(, repr=False)?\)$", r"\1", value)
