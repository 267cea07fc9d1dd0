"""Screenshots of the live page for the documents: `make pictures`, or `python -m plait_lab.pages.screenshots [--out
docs/images] [--brokers 6] [--seconds 120]`. They look best with the font Inter (Debian's fonts-inter)."""

from __future__ import annotations

import argparse
import asyncio
import base64
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from PIL import Image

from .browsers import browser, missing, until
from .page_stage import PageStage

WIDTH: Final = 1440

COLOURS: Final = 256
"""Colours of a screenshot: flat surfaces and text look the same, in a third of the bytes."""


def main() -> None:
    """Take the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--brokers", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=120.0, help="of history before they are taken")
    parser.add_argument("--prefix", default="", help="of the files' names")
    given = parser.parse_args()
    if wanting := missing():
        sys.exit(f"there is no browser: {wanting}")
    given.out.mkdir(parents=True, exist_ok=True)
    asyncio.run(_take(given))


async def _take(given: argparse.Namespace) -> None:
    async with PageStage(given.brokers) as stage:
        for dark in (False, True):
            name = f"{given.prefix}live-{'dark' if dark else 'light'}.png"
            await asyncio.to_thread(_picture, stage.page, given.out / name, dark, given.seconds if not dark else 6.0)


def _picture(page: str, file: Path, dark: bool, seconds: float) -> None:
    with browser(WIDTH, 1000, dark=dark) as driver:
        driver.get(page)
        until("it is live", lambda: driver.find_element("css selector", 'body[data-state="live"]'))
        until("events", lambda: driver.find_element("css selector", "#tail tbody tr"))
        time.sleep(seconds)
        until("rows", lambda: driver.find_elements("css selector", "#bounds tbody tr"))[-1].click()
        until("its trees", lambda: driver.find_element("css selector", "#inspector .way"))
        time.sleep(1.0)
        save(driver, file)
        for entry in driver.get_log("browser"):
            print(f"{entry['level']}: {entry['message']}", file=sys.stderr)
    print(f"{file}  {file.stat().st_size} bytes")


def save(driver: Any, file: Path) -> None:
    """Save the whole page with few colours."""
    height = driver.execute_script("return document.documentElement.scrollHeight")
    size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    time.sleep(0.5)
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": False})
    picture = Image.open(BytesIO(base64.b64decode(taken["data"]))).convert("RGB")
    picture.quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    main()
