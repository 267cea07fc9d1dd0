"""README and docs/ are executed as printed, and their links lead to existing files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pages
import pytest
import spark

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKING = [*PAGES, *ROOT.glob("*.md")]

NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "docker": (lambda: bool(os.environ.get("PLAIT_E2E")), "runs in make e2e"),
    "registry": (
        lambda: bool(os.environ.get("PLAIT_REGISTRY")),
        "PLAIT_REGISTRY=1, where one of images is within reach",
    ),
    "prometheus": (
        lambda: shutil.which("prometheus") is not None,
        "prometheus is not installed: apt-get install prometheus",
    ),
    "spark": (lambda: not spark.missing(), spark.missing()),
    "chromium": (lambda: shutil.which("chromium") is not None, "chromium is not installed: apt-get install chromium"),
    "nightly": (lambda: bool(os.environ.get("PLAIT_NIGHTLY")), "runs in make nightly"),
}
EXECUTED, FILES = {"console", "python"}, {"toml", "json", "yaml", "text", "mermaid", "jsonl"}


def cases() -> list[tuple[Path, str]]:
    """Return each page with commands, and each of its optional requirements."""
    found = []
    for page in PAGES:
        its_blocks = list(pages.blocks(page))
        needs = dict.fromkeys(block.needs for block in its_blocks if block.language in EXECUTED)
        found += [(page, need) for need in needs]
    return found


@cache
def networks() -> bool:
    return pages.networks_can_be_made()


def name_of(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value) or "all"


@pytest.mark.parametrize(("page", "need"), cases(), ids=name_of)
@pytest.mark.timeout(300)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, need: str) -> None:
    if need and not NEEDS[need][0]():
        pytest.skip(NEEDS[need][1])
    if need != "docker" and not networks():
        pytest.skip("pages want a network of their own: unshare -rn (util-linux) does not give one here")
    reading = [sys.executable, pages.__file__ or "", str(page), need]
    done = subprocess.run(
        reading if need == "docker" else pages.alone(reading),
        env={**os.environ, **({} if need == "docker" else {"PLAIT_PAGE_ALONE": "1"})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_a_page_has_a_language_that_is_checked(page: Path) -> None:
    for block in pages.blocks(page):
        known = EXECUTED | FILES | {"stop", "kill"} | ({"sh"} if page.name == "README.md" else set())
        assert block.language in known, f"{page.name}:{block.line}: {block.language or 'no language'}"
        assert not block.needs or block.needs in NEEDS, f"{page.name}:{block.line}"


def test_makes_targets_are_there() -> None:
    """The commands of README's development section take too long to run here."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in LINKING for name in re.findall(r"^\$? ?make ([a-z-]+)", page.read_text(), re.MULTILINE)}
    assert named <= targets


def test_the_first_program_is_the_example() -> None:
    first = next(block for block in pages.blocks(ROOT / "README.md") if block.language == "python")
    assert (ROOT / "examples" / "first_steps.py").read_text() == first.text


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page, named as code hosting sites do."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).replace("`", "").strip().lower() for heading in headings]
    found: dict[str, int] = {}
    for heading in plain:
        slug = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return frozenset(slug + (f"-{n}" if n else "") for slug, most in found.items() for n in range(most + 1))


@pytest.mark.parametrize("page", sorted(set(LINKING)), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(place), f"{page.name}: {target}"


def test_every_page_can_be_found() -> None:
    """Every page is linked from the table of contents, or from a page that is."""
    home = ROOT / "docs"
    seen: set[Path] = set()
    to_read = [home / "README.md"]
    while to_read:
        page = to_read.pop()
        if page in seen or page.suffix != ".md" or not page.is_relative_to(home):
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)#\s:]+)", page.read_text())
        to_read += [(page.parent / target).resolve() for target in targets if (page.parent / target).exists()]
    assert set(home.rglob("*.md")) <= seen
