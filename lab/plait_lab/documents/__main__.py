"""`python -m plait_lab.documents` rewrites outdated generated files and lists them; --check only lists them."""

from __future__ import annotations

import sys

from . import ROOT, generated, generated_by_brokers

check = "--check" in sys.argv
old = {
    path: text
    for path, text in (generated() | generated_by_brokers()).items()
    if not (ROOT / path).exists() or (ROOT / path).read_text() != text
}
for path, text in old.items():
    sys.stdout.write(f"{path}\n")
    if not check:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
sys.exit(1 if check and old else 0)
