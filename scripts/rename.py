#!/usr/bin/env python3
"""Rename modules, folders and names as `names.toml` says: python scripts/rename.py [names.toml] [--package NAME]...

Modules move with their imports, module-level names with all their uses, attributes wherever they stand. Run it on a
clean checkout, then `make format` and the tests. With --package only the modules and names of these packages change.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEMBERS = ("core", "core/kernel", "crypto", "broker", "client", "peer", "analytics", "lab")
TEXTS = {".md", ".toml", ".sh", ".yaml", ".yml", ".js", ".html", ".txt", ".json", ".css", ".rs"}
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class Names:
    """Contents of the file, restricted to some packages."""

    modules: dict[str, str]
    rooms: dict[str, str]
    symbols: dict[tuple[str, str], str]
    attributes: dict[str, str]
    files: dict[str, str]
    words: dict[str, str]

    @classmethod
    def read(cls, path: Path, packages: list[str]) -> Names:
        data = tomllib.loads(path.read_text())

        def chosen(name: str) -> bool:
            return not packages or name.partition(".")[0] in packages

        return cls(
            {old: new for old, new in data["modules"].items() if chosen(old)},
            {room: text for room, text in data["rooms"].items() if chosen(room)},
            {tuple(key.split(":")): new for key, new in data["symbols"].items() if chosen(key)},  # type: ignore[misc]
            data.get("attributes", {}) if not packages or "attributes" in packages else {},
            data.get("files", {}) if not packages or "tests" in packages else {},
            data.get("words", {}) if not packages or "words" in packages else {},
        )

    def module(self, old: str) -> str:
        """The new dotted name of a module, or of what lies in a package that moves."""
        head, tail = old, ""
        while head:
            if head in self.modules:
                return self.modules[head] + tail
            head, _, last = head.rpartition(".")
            tail = f".{last}{tail}"
        return old


@dataclass
class Source:
    """One Python file, before."""

    path: Path
    module: str
    """Its dotted name, or empty if it is no module of a package."""
    text: str
    tree: ast.Module
    bound: dict[str, str] = field(default_factory=dict)
    """Local names of imported modules: the old dotted module."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Local names that change."""

    @property
    def package(self) -> str:
        return self.module if self.path.name == "__init__.py" else self.module.rpartition(".")[0]


def tracked() -> list[Path]:
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in out.splitlines() if (ROOT / line).is_file()]


def module_of(path: Path) -> str:
    for member in sorted(MEMBERS, key=len, reverse=True):
        base = ROOT / member
        if path.is_relative_to(base):
            parts = path.relative_to(base).with_suffix("").parts
            if len(parts) > 1 and (base / parts[0] / "__init__.py").exists():
                return ".".join(parts).removesuffix(".__init__")
    return ""


def place_of(module: str, path: Path, is_package: bool) -> Path:
    """Where a module's file belongs."""
    base = next(ROOT / m for m in sorted(MEMBERS, key=len, reverse=True) if path.is_relative_to(ROOT / m))
    top = module.partition(".")[0]
    if not (base / top).is_dir():
        base = next(ROOT / m for m in MEMBERS if (ROOT / m / top).is_dir())
    place = base.joinpath(*module.split("."))
    return place / "__init__.py" if is_package else place.with_suffix(".py")


