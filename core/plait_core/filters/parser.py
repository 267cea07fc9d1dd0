"""Parse filter text: a tokenizer, and one method for each rule of the grammar in DESIGN.md.

Every text gives an expression, or one FilterSyntax or FilterTooComplex with a column. Length is checked before reading,
and depth before descending.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import FilterError, FilterSyntax, FilterTooComplex
from ..limits import EVENT_LIMITS, FILTER_LIMITS, FilterLimits
from ..values import Literal
from . import atoms, slips
from .ast import KEYWORDS, MIRROR, Constant, Expr, conjoin, disjoin, literal_text, negate

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<word>\$?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<op>==|!=|<>|<=|>=|&&|\|\||[=<>!&()\[\],])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_SYMBOLS = {"=": "==", "<>": "!=", "&&": "and", "&": "and", "||": "or", "!": "not"}
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_TEXT_OPS = frozenset({"startswith", "endswith", "contains", "like"})
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|''|\"\"", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


class Token(NamedTuple):
    kind: str
    """One of attr, number, text, a keyword, an operator, or end."""
    text: str
    column: int


class Attr(str):
    """An operand that is an attribute name, not a text."""

    __slots__ = ()


def parse_expr(text: str, limits: FilterLimits = FILTER_LIMITS) -> Expr:
    """Parse `text` to an expression."""
    if len(text) > limits.text_max:
        raise FilterTooComplex(
            f"{len(text)} characters; {limits.text_max} are allowed", text=text, column=limits.text_max
        )
    try:
        return _Parser(text, limits).parse()
    except FilterSyntax as error:
        raise slips.topic_error(error) from None


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        kind, chunk = match.lastgroup or "", match.group()
        if kind == "word":
            lowered = chunk.lower()
            found.append(Token(lowered if lowered in KEYWORDS else "attr", chunk, position + 1))
        elif kind == "op":
            found.append(Token(_SYMBOLS.get(chunk, chunk), chunk, position + 1))
        elif kind != "space":
            found.append(Token(kind, chunk, position + 1))
        position = match.end()
    found.append(Token("end", "", len(text) + 1))
    return found


def _unreadable(text: str, position: int) -> FilterSyntax:
    char = text[position]
    if char in "'\"":
        return FilterSyntax("a text that never ends", text=text, column=position + 1, hint=f"close it with {char}")
    return FilterSyntax(f"unexpected {char!r}", text=text, column=position + 1, hint=slips.character_hint(char))


class _Parser:
    def __init__(self, text: str, limits: FilterLimits) -> None:
        self.text = text
        self.limits = limits
        self.tokens = _tokens(text)
        self.at = 0
        self.token = self.tokens[0]
        self.depth = 0
        self.count = 0

    def parse(self) -> Expr:
        if self.token.kind == "end":
            raise self._error("an empty filter", hint="`true` matches every event")
        try:
            expr = self._or()
        except FilterError as error:
            raise self._placed(error) from None
        if self.token.kind != "end":
            raise self._error(f"expected `and`, `or` or the end, got {self._shown()}", hint=self._operator_hint())
        return expr

    # --- the rules of the grammar -------------------------------------------------------------------------------------

    def _or(self) -> Expr:
        column, first = self.token.column, self._and()
        if self.token.kind != "or":
            return first
        parts = [first]
        while self._take("or"):
            parts.append(self._and())
        return disjoin(parts, column)

    def _and(self) -> Expr:
        column, first = self.token.column, self._not()
        if self.token.kind != "and":
            return first
        parts = [first]
        while self._take("and"):
            parts.append(self._not())
        return conjoin(parts, column)

    def _not(self) -> Expr:
        negations = 0
        while self._take("not"):
            negations += 1
        expr = self._atom()
        return negate(expr) if negations % 2 else expr

    def _atom(self) -> Expr:
        token = self.token
        if self._take("("):
            return self._parenthesis(token)
        if self._take("has"):
            self._expect("(")
            name = self._attribute()
            self._expect(")")
            return self._counted(atoms.presence(name, True))
        operand = self._operand()
        if self.token.kind in _COMPARISONS:
            return self._chain(operand)
        if isinstance(operand, Attr):
            return self._attribute_test(operand)
        if isinstance(operand, bool):
            return Constant(operand)
        raise FilterSyntax(
            f"{token.text[:40]} alone is no condition", column=token.column, hint="compare it with an attribute"
        )

    def _parenthesis(self, opening: Token) -> Expr:
        self.depth += 1
        if self.depth > self.limits.depth_max:
            raise FilterTooComplex(f"parentheses nested over {self.limits.depth_max} deep", column=opening.column)
        expr = self._or()
        self._expect(")")
        self.depth -= 1
        return expr

    def _chain(self, left: Attr | Literal) -> Expr:
        parts: list[Expr] = []
        column = self.token.column
        while self.token.kind in _COMPARISONS:
            token = self._next()
            right = self._operand()
            parts.append(self._counted(self._comparison(left, token, right)))
            left = right
        return parts[0] if len(parts) == 1 else conjoin(parts, column)

    def _comparison(self, left: Attr | Literal, op: Token, right: Attr | Literal) -> Expr:
        if isinstance(left, Attr) and isinstance(right, Attr):
            hint = f"one side must be a literal: {literal_text(right)} in quotes?"
            raise FilterSyntax("two attributes cannot be compared", column=op.column, hint=hint)
        try:
            if isinstance(left, Attr):
                return atoms.compare(left, op.kind, right)
            if isinstance(right, Attr):
                return atoms.compare(right, MIRROR[op.kind], left)
        except FilterSyntax as error:
            error.column = op.column
            raise
        raise FilterSyntax(
            "two literals need no broker to compare", column=op.column, hint="one side must be an attribute"
        )

    def _attribute_test(self, attr: Attr) -> Expr:
        negated = self._take("not")
        token = self.token
        if token.kind == "in":
            self._next()
            return self._counted(atoms.negate_if(atoms.member(attr, self._list(), self.limits), negated))
        if token.kind == "between":
            return self._between(attr, negated)
        if token.kind in _TEXT_OPS:
            self._next()
            pattern = self._literal()
            return self._counted(atoms.negate_if(atoms.text(attr, token.kind, pattern), negated))
        if negated:
            raise self._error(f"expected in, between, startswith, endswith, contains or like, got {self._shown()}")
        if self._take("is"):
            present = self._take("not")
            self._expect("null")
            return self._counted(atoms.presence(attr, present))
        if token.kind == "(":
            raise self._error("expected an operator, got '('", hint=_call_hint(attr))
        return self._counted(atoms.compare(attr, "==", True))

    def _between(self, attr: Attr, negated: bool) -> Expr:
        opening = self._next()
        low = self._literal()
        self._expect("and")
        high = self._literal()
        self.count += 1
        try:
            return self._counted(atoms.negate_if(atoms.between(attr, low, high), negated))
        except FilterSyntax as error:
            error.column = opening.column
            raise

    def _list(self) -> list[Literal]:
        closing = {"[": "]", "(": ")"}.get(self.token.kind)
        if closing is None:
            raise self._error(f"expected '[' or '(', got {self._shown()}", hint="a list, like [1, 2] or ['a', 'b']")
        opening = self._next()
        literals = [self._literal()]
        while self._take(","):
            literals.append(self._literal())
            if len(literals) > self.limits.set_max:
                raise FilterTooComplex(f"a list of over {self.limits.set_max} literals", column=opening.column)
        self._expect(closing)
        return literals

    def _operand(self) -> Attr | Literal:
        return Attr(self._attribute()) if self.token.kind == "attr" else self._literal()

    def _attribute(self) -> str:
        if self.token.kind != "attr":
            hint = "it is a word of the language" if self.token.kind in KEYWORDS else ""
            raise self._error(f"expected an attribute, got {self._shown()}", hint=hint)
        token = self._next()
        if len(token.text) > EVENT_LIMITS.name_bytes_max:
            raise FilterSyntax(f"a name of over {EVENT_LIMITS.name_bytes_max} characters", column=token.column)
        return token.text

    def _literal(self) -> Literal:
        token = self.token
        if token.kind in ("true", "false"):
            self._next()
            return token.kind == "true"
        if token.kind == "number":
            self._next()
            return self._number(token)
        if token.kind == "text":
            self._next()
            return self._text(token)
        before = self.tokens[self.at - 1].text if self.at else ""
        hint = "null is tested with `is null`" if token.kind == "null" else slips.operator_hint(before, token.text)
        raise self._error(f"expected a literal, got {self._shown()}", hint=hint)

    # --- literals -----------------------------------------------------------------------------------------------------

    def _number(self, token: Token) -> Literal:
        try:
            whole = token.text.lstrip("+-").isdigit()
            if whole and len(token.text) > EVENT_LIMITS.int_bits_max // 3:
                raise FilterSyntax(f"an integer of over {EVENT_LIMITS.int_bits_max} bits matches nothing")
            return atoms.literal(int(token.text) if whole else float(token.text))
        except FilterError as error:
            error.column = token.column
            raise

    def _text(self, token: Token) -> Literal:
        quote = token.text[0]

        def unescape(match: re.Match[str]) -> str:
            escape = match.group(1)
            if escape is None:
                return quote if match.group() == quote * 2 else match.group()
            if len(escape) == 1:
                return _NAMED.get(escape, "\\" + escape)
            code = int(escape[1:], 16)
            if code > 0x10FFFF:
                raise FilterSyntax(f"there is no character \\{escape}", column=token.column)
            return chr(code)

        try:
            return atoms.literal(_ESCAPE.sub(unescape, token.text[1:-1]))
        except FilterError as error:
            error.column = token.column
            raise

    # --- the tokens ---------------------------------------------------------------------------------------------------

    def _next(self) -> Token:
        token = self.token
        self.at += 1
        self.token = self.tokens[self.at]
        return token

    def _take(self, kind: str) -> bool:
        if self.token.kind != kind:
            return False
        self._next()
        return True

    def _expect(self, kind: str) -> None:
        if not self._take(kind):
            raise self._error(f"expected {kind!r}, got {self._shown()}")

    def _counted(self, expr: Expr) -> Expr:
        self.count += 1
        if self.count > self.limits.atoms_max:
            raise FilterTooComplex(f"over {self.limits.atoms_max} conditions", column=self.token.column)
        return expr

    def _shown(self) -> str:
        return "the end" if self.token.kind == "end" else repr(self.token.text[:40])

    def _operator_hint(self) -> str:
        """Return a hint for a token that does not continue a condition."""
        if self.token.kind in ("text", "number"):
            return "is `==` missing?"
        return slips.word_hint(self.token.text) if self.token.kind == "attr" else ""

    def _error(self, message: str, hint: str = "") -> FilterSyntax:
        return FilterSyntax(message, text=self.text, column=self.token.column, hint=hint)

    def _placed(self, error: FilterError) -> FilterError:
        """Return the error with the text in it. An error without a column gets the current token's."""
        error.text = self.text
        if not error.column:
            error.column = self.token.column
        return error


def _call_hint(attr: str) -> str:
    name, _, method = attr.rpartition(".")
    operator = method.lower().replace("_", "")
    return f"write `{name} {operator} 'text'`" if name and operator in _TEXT_OPS else ""
