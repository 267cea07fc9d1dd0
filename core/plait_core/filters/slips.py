"""Likely slips in filters: hints for texts that do not parse, and doubts about filters that parse and never match.

A hint changes no meaning: it is looked for after a mistake, and a doubt is only shown.
"""

from __future__ import annotations

import re
from typing import Final

from ..errors import FilterSyntax
from .ast import Compare, Expr, Flag, atoms, literal_text

TOPICS: Final = "docs/coming-from.md"
"""The page for readers who know topics."""

_WILDCARDS: Final = frozenset({"*", "**", "+", "#", ">"})
_NOT_IN_TOPICS: Final = re.compile(r"[\s'\"=!<()\[\],&|]")
_CHARACTERS: Final = {
    "|": "or is written `or` or `||`",
    "~": "texts are tested by like, startswith, endswith, contains and in",
    ":": "equality is written ==",
    "{": "a filter is written like symbol == 'IBM'; F.from_pattern reads JSON patterns",
    "-": "a name has letters, digits, _ and dots",
    "`": "quotes are ' or \"",
    **dict.fromkeys("‘’“”", "quotes are ' or \""),
    **dict.fromkeys("+*/%", "a filter compares attributes with literals, without arithmetic"),
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
}
_OPERATORS: Final = {"=>": ">=", "=<": "<=", "===": "==", "!==": "!=", "><": "!=", "=!": "!="}
_WORDS: Final = ("and", "or", "not", "in", "between", "like", "startswith", "endswith", "contains", "is")
_SYNONYMS: Final = {
    "eq": "==",
    "equals": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "isin": "in",
    "oneof": "in",
    "includes": "contains",
    "matches": "like",
    "regexp": "like",
    "xor": "!=",
}


def topic_error(error: FilterSyntax) -> FilterSyntax:
    """Return an error that says that there are no topics if the text looks like one, else the given error."""
    text = error.text.strip()
    looks_like_topic = "/" in text or not _WILDCARDS.isdisjoint(re.split(r"[./]", text))
    if not looks_like_topic or _NOT_IN_TOPICS.search(text) or ">" in text.rstrip(">"):
        return error
    return FilterSyntax(
        "Plait has no topics, and this is no condition on attributes",
        text=error.text,
        column=error.column,
        hint=f"like `site == 'a' and temperature > 30`; `true` matches every event; see {TOPICS}",
    )


def character_hint(char: str) -> str:
    """Return a hint for a character that no filter contains, or ""."""
    return _CHARACTERS.get(char, "")


def operator_hint(before: str, found: str) -> str:
    """Return a hint for two operators in a row, or ""."""
    meant = _OPERATORS.get(before + found)
    return f"write {meant}" if meant else ""


def word_hint(word: str) -> str:
    """Return a hint for a word where `and`, `or` or an operator is expected, or ""."""
    from difflib import get_close_matches  # only after a mistake

    plain = word.lower().replace("_", "")
    meant = _SYNONYMS.get(plain) or next(iter(get_close_matches(plain, _WORDS, 1, 0.65)), "")
    return f"did you mean `{meant}`?" if meant else ""


def doubts(expr: Expr) -> list[str]:
    """Return what looks like a slip in a filter that parses: one sentence for each condition."""
    found = []
    for atom in atoms(expr):
        if isinstance(atom, Flag):
            name, _, last = atom.attr.rpartition(".")
            if name and last[:1].isupper() and not name[:1].isupper():
                meant = f"{name} {'==' if atom.value else '!='} {literal_text(last)}"
                found.append(f"`{atom}` tests a boolean attribute named {atom.attr}; did you mean `{meant}`?")
            elif name and atom is expr and atom.value:
                found.append(f"`{atom}` tests a boolean attribute named {atom.attr}; Plait has no topics, see {TOPICS}")
        elif isinstance(atom, Compare) and isinstance(atom.literal, str):
            number = atom.op not in ("==", "!=") and re.fullmatch(r"[+-]?\d+(\.\d+)?", atom.literal)
            if number or atom.literal.lower() in ("true", "false"):
                meant = f"{atom.attr} {atom.op} {atom.literal.lower()}"
                found.append(f"`{atom}` compares with a text; did you mean `{meant}`?")
    return found
