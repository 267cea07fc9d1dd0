"""`plait top`: rows from a broker's answer, and the screen with a real broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from scripted import LOCAL, client_of, running

from plait.commands.observe.overview import TABLES, Overview, broker_rows, headline, link_rows, subscription_rows
from plait.options.target import Target
from plait_broker.server.endpoints import Endpoint

SAID = {
    "about": {"name": "north"},
    "now": {"brokers": 2, "brokers_up": 1, "published_s": 12.5, "p50_ms": 0.25, "reasons": {"late": 3}},
    "brokers": {
        "1": {"name": "quiet", "status": "silent"},
        "2": {
            "name": "busy\x1b[31m",
            "status": "ready",
            "delivered_s": 1234.5,
            "cpu": 0.051,
            "rss": 64e6,
            "busy": 0.25,
            "lag_ms": 0.4,
        },
    },
    "links": {
        "2>1": {"from": "2", "to": "1", "state": "up", "delay_ms": 12.0},
        "1>2": {"from": "1", "to": "2", "state": "down", "delay_ms": None},
    },
    "subscriptions": {"2/7": {"client": "\x1b]0;title\x07", "at": "busy", "number": 7, "filter": "n > 0", "late": 2}},
}


def test_rows_are_in_the_order_of_what_matters() -> None:
    brokers = broker_rows(SAID)
    assert list(brokers) == ["2", "1"]
    assert brokers["2"][4:6] == ("1,234", "-")
    assert brokers["2"][-4:] == ("5.1%", "64 MB", "25.0%", "400 µs")
    assert list(link_rows(SAID)) == ["1>2", "2>1"]
    assert "1 of 2 brokers" in headline(SAID)
    assert "delay 250 µs" in headline(SAID)
    assert "late 3" in headline(SAID)


def test_a_full_link_comes_after_those_that_are_down() -> None:
    full = {"from": "2", "to": "1", "state": "up", "delay_ms": 1.0, "full": True, "utilisation": 0.98}
    waits = {"pending_bytes": 125_000, "oldest_s": 1.5}
    said = SAID | {"links": SAID["links"] | {"3>1": full | waits}}
    rows = link_rows(said)
    assert list(rows) == ["1>2", "3>1", "2>1"]
    assert rows["3>1"][1] == "full"
    assert rows["3>1"][-3:] == ("98.0%", "125 kB", "1.5 s")
    assert rows["2>1"][-3:] == ("-", "-", "-")


def test_no_name_is_a_command_to_the_terminal() -> None:
    for rows in (broker_rows(SAID), link_rows(SAID), subscription_rows(SAID)):
        assert not any("\x1b" in cell or "\x07" in cell for row in rows.values() for cell in row)


@pytest.mark.parametrize("said", [{}, {"now": 3, "brokers": [], "links": {"x": 1}, "subscriptions": None}])
def test_anything_may_be_answered(said: dict[str, Any]) -> None:
    headline(said)
    for columns, rows in TABLES.values():
        assert all(len(row) == len(columns) for row in rows(said).values())


async def test_the_screen_follows_a_broker() -> None:
    pytest.importorskip("textual", reason="pip install textual")
    from textual.widgets import DataTable, Static

    from plait.commands.observe.top_screen import TopScreen

    configuration = replace(LOCAL, http=Endpoint("127.0.0.1", 0))
    async with running(configuration, name="north") as server:
        overview = Overview(f"http://127.0.0.1:{server.http_port}", Target.of(f"plait://{server.listen}", "test"))
        screen = TopScreen(overview.read)
        async with (
            asyncio.timeout(60),
            screen.run_test(size=(120, 30)) as pilot,
            client_of(server, "[b]desk", 1) as client,
        ):
            await client.subscribe("n > 0")
            table = screen.query_one("#subscriptions-table", DataTable)
            while not table.row_count:
                await pilot.pause(0.05)
            assert str(table.get_row_at(0)[0]) == "[b]desk"
            assert "north" in str(screen.query_one("#now", Static).content)
            await pilot.press("s")
            assert screen.focused is table
            await server.stop()
            while "no answer" not in str(screen.query_one("#now", Static).content):
                await pilot.pause(0.05)
            assert table.row_count == 1, "what was is still there"
            await screen.workers.wait_for_complete()
