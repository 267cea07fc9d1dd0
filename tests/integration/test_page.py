"""The live page in a real browser with real brokers: loading, updates, mouse and keyboard, reconnecting."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from processes import port_to_keep

from plait import sync
from plait_lab.pages.browsers import browser, missing, until

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no browser: {missing()}")

HOSTILE = "<img src=x onerror=document.title='broken'>"
CSS = "css selector"


@contextmanager
def broker(name: str, port: int, http: int, *links: int) -> Iterator[subprocess.Popen[str]]:
    """Run a broker process until it is ready."""
    command = [sys.executable, "-m", "plait", "broker", "--name", name, "--listen", f"127.0.0.1:{port}"]
    command += ["--http", f"127.0.0.1:{http}", "--log-level", "error"]
    for link in links:
        command += ["--link", f"127.0.0.1:{link}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready ")
            yield process
        finally:
            process.kill()


def click(driver: Any, element: Any) -> None:
    """Click at an element's centre, since the bar at the top may cover an element that was scrolled to."""
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def text_of(driver: Any, selector: str) -> str:
    return str(driver.find_element(CSS, selector).text)


def rows(driver: Any, selector: str) -> list[Any]:
    return list(driver.find_elements(CSS, f"{selector} tbody tr"))


def complaints(driver: Any) -> list[str]:
    """Return the browser's errors except lost connections."""
    said = [entry["message"] for entry in driver.get_log("browser")]
    return [message for message in said if "Failed to load resource" not in message and "ERR_" not in message]


def test_the_page_shows_the_overlay_and_is_worked_with() -> None:
    chance = random.Random(7)
    ports = [port_to_keep(chance) for _ in range(4)]
    north, south, north_http, south_http = ports
    with (
        broker("south", south, south_http),
        broker("north", north, north_http, south),
        sync.connect(f"plait://127.0.0.1:{south}", name=HOSTILE) as reader,
        sync.connect(f"plait://127.0.0.1:{north}", name="feed") as feed,
        reader.subscribe("symbol == 'IBM' and price < 120", within=30.0) as quotes,
        browser() as driver,
    ):
        driver.get(f"http://127.0.0.1:{north_http}/")
        until("live", lambda: driver.find_element(CSS, 'body[data-state="live"]'))
        until("both brokers", lambda: len(driver.find_elements(CSS, '.node[data-id][data-status="ready"]')) == 2)
        names = {node.text for node in driver.find_elements(CSS, ".node[data-id] text:first-of-type")}
        assert names == {"north", "south"}
        until("their link", lambda: "ms" in text_of(driver, "#links tbody") or "µs" in text_of(driver, "#links tbody"))

        for number in range(30):
            feed.publish({"symbol": "IBM" if number % 2 else "SAP", "price": 100 + number, "note": HOSTILE})
        assert quotes.next(timeout=30)["symbol"] == "IBM"
        until("the events", lambda: len(rows(driver, "#tail")) == 30)
        until("the subscription", lambda: HOSTILE in text_of(driver, "#subscriptions"))
        assert HOSTILE in rows(driver, "#tail")[0].text
        assert not driver.find_elements(CSS, "main img"), "what clients say is text"

        _try_filters(driver)
        _look_at_an_event(driver)
        _look_at_a_subscription(driver)
        _by_keyboard(driver)
        until("the rate of what is published", lambda: _published(feed) and _rate(driver) not in ("", "–", "0"))
        assert driver.title == "north · Plait"
        assert complaints(driver) == []
        updates = driver.execute_script("return performance.getEntriesByName('update').length")
        assert updates == 1, "the last update is measured"


def _published(feed: Any) -> bool:
    feed.publish({"symbol": "SAP", "price": 1})
    return True


def _rate(driver: Any) -> str:
    """Return the published rate that the page shows."""
    shown = driver.find_elements(CSS, "#strip dl")[1].find_element(CSS, "dd").text
    return str(shown).removesuffix("/s").strip()


