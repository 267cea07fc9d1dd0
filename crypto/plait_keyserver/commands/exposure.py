"""`plait exposure`: what a subscription to sealed events tells others about its filter, attribute by attribute."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from plait_core import Filter, PlaitError, parse
from plait_core.filters import Constraint
from plait_crypto import DEPOSIT_KINDS, DepositKind, Numbers, OneOf, Schema
from plait_crypto.attributes.credentials import Tree

from ..folders import folder_client

BROKER: Final = "broker"
MEMBER: Final = "broker with another member"
OBSERVER: Final = "observer of a link"

_TRAFFIC: Final = "which events arrive: times and padded sizes"


@dataclass(frozen=True, slots=True)
class Exposure:
    """The knowledge of one party about the condition on one attribute."""

    attribute: str
    party: str
    tells: str
    possible: int | None
    """The number of values that the condition may still be about. None stands for any text."""


def exposures(
    filter: Filter, schema: Schema, reveal: Collection[str] = (), deposit: DepositKind = "exact"
) -> Iterator[Exposure]:
    """Yield what each party can tell about each attribute of a filter and of the schema."""
    names = dict.fromkeys([*schema.trees, *(name for conjunction in filter.normal for name in conjunction)])
    points = _points(filter, schema) if deposit == "exact" else 0
    for name in names:
        tree = schema.trees.get(name)
        size = None if tree is None else _values(tree)
        seen = name in schema.clear or name in reveal
        conditions = [conjunction[name] for conjunction in filter.normal if name in conjunction]
        if seen:
            told = f"the condition: it is {'declared clear' if name in schema.clear else 'revealed'}"
            allowed = _allowed(tree, conditions, size)
            yield Exposure(name, BROKER, told, allowed)
            yield Exposure(name, MEMBER, told, allowed)
        elif tree is None or deposit == "nothing":
            yield Exposure(name, BROKER, "nothing", size)
            yield Exposure(name, MEMBER, "nothing", size)
        else:
            tokens = f"{points} point{'s' * (points > 1)}, tokens among them" if points else "points for wider values"
            yield Exposure(name, BROKER, f"{tokens}: how often they match, so how wide the condition may be", size)
            wide = "the condition" if deposit == "exact" else "a wider condition"
            tells = f"{wide}, by trying values, if the member may publish: publishers make tags"
            yield Exposure(name, MEMBER, tells, _allowed(tree, conditions, size))
        yield Exposure(name, OBSERVER, f"with TLS, {_TRAFFIC}; without, what the broker can tell", size)


def _points(filter: Filter, schema: Schema) -> int:
    """Return the number of points that each row of the largest deposited conjunction has."""
    most = max(len(row) for box in schema.boxes(filter, widen=True) for row in box)
    return 1 << (most - 1).bit_length()


def _values(tree: Tree) -> int | None:
    if isinstance(tree, Numbers):
        return int(2**tree.domain.bits)
    return len(tree.domain.values) if isinstance(tree, OneOf) else None


def _allowed(tree: Tree | None, conditions: list[Constraint], size: int | None) -> int | None:
    """Return how many values of the domain a known condition allows."""
    if not conditions or size is None:
        return size
    if isinstance(tree, OneOf):
        return sum(any(each.accepts(value) for each in conditions) for value in tree.domain.values)
    return size if tree is None else _covered(tree, conditions, size)


def _covered(tree: Tree, conditions: list[Constraint], size: int) -> int:
    """Return how many values the credentials of some conditions have, at the most."""
    levels = size.bit_length() - 1
    found = {credential for each in conditions for credential in tree.cover(each, widen=True)}
    return min(size, sum(1 << max(0, levels - credential.place) for credential in found))


def as_text(found: Collection[Exposure]) -> str:
    """Return the table that a person reads."""
    lines = []
    for attribute in dict.fromkeys(each.attribute for each in found):
        lines.append(attribute)
        for each in found:
            if each.attribute == attribute:
                values = (
                    "any text"
                    if each.possible is None
                    else f"{each.possible:,} value{'s' * (each.possible != 1)} possible"
                )
                lines.append(f"  {each.party:<28} {each.tells} ({values})")
    return "\n".join(lines)


@click.command(
    epilog="\b\nExample: plait exposure \"symbol == 'IBM' and price < 120\" --member ./alice --reveal symbol"
)
@click.argument("expression", metavar="FILTER")
@click.option("--member", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
              metavar="FOLDER", help="A member's folder (`plait keys join`).")  # fmt: skip
@click.option("--reveal", multiple=True, metavar="NAME", help="As of `plait sub`.")
@click.option(
    "--deposit", type=click.Choice(DEPOSIT_KINDS), default="exact", show_default=True, help="As of `plait sub`."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def exposure(expression: str, member: Path, reveal: tuple[str, ...], deposit: DepositKind, as_json: bool) -> None:
    """Show what a subscription to sealed events tells others.

    There are three parties: a broker, a broker together with another member, and an observer of a link. Each could tell
    something about the condition on an attribute, and how many values it may still be about.
    """
    try:
        realm = asyncio.run(folder_client(member).realm()).realm
        found = list(exposures(parse(expression), realm.schema, reveal, deposit))
    except PlaitError as error:
        raise click.ClickException(str(error)) from None
    click.echo("\n".join(json.dumps(_plain(each)) for each in found) if as_json else as_text(found))


def _plain(each: Exposure) -> Mapping[str, object]:
    return asdict(each)
