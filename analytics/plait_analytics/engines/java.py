"""Find Java, which Spark needs and which cannot be installed as a Python package.

`python -m plait_analytics.engines.java` exits with 1 and the reason if there is no suitable one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from plait_core import PlaitError

JAVA_MIN: Final = 17
"""The oldest Java that Spark 4 supports."""

TIMEOUT_S: Final = 20.0
"""Timeout of `java -version`: generous, for the first run on a cold machine."""

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


class JavaMissing(PlaitError):
    """There is no Java, or its version is too old."""


def find_java() -> Path:
    """Return the home directory of a suitable Java: from JAVA_HOME, else from the path. Raise JavaMissing without
    one."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"apt-get install openjdk-{JAVA_MIN}-jre-headless, or a newer one; or --engine duckdb, which needs none"
    if found is None:
        raise JavaMissing("Spark needs Java, which is not installed", hint=hint)
    version = _version(found)
    if version is None:
        raise JavaMissing(f"Spark needs Java, and {found} does not run", hint=hint)
    if version < JAVA_MIN:
        raise JavaMissing(f"Spark needs Java {JAVA_MIN}, and {found} is {version}", hint=hint)
    return Path(found).resolve().parent.parent


def _version(java: str) -> int | None:
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(process.stderr + process.stdout)
    return int(match[1]) if match is not None and process.returncode == 0 else None


if __name__ == "__main__":
    try:
        find_java()
    except JavaMissing as missing:
        sys.exit(str(missing))
