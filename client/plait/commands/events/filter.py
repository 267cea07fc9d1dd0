"""`plait filter`: tries out the filter language, without a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ..terminal.output import json_option, print_json
from .attributes import JsonAttributes

if TYPE_CHECKING:
    from plait_core import Filter

_WORDS: Final = {True: "true", False: "false", None: "unknown"}


class FilterText(click.ParamType["Filter"]):
    """A filter whose normal form is within the limits."""

    name = "filter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Filter:
        from plait_core import Filter, parse

        found = value if isinstance(value, Filter) else parse(value)
        _ = found.normal
        return found


class SubscribableText(FilterText):
    """A filter that brokers accept in subscriptions and advertisements: some event can match it.

    The SDK prints hints about likely slips when it subscribes.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Filter:
        found = super().convert(value, param, ctx)
        found.check_satisfiable()
        return found


FILTER: Final = FilterText()
SUBSCRIBABLE: Final = SubscribableText()


@click.group(epilog='\b\nExample: plait filter explain "price < 100 and has(symbol)" \'{"price": 99.5}\'')
def filter() -> None:
    """Check, evaluate, compare and explain filters.

    An invalid filter is printed with a caret under the error, and ends the command with exit code 2.
    """


@filter.command(epilog="\b\nExample: plait filter check \"symbol = 'IBM' AND 100 < price <= 130\"")
@click.argument("expression", type=SUBSCRIBABLE)
@json_option
def check(expression: Filter, as_json: bool) -> None:
    """Print the canonical text of a filter. A filter that no event can match is invalid."""
    for doubt in expression.doubts():
        click.echo(f"Hint: {doubt}", err=True)
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
    """Print the result of a filter: true, false or unknown.

    ATTRIBUTES are those of an event, as a JSON object.
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
    """Print true if A matches every event that B matches.

    Prints false where deciding it would be expensive.
    """
    _print_truth("covers", a.covers(b), as_json)


@filter.command(epilog='\b\nExample: plait filter intersects "price < 100" "price > 50"')
@click.argument("a", type=FILTER)
@click.argument("b", type=FILTER)
@json_option
def intersects(a: Filter, b: Filter, as_json: bool) -> None:
    """Print true if some event may match both.

    Prints true where deciding it would be expensive.
    """
    _print_truth("intersects", a.intersects(b), as_json)


@filter.command(epilog='\b\nExample: plait filter explain "price < 100 and has(symbol)" \'{"price": 99.5}\'')
@click.argument("expression", type=FILTER)
@click.argument("attributes", type=JsonAttributes())
@json_option
def explain(expression: Filter, attributes: dict[str, Any], as_json: bool) -> None:
    """Print the result of a filter, and the conditions that decided it.

    ATTRIBUTES are those of an event, as a JSON object. Each deciding condition is printed with its value.
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