def _try_filters(driver: Any) -> None:
    box = driver.find_element(CSS, "#filter")
    box.send_keys("symbol == 'IBM' and price >= 125")
    until("what matches", lambda: "3 of the last 30 match" in text_of(driver, "#tail .meta"))
    assert "symbol == 'IBM' is false: symbol is 'SAP'" in text_of(driver, "#tail tbody")
    click(driver, driver.find_element(CSS, "#matching"))
    until("only those", lambda: len(rows(driver, "#tail")) == 3)
    box.send_keys(" and")
    until("what is wrong", lambda: "filter:" in text_of(driver, "#problem"))
    click(driver, driver.find_element(CSS, "#matching"))
    box.clear()
    box.send_keys(" \b")
    until("all again", lambda: len(rows(driver, "#tail")) == 30)


def _look_at_an_event(driver: Any) -> None:
    wanted = next(row for row in rows(driver, "#tail") if "symbol=IBM" in row.text and "price=119" in row.text)
    click(driver, wanted)
    until("its path", lambda: "delivered to" in text_of(driver, "#inspector"))
    told = text_of(driver, "#inspector")
    assert "published at north, for south" in told
    assert "reached south after" in told
    assert f"delivered to {HOSTILE}" in told
    until("its path, drawn", lambda: driver.find_element(CSS, "#topology path.route"))


def _look_at_a_subscription(driver: Any) -> None:
    click(driver, rows(driver, "#subscriptions")[0])
    until("its trees", lambda: "north → south" in text_of(driver, "#inspector"))
    assert driver.find_element(CSS, "#topology path.route")
    click(driver, driver.find_element(CSS, "#clear"))
    until("nothing selected", lambda: "Select a broker" in text_of(driver, "#inspector"))
    assert not driver.find_elements(CSS, "#topology path.route")


