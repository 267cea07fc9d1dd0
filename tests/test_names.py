"""Check that no source uses a replaced name. `scripts/names.toml` lists the old names and their replacements."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMES = tomllib.loads((ROOT / "scripts" / "names.toml").read_text())
HISTORY = {"scripts/names.toml", "scripts/rename.py", "CHANGELOG.md", "tests/test_names.py"}
"""Files that may contain replaced names."""

TEXTS = {".py", ".md", ".toml", ".sh", ".yaml", ".yml", ".js", ".html", ".json", ".rs"}


def tracked() -> Iterator[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        path = ROOT / line
        if path.suffix in TEXTS and path.is_file() and line not in HISTORY and "corpus" not in path.parts:
            yield path


def replaced_modules() -> set[str]:
    """Old dotted names that are not the new name of something else."""
    taken = {new for new in NAMES["modules"].values()}
    packages = {new.rpartition(".")[0] for new in taken} | set(NAMES["rooms"])
    return {old for old in NAMES["modules"] if old not in taken | packages}


def test_no_module_has_an_old_name() -> None:
    for old in replaced_modules():
        place = old.replace(".", "/")
        assert not [*ROOT.glob(f"*/{place}.py"), *ROOT.glob(f"*/*/{place}.py")], f"{old} is {NAMES['modules'][old]} now"


@pytest.mark.parametrize("path", sorted(tracked()), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_uses_an_old_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for old in OLD_WORDS.findall(text):
        pytest.fail(f"{old} is {NAMES['words'][old]} now")
    for old in OLD_MODULES.findall(text):
        pytest.fail(f"{old} is {NAMES['modules'][old]} now")


OLD_WORDS = re.compile(rf"\b({'|'.join(NAMES['words'])})(?=_total\b|\b)")
OLD_MODULES = re.compile(
    rf"\b({'|'.join(re.escape(old) for old in sorted(replaced_modules(), reverse=True))})\b(?!\.py)"
)


def test_nothing_is_defined_by_an_old_name() -> None:
    kept: dict[str, set[str]] = defaultdict(set)
    for place, new in NAMES["symbols"].items():
        kept[place.partition(".")[0]].add(new)
    for place, new in NAMES["symbols"].items():
        module, _, old = place.partition(":")
        package = module.partition(".")[0]
        now = NAMES["modules"].get(module, module).replace(".", "/")
        for path in [*ROOT.glob(f"*/{now}.py"), *ROOT.glob(f"*/*/{now}.py")]:
            defined = {getattr(node, "name", "") for node in ast.parse(path.read_text()).body}
            assert old not in defined or old in kept[package], f"{path.relative_to(ROOT)}: {old} is {new} now"
