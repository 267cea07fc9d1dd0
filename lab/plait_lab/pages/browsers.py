"""A headless browser, driven over WebDriver: Debian's chromium, for tests and screenshots of the pages."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

PATIENCE_S: Final = 60.0
"""Timeout for a page to show something on a busy machine."""

INSTALL: Final = "chromium is not installed: apt-get install chromium chromium-driver"

T = TypeVar("T")


def missing() -> str:
    """Return what must be installed for a browser; empty if nothing is missing."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return INSTALL
    return "" if shutil.which("chromium") and shutil.which("chromedriver") else INSTALL


@contextmanager
def browser(width: int = 1440, height: int = 900, *, dark: bool = False) -> Iterator[Any]:
    """Run a browser with one tab of this size."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    arguments = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
    for argument in (*arguments, f"--window-size={width},{height}", "--disable-background-networking"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        yield driver
    finally:
        driver.quit()


def until(what: str, found: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """Wait until `found` returns a true value, and return it."""
    from selenium.common.exceptions import StaleElementReferenceException, WebDriverException

    give_up_at = time.monotonic() + patience_s
    while time.monotonic() < give_up_at:
        try:
            if value := found():
                return value
        except (StaleElementReferenceException, WebDriverException, IndexError):
            pass  # the page is still rendering
        time.sleep(0.05)
    raise AssertionError(f"not within {patience_s:g} s: {what}")
