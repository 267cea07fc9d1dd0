"""`plait filter`: the filter language at the prompt. Needs no broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ..terminal.output import json_option, print_json
from .attributes import JsonAttributes

if TYPE_CHECKING:
    from plait_core import Filter

_WORDS: Final = {True: "true", False: "false", None: "unknown"}


class FilterText(click.ParamType["Filter"]):
    """A filter that brokers take: it parses, and its normal form is within the limits."""

    name = "filter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Filter:
        from plait_core import Filter, parse

        found = value if isinstance(value, Filter) else parse(value)
        _ = found.normal
        return found


FILTER: Final = FilterText()


@click.group(epilog='\b\nExample: plait filter explain "price < 100 and has(symbol)" \'{"price": 99.5}\'')
def filter() -> None:
    """Check, try out, compare and explain filters.

    A filter that cannot be used is shown with a caret under the fault, and ends the command with exit code 2.
    """


@filter.command(epilog="\b\nExample: plait filter check \"symbol = 'IBM' AND 100 < price <= 130\"")
@click.argument("expression", type=FILTER)
@json_option
def check(expression: Filter, as_json: bool) -> None:
    """Print the canonical text of a filter."""
    if as_json:
        alternatives = len(expression.normal)
        print_json({"filter": expression.text, "attributes": expression.attributes(), "alternatives": alternatives})
    else:
        click.echo(expression.text)


@filter.command(epilog='\b\nExample: plait filter match "price < 100" \'{"price": 99.5}\'')
@click.argument("expression", type=FILTER)
@click.argument("attributes", type=JsonAttributes())
@json_option
def match(expression: Filter, attributes: dict[str, Any], as_json: bool) -> None:
    """Print true, false or unknown.

    That is what the filter comes to on an event's ATTRIBUTES, given as a JSON object.
    """
    result = _WORDS[expression.evaluate(attributes)]
    if as_json:
        print_json({"result": result})
    else:
        click.echo(result)


@filter.command(epilog='\b\nExample: plait filter covers "price < 100" "price < 50"')
@click.argument("a", type=FILTER)
@click.argument("b", type=FILTER)
@json_option
def covers(a: Filter, b: Filter, as_json: bool) -> None:
    """Print true if A matches all that B matches.

    Where that cannot be told cheaply the answer is false.
    """
    _print_truth("covers", a.covers(b), as_json)


@filter.command(epilog='\b\nExample: plait filter intersects "price < 100" "price > 50"')
@click.argument("a", type=FILTER)
@click.argument("b", type=FILTER)
@json_option
def intersects(a: Filter, b: Filter, as_json: bool) -> None:
    """Print true if some event may match both.

    Where that cannot be told cheaply the answer is true.
    """
    _print_truth("intersects", a.intersects(b), as_json)


@filter.command(epilog='\b\nExample: plait filter explain "price < 100 and has(symbol)" \'{"price": 99.5}\'')
@click.argument("expression", type=FILTER)
@click.argument("attributes", type=JsonAttributes())
@json_option
def explain(expression: Filter, attributes: dict[str, Any], as_json: bool) -> None:
    """Print the result, and what decided.

    ATTRIBUTES is a JSON object; each condition that decided is printed with the value that it saw.
    """
    explanation = expression.explain(attributes)
    if not as_json:
        click.echo(str(explanation))
        return
    reasons = [
        {
            "atom": reason.atom,
            "result": _WORDS[reason.result],
            "attribute": reason.attr,
            "present": reason.present,
            "value": reason.value,
        }
        for reason in explanation.reasons
    ]
    print_json({"result": _WORDS[explanation.result], "reasons": reasons})


def _print_truth(name: str, truth: bool, as_json: bool) -> None:
    if as_json:
        print_json({name: truth})
    else:
        click.echo(_WORDS[truth])
