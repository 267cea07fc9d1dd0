"""Tables at usual terminal widths: important columns stay, the least important are removed first."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from typing import Any

import pytest
from rich.cells import cell_len

from plait.commands.observe.listings import LISTINGS, SHORT_FROM, short, size_text
from plait.commands.terminal.tables import fitted, print_table
from plait_broker.status import (
    describe_advertisements,
    describe_clients,
    describe_links,
    describe_subscriptions,
    describe_topology,
)
from plait_core.wire.frame_types.session_frames import Advertise, ClientReport
from plait_lab.simulation.one_broker.stage import Stage
from plait_lab.simulation.overlay.world import address_of, linked_world

ADDRESS = "127.0.0.1:44276"
LONG = " or ".join(f"price == {n}" for n in range(40))


def described() -> dict[str, list[dict[str, Any]]]:
    """Return the lists of a real broker with clients."""
    stage = Stage()
    sub, adv = stage.raw("plait-sub-aeeb672c"), stage.raw("plait-adv-2890a8b6")
    sub.subscribe(1, LONG, within_us=50_000)
    sub.subscribe(2, "true", durable="a-place")
    adv.send(Advertise(adv.next_request(), 1, LONG, 10.5))
    gone = stage.raw("gone")
    gone.subscribe(1, "true", durable="left")
    stage.run(0.1)
    gone.connection.reset()
    adv.publish(n=1)
    sub.send(ClientReport((1, 2), (0, 0), (0, 0)))
    stage.run(1.0)
    broker = stage.broker
    face = {"listen": ADDRESS, "http": ADDRESS, "status": "ready", "version": "0.1.0", "connections": 2}
    addressed: dict[str, object] = {"address": ADDRESS}
    return {
        "brokers": [describe_topology(broker)["brokers"][0] | face],
        "links": [link | addressed for link in describe_links(broker)],
        "clients": [client | addressed for client in describe_clients(broker)],
        "subs": list(describe_subscriptions(broker)),
        "advs": list(describe_advertisements(broker)),
    }


@pytest.fixture(scope="module")
def items() -> dict[str, list[dict[str, Any]]]:
    return described()


def drawn(what: str, rows: list[dict[str, Any]], width: int) -> list[str]:
    """Return the lines of a listing, drawn by a separate process on a real terminal of this width."""
    columns = LISTINGS[what]
    cells = [[column.cell(row) for column in columns] for row in rows]
    code = (
        "from plait.commands.terminal.tables import print_table\n"
        f"print_table({[c.title for c in columns]!r}, {cells!r}, right={[c.title for c in columns if c.right]!r},"
        f" spare={ {c.title: c.spare for c in columns}!r})"
    )
    return on_terminal(code, width)


def on_terminal(code: str, width: int) -> list[str]:
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment = kept | {"TERM": "xterm", "NO_COLOR": "1"}
        subprocess.run(
            [sys.executable, "-c", code], stdin=theirs, stdout=theirs, check=True, env=environment, timeout=30
        )
        text = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    for sequence in ("\x1b[1m", "\x1b[0m"):
        text = text.replace(sequence, "")
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("what", LISTINGS)
def test_a_listing_fits_its_terminal(what: str, width: int, items: dict[str, list[dict[str, Any]]]) -> None:
    rows = items[what]
    assert rows
    lines = drawn(what, rows, width)
    assert len(lines) == 1 + len(rows), "one line each"
    assert max(map(cell_len, lines)) <= width
    for column in LISTINGS[what]:
        if not column.spare:
            assert column.title in lines[0], "what one looks for is there"


def test_a_broker_is_twelve_columns_of_a_hundred_and_fifteen(items: dict[str, list[dict[str, Any]]]) -> None:
    assert len(LISTINGS["brokers"]) == 12
    header = drawn("brokers", items["brokers"], 115)[0]
    assert header.split() == [column.title for column in LISTINGS["brokers"]]


def test_columns_read_fields_that_brokers_send(items: dict[str, list[dict[str, Any]]]) -> None:
    """A column with an unknown field would always be empty."""
    said = {
        what: {column.title for column in columns if any(column.cell(row) for row in items[what])}
        for what, columns in LISTINGS.items()
    }
    silent = {what: {column.title for column in LISTINGS[what]} - said[what] for what in LISTINGS}
    of_brokers = {"JITTER", "LOSS", "WAITING", "USED", "CARRIES/S", "STATE"}  # a link to a client has none
    assert silent == {"brokers": set(), "links": of_brokers, "clients": set(), "subs": set(), "advs": set()}


def test_an_unreachable_broker_has_no_counts() -> None:
    world = linked_world({(0, 1): 0.001})
    world.cut(0, 1)
    world.run(1.0)
    near, far = describe_topology(world.broker(0))["brokers"]
    assert (near["distance_ms"], far["distance_ms"], far["reachable"]) == (0.0, None, False)
    cells = {column.title: column.cell(far) for column in LISTINGS["brokers"]}
    known = {"NAME": "b1", "STATUS": "out of reach", "LISTEN": address_of(1)}
    assert cells == dict.fromkeys(cells, "") | known


def test_states_in_a_word() -> None:
    state = {what: next(c.cell for c in LISTINGS[what] if c.title == "STATE") for what in ("links", "clients", "subs")}
    assert [state["links"]({"writable": writable}) for writable in (True, False)] == ["", "full"]
    assert state["links"]({"writable": True, "state": "silent", "full": True}) == "silent"
    assert state["links"]({"writable": True, "state": "up", "full": True}) == "full"
    assert state["links"]({"writable": True, "state": "up", "full": False}) == "up"
    for what in ("clients", "subs"):
        assert state[what]({"connected": True, "slow": False}) == ""
        assert state[what]({"connected": True, "slow": True}) == "slow"
        assert state[what]({"connected": False, "slow": False}) == "away"


@pytest.mark.parametrize("what", LISTINGS)
@pytest.mark.parametrize(
    "strange", [{}, {"counters": 7, "dropped": "x", "uptime_s": [], "delay_ms": True, "filter": {}}]
)
def test_columns_accept_any_value_of_another_broker(what: str, strange: dict[str, object]) -> None:
    assert all(isinstance(column.cell(strange), str) for column in LISTINGS[what])


def test_spare_columns_go_in_their_order() -> None:
    columns, rows = ["A", "B", "C", "D"], [["aaaa", "bbbb", "cccc", "dddd"]]
    spare = {"B": 1, "C": 2}
    widths = {22: ["A", "B", "C", "D"], 21: ["A", "B", "D"], 16: ["A", "B", "D"], 15: ["A", "D"], 3: ["A", "D"]}
    for width, kept in widths.items():
        assert fitted(columns, rows, spare, width) == (kept, [[f"{name.lower() * 4}" for name in kept]])


def test_an_empty_spare_column_is_hidden_at_any_width() -> None:
    assert fitted(["A", "B", "C"], [["a", "", ""], ["a", "", ""]], {"B": 1}, 200)[0] == ["A", "C"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (SHORT_FROM - 1, "9999999"), (SHORT_FROM, "10M"), (12_345_678, "12.35M"), (7_654_321_098, "7.654G"),
    ],
)  # fmt: skip
def test_counts(value: object, text: str) -> None:
    assert short(value) == text


def test_where_nobody_looks_everything_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["A", "N"], [["x" * 300, "7"]], right=["N"], spare={"A": 1})
    assert capsys.readouterr().out == f"{'A':300}  N\n{'x' * 300}  7\n"


def test_a_cell_cannot_draw() -> None:
    lines = on_terminal(
        "from plait.commands.terminal.tables import print_table; print_table(['A'], [['\\x1b[2J[red]']])", 40
    )
    assert lines == ["A", "\\x1b[2J[red]"]


def test_sizes_have_three_digits_and_a_unit() -> None:
    sizes = {0: "0 B", 950: "950 B", 12_345: "12.3 kB", 125_000: "125 kB", 999_950: "1000 kB", 2_000_000: "2 MB"}
    assert {size: size_text(size) for size in sizes} == sizes
    assert size_text(None) == ""
