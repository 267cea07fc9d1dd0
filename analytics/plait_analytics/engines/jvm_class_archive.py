"""Java's classes as they are once loaded, kept in a file (AppCDS): Spark's first job then comes two seconds sooner.

The archive is made once, by a session that ends; a Java or Spark of another version does not take it, and gets its own.
"""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import version
from pathlib import Path
from typing import Final

ENOUGH_BYTES: Final = 10 << 20
"""An archive of Spark is 150 MB; less was cut short."""

QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""It warns of every class that it cannot keep, which are hundreds and harmless."""


def archive_path(java_home: Path) -> Path:
    """Where the archive of this Java and this Spark lies: `PLAIT_SPARK_ARCHIVE`, else in the user's cache."""
    told = os.environ.get("PLAIT_SPARK_ARCHIVE")
    if told:
        return Path(told)
    release = java_home / "release"
    java = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else str(java_home)
    digest = hashlib.sha256(f"{java}{version('pyspark')}{version_home()}".encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "plait" / f"spark-{digest}.jsa"


def version_home() -> str:
    """Where Spark's jars are: an archive holds for these paths alone."""
    import pyspark

    return str(Path(pyspark.__file__).parent)


def java_options(archive: Path) -> str:
    """What makes a JVM use the archive, where there is one."""
    if archive.is_file() and archive.stat().st_size > ENOUGH_BYTES:
        return f"{QUIET} -XX:SharedArchiveFile={archive} -Xshare:auto"
    return ""


def making(archive: Path) -> str:
    """What makes a JVM write it when it ends."""
    return f"{QUIET} -XX:ArchiveClassesAtExit={archive}"
