"""What programs write into docs/ and docker/ is what lies there. If not: `make docs`."""

from __future__ import annotations

import pytest

from plait_lab.documents import ROOT, generated, generated_by_brokers


@pytest.mark.parametrize("written", [generated, generated_by_brokers], ids=["sources", "brokers"])
def test_what_is_generated_is_current(written: object) -> None:
    files = written()  # type: ignore[operator]
    old = [path for path, text in files.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text]
    assert not old, f"make docs writes anew: {old}"
