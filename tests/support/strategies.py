"""Random events and filters over a small pool of attributes and nasty values, so that they meet often.

Everything is made by plain functions of a `random.Random`; the hypothesis strategies at the end wrap the same functions
(hypothesis' own Random records each choice, so their examples shrink).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

from brute_force import Tree
from hypothesis import strategies as st

NAMES = ["x", "y", "price", "a.b", "Symbol", "$sys.hop", "in.not"]
NUMBERS: list[int | float] = [
    *(0, 1, -1, 2, 3, 100, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**200, 2**200 + 1, -(2**255)),
    *(-0.0, 1.0, 0.1, 0.5, -1.5, 2.0**53, 2.0**63, 2.0**200, 1e16, 1e308, -1.7976931348623157e308, 5e-324),
]
TEXTS = [
    *("", "a", "A", "ab", "abc", "abcabc", "b", "ba", "IBM", "it's", 'say "so"', "''", "\\", "100%", "a_b", "%", "_"),
    *("\0", "a\0", "\n\t\r", "é", "e\u0301", "ÿ", "\ud7ff", "\ue000", "\uffff", "\U00010000", "😀", "😀b"),
    *("\U0010ffff", "a\U0010ffff", "a\U0010ffff\U0010ffff", "\u202e", "true", "null", "and"),
]
LITERALS: list[Any] = [*NUMBERS, *TEXTS, True, False]
UNCOMPARABLE: list[Any] = [math.nan, None, [], [1], ["a", True, None], [math.nan]]
VALUES: list[Any] = [*LITERALS, math.inf, -math.inf, *UNCOMPARABLE]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]
TEXT_OPS = ["startswith", "endswith", "contains", "like"]
PATTERNS = [
    *TEXTS,
    "a%",
    "%b",
    "%a%",
    "a_",
    "_",
    "__",
    "%_%",
    "a%c",
    "%a_c%",
    "%%",
    "a\\%",
    "100\\%",
    "\\_%",
    "%a%b%",
    "a\\",
]


# --- events -----------------------------------------------------------------------------------------------------------


def random_value(rng: Random) -> Any:
    """Return an attribute's value, mostly from the pool, sometimes near it."""
    roll = rng.random()
    if roll < 0.8:
        return rng.choice(VALUES)
    if roll < 0.9:
        return rng.choice(TEXTS) + rng.choice(TEXTS)
    return rng.choice([rng.randint(-5, 105), rng.randint(-50, 50) / 8, rng.randint(2**53 - 4, 2**53 + 4)])


def random_attributes(rng: Random) -> dict[str, Any]:
    """Return the attributes of an event. Each name of the pool may be missing."""
    return {name: random_value(rng) for name in NAMES if rng.random() > 0.25}


# --- filters ----------------------------------------------------------------------------------------------------------