def _by_keyboard(driver: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    body = driver.find_element(CSS, "body")
    body.send_keys("/")
    assert driver.switch_to.active_element.get_attribute("id") == "filter"
    driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    body.send_keys("t")
    first = driver.find_element(CSS, "html").get_attribute("data-theme")
    body.send_keys("t")
    assert {first, driver.find_element(CSS, "html").get_attribute("data-theme")} == {"light", "dark"}
    node = driver.find_element(CSS, '.node[tabindex="0"]')
    driver.execute_script("arguments[0].focus()", node)
    before = node.get_attribute("data-id")
    for key in (Keys.ARROW_LEFT, Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ARROW_DOWN):
        driver.switch_to.active_element.send_keys(key)
        if driver.switch_to.active_element.get_attribute("data-id") != before:
            break
    assert driver.switch_to.active_element.get_attribute("data-id") != before
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    until("a broker", lambda: text_of(driver, "#inspector-title") == "Broker")
    driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    until("nothing", lambda: text_of(driver, "#inspector-title") == "Selected")


def test_the_page_loses_its_broker_and_finds_it_again() -> None:
    chance = random.Random(8)
    port, http = port_to_keep(chance), port_to_keep(chance)
    with browser(900, 700, dark=True) as driver:
        with broker("phoenix", port, http) as process:
            driver.get(f"http://127.0.0.1:{http}/")
            until("live", lambda: driver.find_element(CSS, 'body[data-state="live"]'))
            process.kill()
            process.wait()
            until("lost", lambda: driver.find_element(CSS, 'body[data-state="lost"]'))
            assert "Reconnecting" in text_of(driver, "#banner")
            assert driver.title == "lost · Plait"
            assert driver.find_elements(CSS, ".node[data-id]"), "what was is still there"
        with broker("phoenix", port, http), sync.connect(f"plait://127.0.0.1:{port}", name="early") as client:
            until("live again", lambda: driver.find_element(CSS, 'body[data-state="live"]'))
            assert not driver.find_element(CSS, "#banner").is_displayed()
            with client.subscribe("true"):
                until("what is new", lambda: "early" in text_of(driver, "#subscriptions"))


SIZES = pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
LONG = "a-subscriber-with-quite-a-long-name"


@contextmanager
def opened(width: int, height: int, seed: int) -> Iterator[tuple[Any, subprocess.Popen[str], list[int]]]:
    """Run two brokers with a publisher and subscribers, and open the page of the first: the browser, its broker, the
    ports of the HTTP servers."""
    chance = random.Random(f"{seed} {os.getpid()}")  # other sizes are tested at the same time
    north, south, north_http, south_http = (port_to_keep(chance) for _ in range(4))
    with (
        broker("south", south, south_http),
        broker("north", north, north_http, south) as process,
        sync.connect(f"plait://127.0.0.1:{south}", name=LONG) as reader,
        sync.connect(f"plait://127.0.0.1:{south}", name="feed") as feed,
        reader.subscribe("symbol == 'IBM' and price < 120 and venue in ['NYSE', 'XETRA']", within=0.5),
        reader.subscribe("price > 3"),
        browser(width, height) as driver,
    ):
        for number in range(30):
            feed.publish({"symbol": "IBM" if number % 2 else "SAP", "price": 100 + number, "venue": "NYSE"})
        driver.get(f"http://127.0.0.1:{north_http}/")
        until("live", lambda: driver.find_element(CSS, 'body[data-state="live"]'))
        until("the events", lambda: len(rows(driver, "#tail")) == 30)
        until("the subscriptions", lambda: len(rows(driver, "#subscriptions")) == 2)
        until("their link", lambda: "up" in text_of(driver, "#links tbody"))
        yield driver, process, [north_http, south_http]


def in_sight(driver: Any, element: Any) -> bool:
    """Return whether the middle and the left end of an element are in the viewport and not covered."""
    return bool(
        driver.execute_script(
            """const box = arguments[0].getBoundingClientRect();
            return [box.left + 8, box.left + box.width / 2].every((x) => {
              const there = document.elementFromPoint(x, box.top + Math.min(box.height / 2, 20));
              return there !== null && arguments[0].contains(there);
            });""",
            element,
        )
    )


@SIZES
def test_a_wrong_filter_is_shown_as_at_the_prompt_and_asked_once(width: int, height: int) -> None:
    with opened(width, height, 21) as (driver, _, _):
        text = "price > 3 and symbol == 'IBM' and venue == NYSE"
        driver.find_element(CSS, "#filter").send_keys(text)
        problem = until("what is wrong", lambda: driver.find_element(CSS, "#problem:not([hidden])"))
        lines = problem.get_property("textContent").split("\n")
        assert lines[0].startswith("filter: ")
        column = int(lines[0].rpartition("column ")[2])
        assert lines[1].strip(), "the filter"
        start = text.index(lines[1].strip()[:10])
        assert lines[2] == " " * (column - 1 - start) + "^", lines
        assert driver.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", problem)
        reloads = "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/v1/events'))"
        before = driver.execute_script(f"{reloads}.length")
        until("three more requests", lambda: driver.execute_script(f"{reloads}.length") >= before + 3)
        refused = driver.execute_script(f"{reloads}.filter((one) => one.responseStatus === 400).length")
        assert refused <= 2, "once, and once if it was sent half typed"
        assert driver.find_element(CSS, "#problem").is_displayed(), "it stays"
        marks = {row.find_elements(CSS, "td")[2].text for row in rows(driver, "#tail")}
        assert marks == {""}, "a filter that is no filter marks nothing"
        assert text_of(driver, "#tail .meta") == ""


@SIZES
@pytest.mark.parametrize("what", ["#subscriptions", "#links", "#tail", "#bounds", "#resources"])
def test_the_result_of_a_selection_is_in_sight_of_it(what: str, width: int, height: int) -> None:
    with opened(width, height, 22) as (driver, _, _):
        row = rows(driver, what)[0]
        click(driver, row)
        panel = driver.find_element(CSS, "#inspector")
        until("the details", lambda: text_of(driver, "#inspector-title") not in ("", "Selected"))
        until("them in sight", lambda: in_sight(driver, panel))
        until(
            "the row beside them", lambda: in_sight(driver, driver.find_element(CSS, f'{what} [aria-selected="true"]'))
        )
        assert in_sight(driver, driver.find_element(CSS, "#clear")), "and the way out"
        driver.find_element(CSS, "#clear").click()
        until("nothing", lambda: text_of(driver, "#inspector-title") in ("", "Selected"))


@SIZES
def test_no_column_is_cut(width: int, height: int) -> None:
    with opened(width, height, 23) as (driver, _, _):
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        cut = driver.execute_script(
            """const whole = (cell) => cell.scrollWidth <= cell.clientWidth + 1;
            const cells = [...document.querySelectorAll("main th, main td")].filter((cell) => cell.offsetParent);
            return cells.filter((cell) => !whole(cell)).map((cell) => cell.textContent);"""
        )
        names = [text for text in cut if LONG not in text and "symbol" not in text]
        assert names == [], "figures and titles are whole at any width"
        assert width > 390 or cut == [], "on a phone names and filters are, too"


def test_axes_have_round_numbers() -> None:
    with opened(1440, 900, 24) as (driver, _, _):
        steps, delays = driver.execute_async_script(
            """const done = arguments[arguments.length - 1];
            Promise.all([import("/static/dom.js"), import("/static/latency.js")]).then(([dom, latency]) =>
              done([[926, 3704, 0.37, 12, 1, 41].map((most) => dom.roundStep(most)), latency.roundDelays(8, 15)]));"""
        )
        assert steps == [500, 1000, 0.1, 5, 0.5, 20]
        assert delays == [200, 500, 1000, 2000, 5000, 10000, 20000]


def test_the_page_goes_on_with_another_broker_when_its_own_dies() -> None:
    with opened(1440, 900, 25) as (driver, process, (_, south_http)):
        until("both pages are known", lambda: driver.execute_script(
            "return fetch('/api/v1/overview').then((answer) => answer.json())"
            ".then((said) => Object.values(said.brokers).every((one) => one.page))"
        ))  # fmt: skip
        until("the snapshot has them", lambda: _moves_are_known(driver))
        process.kill()
        process.wait()
        until("lost", lambda: driver.find_element(CSS, 'body[data-state="lost"]'))
        link = driver.find_element(CSS, "#banner a")
        assert (link.text, link.get_attribute("href")) == ("south", f"http://127.0.0.1:{south_http}/")
        until("the page of the other", lambda: f":{south_http}/" in driver.current_url)
        until("live", lambda: driver.find_element(CSS, 'body[data-state="live"]'))
        until("from where", lambda: "seen from south" in text_of(driver, "#where"))
        assert "as north does not answer" in text_of(driver, "#where")


def _moves_are_known(driver: Any) -> bool:
    """Return whether two updates have come since both brokers were known: then the page knows them, too."""
    time = "return performance.getEntriesByName('update')[0]?.startTime ?? 0"
    first = driver.execute_script(time)
    return bool(until("an update", lambda: driver.execute_script(time) > first))


def test_beyond_this_machine_the_page_asks_for_the_token() -> None:
    command = [sys.executable, "-m", "plait", "broker", "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"]
    environment = {"PLAIT_BROKER__ACCESS__TOKEN": "the-broker-token-0123456789"}
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
        ) as process,
        browser(900, 700) as driver,
    ):
        try:
            assert process.stdout is not None
            http = process.stdout.readline().split("http=")[1].strip()
            driver.get(f"http://127.0.0.1:{http.rpartition(':')[2]}/")
            box = until("the question", lambda: driver.find_element(CSS, "dialog[open] input"))
            box.send_keys("the-broker-token-0123456789")
            driver.find_element(CSS, "dialog button").click()
            until("live", lambda: driver.find_element(CSS, 'body[data-state="live"]'))
            kept = driver.execute_script("return JSON.stringify({...sessionStorage, ...localStorage})")
            assert "the-broker-token-0123456789" in json.loads(kept).values()
        finally:
            process.kill()