class Renamer:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.sources: list[Source] = []
        for path in tracked():
            if path.suffix == ".py":
                text = path.read_text(encoding="utf-8")
                self.sources.append(Source(path, module_of(path), text, ast.parse(text)))
        self.known = {source.module: source for source in self.sources if source.module}
        for module in list(self.known):
            while module := module.rpartition(".")[0]:
                self.known.setdefault(module, self.known.get(module))  # type: ignore[arg-type]
        self.warnings: list[str] = []

    # --- what names mean ----------------------------------------------------------------------------------------------

    def absolute(self, source: Source, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = source.package.split(".")
        base = ".".join(parts[: len(parts) - node.level + 1])
        return f"{base}.{node.module}" if node.module else base

    def origin(self, module: str, name: str, depth: int = 0) -> tuple[str, str]:
        """Where a name that a module offers is defined."""
        source = self.known.get(module)
        if source is None or depth > 6:
            return module, name
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self.origin(self.absolute(source, node), alias.name, depth + 1)
        return module, name

    def new_symbol(self, module: str, name: str) -> str:
        return self.names.symbols.get(self.origin(module, name), name)

    # --- one file -----------------------------------------------------------------------------------------------------

    def imports(self, source: Source) -> list[tuple[int, int, int, int, str]]:
        """Replacements of import statements: where they stand, and what they become."""
        found = []
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                parts = []
                for alias in node.names:
                    new = self.names.module(alias.name) if alias.name in self.known else alias.name
                    if alias.asname:
                        source.bound[alias.asname] = alias.name
                    parts.append(f"{new} as {alias.asname}" if alias.asname else new)
                text = "import " + ", ".join(parts)
            elif isinstance(node, ast.ImportFrom):
                text = self.import_from(source, node)
            else:
                continue
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            found.append((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text))
        return found

    def import_from(self, source: Source, node: ast.ImportFrom) -> str:
        base = self.absolute(source, node)
        if base not in self.known:
            return ast.get_source_segment(source.text, node) or ""
        by: dict[str, list[str]] = {}
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            if whole in self.known and not self.offers(base, alias.name):
                new = self.names.module(whole)
                target, _, name = new.rpartition(".")
                source.bound[alias.asname or alias.name] = whole
            else:
                target, name = self.names.module(base), self.new_symbol(base, alias.name)
            local = alias.asname or alias.name
            if not alias.asname and name != alias.name:
                source.renamed[local] = name
            by.setdefault(target, []).append(f"{name} as {alias.asname}" if alias.asname else name)
        unchanged = [f"{alias.name} as {alias.asname}" if alias.asname else alias.name for alias in node.names]
        if by == {base: unchanged}:
            here = self.names.module(source.module)
            if not node.level or here == source.module:
                return ast.get_source_segment(source.text, node) or ""
        indent = "\n" + " " * node.col_offset
        return indent.join(
            f"from {self.spelt(source, target, bool(node.level))} import {', '.join(sorted(set(listed)))}"
            for target, listed in by.items()
        )

    def offers(self, package: str, name: str) -> bool:
        """Whether a package's own file binds the name, so that it is no submodule."""
        source = self.known.get(package)
        if source is None or source.path.name != "__init__.py":
            return source is not None
        return any(
            isinstance(node, ast.ImportFrom)
            and self.absolute(source, node) != package
            and any((a.asname or a.name) == name for a in node.names)
            for node in ast.walk(source.tree)
        ) or any(getattr(node, "name", None) == name for node in source.tree.body)

    def spelt(self, source: Source, target: str, relative: bool) -> str:
        package = self.names.module(source.module)
        if source.path.name != "__init__.py":
            package = package.rpartition(".")[0]
        if not relative or target.partition(".")[0] != package.partition(".")[0]:
            return target
        here, there = package.split("."), target.split(".")
        common = 0
        while common < min(len(here), len(there)) and here[common] == there[common]:
            common += 1
        return "." * (len(here) - common + 1) + ".".join(there[common:])

    def own_symbols(self, source: Source) -> None:
        for (module, name), new in self.names.symbols.items():
            if module == source.module:
                source.renamed[name] = new

    def rewrite(self, source: Source) -> str:
        replaced = self.imports(source)
        self.own_symbols(source)
        lines = source.text.splitlines(keepends=True)
        skip = [(a, b, c, d) for a, b, c, d, _ in replaced]
        edits: list[tuple[int, int, int, int, str]] = list(replaced)

        edits += self.token_edits(source, skip)
        data = [line.encode() for line in lines]
        for a, b, c, d, text in sorted(edits, reverse=True):
            head, tail = data[a - 1][:b], data[c - 1][d:]
            data[a - 1 : c] = [head + text.encode() + tail]
        return b"".join(data).decode()

    def token_edits(
        self, source: Source, skip: list[tuple[int, int, int, int]]
    ) -> list[tuple[int, int, int, int, str]]:
        """Edits of names, strings and comments outside of import statements."""
        edits: list[tuple[int, int, int, int, str]] = []
        lines = source.text.splitlines(keepends=True)
        self.warn_of_collisions(source)
        before = ["", ""]
        tokens = list(tokenize.generate_tokens(io.StringIO(source.text).readline))
        for at, token in enumerate(tokens):
            (row, col), (end_row, end_col) = token.start, token.end
            start = len(lines[row - 1][:col].encode()) if row <= len(lines) else col
            if token.type in LAYOUT:
                continue
            if not any((a, b) <= (row, start) < (c, d) for a, b, c, d in skip):
                new = self.new_token(source, tokens, at, before)
                if new != token.string:
                    edits.append((row, start, end_row, len(lines[end_row - 1][:end_col].encode()), new))
            if token.type != tokenize.COMMENT:
                before = [before[1], token.string]
        return edits

    def new_token(self, source: Source, tokens: list[tokenize.TokenInfo], at: int, before: list[str]) -> str:
        token = tokens[at]
        if token.type == tokenize.STRING:
            return self.string(source, token.string)
        if token.type == tokenize.COMMENT:
            return self.prose(source, token.string)
        if token.type != tokenize.NAME:
            return token.string
        keyword = before[1] in ("(", ",") and tokens[at + 1].string == "=" and not token.string[0].isupper()
        method = before[1] == "def" and token.line[:1].isspace()
        if method or keyword:
            return self.names.attributes.get(token.string, token.string)
        return self.token(source, token.string, before)

    def warn_of_collisions(self, source: Source) -> None:
        names_here = set(WORD.findall(source.text))
        for old, new in {**source.renamed, **self.names.attributes}.items():
            if old in names_here and new in names_here and old != new:
                self.warnings.append(f"{source.path.relative_to(ROOT)}: {old} -> {new}, which is there already")

    def token(self, source: Source, name: str, before: list[str]) -> str:
        if before[1] == ".":
            module = source.bound.get(before[0])
            if module is not None:
                return self.new_symbol(module, name)
            return self.names.attributes.get(name, name)
        return source.renamed.get(name) or self.names.attributes.get(name, name)

    def string(self, source: Source, text: str) -> str:
        prefix = re.match(r"[A-Za-z]*", text)
        assert prefix is not None
        if "f" in prefix.group().lower():
            text = re.sub(r"\{[^{}]*\}", lambda m: self.expression(source, m.group()), text)
            return self.dotted(text)
        bare = text[len(prefix.group()) :].strip("\"'")
        if bare in source.renamed and (bare[0].isupper() or source.path.name == "__init__.py"):  # __all__ and the like
            return text.replace(bare, source.renamed[bare])
        if bare in self.names.attributes:
            return text.replace(bare, self.names.attributes[bare])
        if re.fullmatch(r"[\w\[\], .|]+", bare) and ("|" in bare or "[" in bare):  # a type in quotes
            return WORD.sub(
                lambda m: source.renamed.get(m.group(), m.group()) if m.group()[0].isupper() else m.group(), text
            )
        if re.fullmatch(r"\.[a-z_.]+", bare) and source.path.name == "__init__.py":
            old = f"{source.package}{bare}"
            if old in self.known:
                return text.replace(bare, self.spelt(source, self.names.module(old), True))
        if source.module and source.path.name == "__init__.py" and re.fullmatch(r"[A-Za-z_]+", bare):
            new = self.new_symbol(source.module, bare)
            if new != bare:
                return text.replace(bare, new)
        return self.prose(source, text)

    def expression(self, source: Source, text: str) -> str:
        out, at, before = [], 0, ["", ""]
        for m in re.finditer(r"[A-Za-z_][A-Za-z0-9_]*|\S", text):
            out.append(text[at : m.start()])
            word = m.group()
            out.append(self.token(source, word, before) if WORD.fullmatch(word) else word)
            before = [before[1], word]
            at = m.end()
        return "".join(out) + text[at:]

    # --- prose and paths ----------------------------------------------------------------------------------------------

    def dotted(self, text: str) -> str:
        """Dotted names and paths of modules, wherever they stand."""

        def new_dotted(m: re.Match[str]) -> str:
            word = m.group()
            head, tail = word, ""
            while head and head not in self.known:
                head, _, last = head.rpartition(".")
                tail = f".{last}{tail}"
            if not head or "." not in head:
                return word
            if tail:
                first, dot, rest = tail[1:].partition(".")
                tail = f".{self.new_symbol(head, first)}{dot}{rest}"
            return self.names.module(head) + tail

        text = re.sub(r"\bplait(?:_[a-z]+)?(?:\.[A-Za-z_]\w*)+", new_dotted, text)
        for old, new in self.names.files.items():
            if old in text:
                text = re.sub(rf"(?<![\w/]){re.escape(old)}", new, text)
        return re.sub(r"(?<![\w/.])((?:\.\./)*)((?:[\w-]+/)+[\w-]+\.py)\b", self.new_path, text)

    def new_path(self, m: re.Match[str]) -> str:
        up, written = m.groups()
        for source in self.sources:
            if source.module and f"/{source.path.relative_to(ROOT).as_posix()}".endswith("/" + written):
                new = self.names.module(source.module)
                if new == source.module:
                    return m.group()
                old_path = source.path.relative_to(ROOT).as_posix()
                new_path = place_of(new, source.path, source.path.name == "__init__.py").relative_to(ROOT).as_posix()
                cut = old_path[: len(old_path) - len(written)]
                return up + new_path.removeprefix(cut)
        return m.group()

    def prose(self, source: Source | None, text: str) -> str:
        text = self.dotted(text)
        package = source.module.partition(".")[0] if source and source.module else ""

        def new_file(m: re.Match[str]) -> str:
            stem = m.group(1)
            near = [s for s in self.sources if s.module.rpartition(".")[2] == stem and s.module.startswith(package)]
            same = [s for s in near if source and s.package == source.package] or near
            if len({self.names.module(s.module).rpartition(".")[2] for s in same}) == 1:
                return self.names.module(same[0].module).rpartition(".")[2] + ".py"
            return m.group()

        text = re.sub(r"(?<![\w/.*])([a-z_]+)\.py\b", new_file, text)

        def new_code(m: re.Match[str]) -> str:
            inside = m.group(1)
            first = WORD.match(inside)
            if first is None:
                return m.group()
            word = first.group()
            new = source.renamed.get(word) if source else None
            if new is None and word[0].isupper():
                options = {
                    v for (mod, name), v in self.names.symbols.items() if name == word and mod.startswith(package)
                }
                defined = sum(1 for s in self.sources for n in s.tree.body if getattr(n, "name", "") == word)
                if len(options) == 1 and defined <= 1:
                    new = options.pop()
            return f"`{new}{inside[len(word) :]}`" if new else m.group()

        return re.sub(r"`([^`\n]+)`", new_code, text)

    def words(self, text: str) -> str:
        """Names of metrics, of JSON fields and the like, wherever they stand."""
        if not self.names.words:
            return text
        pattern = rf"\b({'|'.join(self.names.words)})(_total)?\b"
        return re.sub(pattern, lambda m: self.names.words[m.group(1)] + (m.group(2) or ""), text)

    # --- all ----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        written = {source.path: self.words(self.rewrite(source)) for source in self.sources}
        self.rewrite_texts()
        moves = []
        for source in self.sources:
            source.path.write_text(written[source.path], encoding="utf-8")
            new = self.names.module(source.module) if source.module else source.module
            if new != source.module:
                moves.append((source.path, place_of(new, source.path, source.path.name == "__init__.py")))
        moves += [(ROOT / old, ROOT / new) for old, new in self.names.files.items() if (ROOT / old).exists()]
        self.move(moves)
        self.make_rooms()
        for warning in self.warnings:
            print(warning, file=sys.stderr)

    def rewrite_texts(self) -> None:
        """Documents, settings and sources that are no Python."""
        for path in tracked():
            known = path.suffix in TEXTS or path.name in ("Makefile", "Dockerfile", "run")
            if not known or path.name in ("names.toml", "CHANGELOG.md"):
                continue
            text = path.read_text(encoding="utf-8")
            new = self.words(self.prose(None, text) if path.suffix == ".md" else self.dotted(text))
            if path.suffix == ".rs":
                new = WORD.sub(lambda m: self.names.attributes.get(m.group(), m.group()), new)
            if new != text:
                path.write_text(new, encoding="utf-8")

    def move(self, moves: list[tuple[Path, Path]]) -> None:
        """Move files in two steps, since a module may take a name that another one leaves."""
        for number, (old, _) in enumerate(moves):
            subprocess.run(["git", "mv", str(old), str(ROOT / f"moving-{number}.py")], check=True)
        for number, (_, new) in enumerate(moves):
            new.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", str(ROOT / f"moving-{number}.py"), str(new)], check=True)

    def make_rooms(self) -> None:
        for room, text in self.names.rooms.items():
            init = place_of(room, ROOT / self.member(room) / "x", True)
            if not init.exists():
                init.parent.mkdir(parents=True, exist_ok=True)
                init.write_text(f'"""{text}"""\n', encoding="utf-8")
                subprocess.run(["git", "add", str(init)], check=True)

    def member(self, room: str) -> str:
        top = room.partition(".")[0]
        return next(m for m in MEMBERS if (ROOT / m / top).is_dir())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="?", type=Path, default=ROOT / "scripts" / "names.toml")
    parser.add_argument("--package", action="append", default=[])
    options = parser.parse_args()
    Renamer(Names.read(options.names, options.package)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