def random_tree(rng: Random, size: int = 8) -> Tree:
    """Return a filter as a tree of brute_force.py with about `size` atoms at most."""
    roll = rng.random()
    if size <= 1 or roll < 0.15:
        return random_atom(rng)
    if roll < 0.3:
        return ("not", random_tree(rng, size))
    parts = rng.randint(2, min(4, size))
    return (rng.choice(["and", "or"]), [random_tree(rng, size // parts) for _ in range(parts)])


def random_atom(rng: Random) -> Tree:
    """Return an atom of any kind of the grammar."""
    makers = [_chain, _chain, _chain, _long_chain, _in, _in, _between, _text, _text, _has, _null, _truth, _constant]
    return rng.choice(makers)(rng)


def random_literal(rng: Random) -> Any:
    """Return a literal of the grammar."""
    return rng.choice(LITERALS)


def _chain(rng: Random) -> Tree:
    literal, op = random_literal(rng), rng.choice(COMPARISONS)
    if isinstance(literal, bool):
        op = rng.choice(COMPARISONS[:2])
    operands = [("attr", rng.choice(NAMES)), ("literal", literal)]
    if rng.random() < 0.3:
        operands.reverse()
    return ("chain", operands, [op])


def _long_chain(rng: Random) -> Tree:
    pool = rng.choice([NUMBERS, TEXTS])
    start = rng.randrange(2)
    count = rng.randint(3, 5)
    sides = [("attr", rng.choice(NAMES)) if (i + start) % 2 else ("literal", rng.choice(pool)) for i in range(count)]
    return ("chain", sides, [rng.choice(COMPARISONS) for _ in sides[1:]])


def _in(rng: Random) -> Tree:
    pool = rng.choice([NUMBERS, TEXTS, [True, False], LITERALS])
    return ("in", rng.choice(NAMES), rng.random() < 0.4, [rng.choice(pool) for _ in range(rng.randint(1, 6))])


def _between(rng: Random) -> Tree:
    pool = rng.choice([NUMBERS, TEXTS])
    return ("between", rng.choice(NAMES), rng.random() < 0.4, rng.choice(pool), rng.choice(pool))


def _text(rng: Random) -> Tree:
    op = rng.choice(TEXT_OPS)
    pattern = rng.choice(PATTERNS if op == "like" else TEXTS)
    return ("text", rng.choice(NAMES), rng.random() < 0.4, op, pattern)


def _has(rng: Random) -> Tree:
    return ("has", rng.choice(NAMES))


def _null(rng: Random) -> Tree:
    return ("null", rng.choice(NAMES), rng.random() < 0.5)


def _truth(rng: Random) -> Tree:
    return ("truth", rng.choice(NAMES))


def _constant(rng: Random) -> Tree:
    return (rng.choice(["true", "false"]),)


# --- spelling ---------------------------------------------------------------------------------------------------------


def render(tree: Tree, rng: Random) -> str:
    """Return one of a tree's many spellings: operators of SQL, CEL and Python, any case, redundant parentheses."""
    return _joined(_tokens(tree, rng, 0), rng)


_OR, _AND, _NOT = 1, 2, 3  # how tightly a context binds
_SYMBOLS = {"==": ["==", "="], "!=": ["!=", "<>"]}


def _tokens(tree: Tree, rng: Random, context: int) -> list[str]:
    what, *parts = tree
    if rng.random() > 0.9:
        return ["(", *_tokens(tree, rng, 0), ")"]
    match what:
        case "or" | "and":
            level = _OR if what == "or" else _AND
            words = ["or", "||"] if what == "or" else ["and", "&&", "&"]
            tokens: list[str] = []
            for part in parts[0]:
                tokens += [_word(rng, rng.choice(words))] if tokens else []
                tokens += _tokens(part, rng, level)
            return tokens if context <= level else ["(", *tokens, ")"]
        case "not":
            nots = [rng.choice([_word(rng, "not"), "!"]) for _ in range(rng.choice([1, 1, 1, 3]))]
            return [*nots, *_tokens(parts[0], rng, _NOT)]
        case "true" | "false":
            return [_word(rng, what)]
        case "has":
            return [_word(rng, "has"), "(", parts[0], ")"]
        case "truth":
            return [parts[0]]
        case "null":
            return [parts[0], _word(rng, "is"), *([_word(rng, "not")] if parts[1] else []), _word(rng, "null")]
        case "chain":
            return _chain_tokens(parts[0], parts[1], rng)
    attr, negated, *rest = parts
    head = [attr, *([_word(rng, "not")] if negated else [])]
    match what:
        case "in":
            opening, closing = rng.choice(["[]", "()"])
            items = [token for literal in rest[0] for token in (",", literal_text(literal, rng))][1:]
            return [*head, _word(rng, "in"), opening, *items, closing]
        case "between":
            low, high = (literal_text(bound, rng) for bound in rest)
            return [*head, _word(rng, "between"), low, _word(rng, "and"), high]
        case "text":
            return [*head, _word(rng, rest[0]), literal_text(rest[1], rng)]
    raise AssertionError(f"no such tree: {tree!r}")


def _chain_tokens(operands: list[tuple[str, Any]], ops: list[str], rng: Random) -> list[str]:
    sides = [side if kind == "attr" else literal_text(side, rng) for kind, side in operands]
    tokens = sides[:1]
    for op, side in zip(ops, sides[1:], strict=True):
        tokens += [rng.choice(_SYMBOLS.get(op, [op])), side]
    return tokens


def _word(rng: Random, word: str) -> str:
    return rng.choice([word, word, word.upper(), word.title(), word.swapcase()])


def literal_text(literal: Any, rng: Random) -> str:
    """Return a literal in one of its spellings."""
    if isinstance(literal, bool):
        return _word(rng, "true" if literal else "false")
    if isinstance(literal, str):
        return _quoted(literal, rng)
    if isinstance(literal, int):
        spellings = [str(literal), f"{literal:+}", f"{literal:04}"]
        return rng.choice([*spellings, f"{literal}.0", f"{literal}e0"] if abs(literal) <= 2**53 else spellings)
    return rng.choice([repr(literal), f"{literal:+.17e}", f"{literal:.20E}"])


def _quoted(text: str, rng: Random) -> str:
    quote = rng.choice("'\"")
    written: list[str] = []
    for char, pulling in pairwise([*text, ""]):
        code = ord(char)
        if char == quote:
            written.append(rng.choice([quote * 2, "\\" + quote]))
        elif char == "\\":
            plain = pulling not in ("", "\\", "'", '"', "n", "r", "t", "x", "u", "U")
            written.append("\\" if plain and rng.random() < 0.5 else "\\\\")
        elif char in "\n\t\r" and rng.random() < 0.5 and written[-1:] != ["\\"]:
            written.append({"\n": "\\n", "\t": "\\t", "\r": "\\r"}[char])
        elif rng.random() > 0.9 and written[-1:] != ["\\"]:
            written.append(f"\\x{code:02x}" if code < 256 else f"\\U{code:08X}")
        else:
            written.append(char)
    return f"{quote}{''.join(written)}{quote}"


_WORDLIKE = re.compile(r"[A-Za-z0-9_.$]")


def _joined(tokens: list[str], rng: Random) -> str:
    text = ""
    for token in tokens:
        needed = bool(text) and _WORDLIKE.match(text[-1]) and _WORDLIKE.match(token[0])
        spaces = rng.choice([" ", " ", " ", "  ", "\n", "\t "]) if needed or rng.random() > 0.3 else ""
        text += spaces + token
    return text + rng.choice(["", "", " "])


# --- hypothesis -------------------------------------------------------------------------------------------------------


def _made(make: Callable[[Random], Any]) -> st.SearchStrategy[Any]:
    return st.randoms(use_true_random=False).map(make)


attributes = _made(random_attributes)
"""The attributes of an event."""

trees = _made(random_tree)
"""A filter as a tree of brute_force.py."""


@st.composite
def spelled_trees(draw: st.DrawFn) -> tuple[Tree, str]:
    """Return a tree with one of its spellings."""
    rng = draw(st.randoms(use_true_random=False))
    tree = random_tree(rng)
    return tree, render(tree, rng)
