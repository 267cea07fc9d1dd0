"""ARCHITECTURE.md's twenty lines name the files that one event really passes, in that order.

One event is followed over a chain of three brokers on virtual time, another one from the SDK's `publish` to its
iterator.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import plait
import plait.testing
from plait_lab.simulation.overlay.world import linked_world

ROOT = Path(__file__).parent.parent
AT_A = slice(5, 14)
"""Lines of the publisher's broker, from the pipeline to the connection to its neighbour."""


def listed() -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("## One event in twenty lines")[2].partition("\n## ")[0]
    return [match for line in section.splitlines() for match in re.findall(r"^\d+\. `([^`]+)`", line)]


@contextmanager
def followed() -> Iterator[list[str]]:
    """Collect the product's files that are entered, each time that another one is."""
    entered: list[str] = []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            name = str(path.relative_to(ROOT))
            if not entered or entered[-1] != name:
                entered.append(name)

    sys.setprofile(profile)
    try:
        yield entered
    finally:
        sys.setprofile(None)


def over_a_chain() -> list[str]:
    world = linked_world({(0, 1): 0.001, (1, 2): 0.001})
    publisher, subscriber = world.connected_client(0, "publisher"), world.connected_client(2, "subscriber")
    publisher.advertise("x >= 0")
    subscriber.subscribe("x >= 0")
    world.run(3.0)
    publisher.publish({"x": 1})
    world.run(3.0)
    with followed() as entered:
        publisher.publish({"x": 2})
        world.run(0.5)
    assert subscriber.delivered == [{"x": 1}, {"x": 2}]
    return entered


def through_the_sdk() -> list[str]:
    async def main() -> list[str]:
        async with plait.testing.Network() as network:
            subscriber, publisher = await network.connect(), await network.connect()
            async with subscriber.subscribe("x >= 0") as events:
                with followed() as entered:
                    await publisher.publish({"x": 1})
                    await events.next()
                return entered

    return plait.testing.run(main())


def test_there_are_twenty_lines() -> None:
    files = listed()
    assert len(files) == 20
    assert all((ROOT / file).is_file() for file in files)


def test_one_event_passes_these_files_in_this_order() -> None:
    files, chain, sdk = listed(), over_a_chain(), through_the_sdk()
    assert set(files) <= {*chain, *sdk}
    at = 0
    for file in files[AT_A]:
        assert file in chain[at:], f"{file} is not entered after the one before it"
        at = chain.index(file, at)
    assert [sdk.index(file) for file in files[:4]] == sorted(sdk.index(file) for file in files[:4])
