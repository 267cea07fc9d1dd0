"""What programs write into docs/ and docker/ is what lies there. If not: `make docs`."""

from __future__ import annotations

import subprocess
import sys


def test_what_is_generated_is_current() -> None:
    """In a process of its own: click remembers of a command how it was called first."""
    checking = [sys.executable, "-m", "plait_lab.documents", "--check"]
    checked = subprocess.run(checking, capture_output=True, text=True, timeout=120, check=False)
    assert not checked.returncode, f"make docs writes anew:\n{checked.stdout}{checked.stderr}"
