"""`python -m plait_lab.documents` writes what is not as it should be, and says so."""

from __future__ import annotations

import sys

from . import ROOT, generated, generated_by_brokers

for path, text in (generated() | generated_by_brokers()).items():
    place = ROOT / path
    if not place.exists() or place.read_text() != text:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        sys.stdout.write(f"{path}\n")
