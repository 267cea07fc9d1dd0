"""Java's class data archive (AppCDS): with it Spark's first job starts two seconds earlier.

A session that ends writes the archive. It is valid for one version of Java and Spark; another version has its own.
"""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import version
from pathlib import Path
from typing import Final

ENOUGH_BYTES: Final = 10 << 20
"""Size below which an archive is taken as truncated: one of Spark has 150 MB."""

QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""JVM options that suppress a harmless warning for each of the hundreds of classes that cannot be archived."""


def archive_path(java_home: Path) -> Path:
    """Return the path of the archive for this Java and Spark: `PLAIT_SPARK_ARCHIVE`, else a file in the user's
    cache."""
    override = os.environ.get("PLAIT_SPARK_ARCHIVE")
    if override:
        return Path(override)
    release = java_home / "release"
    java = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else str(java_home)
    digest = hashlib.sha256(f"{java}{version('pyspark')}{version_home()}".encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "plait" / f"spark-{digest}.jsa"


def version_home() -> str:
    """Return the directory of Spark's jars: an archive is valid only for the paths it was made with."""
    import pyspark

    return str(Path(pyspark.__file__).parent)


def java_options(archive: Path) -> str:
    """Return the JVM options that use the archive, or nothing if there is no complete archive."""
    if archive.is_file() and archive.stat().st_size > ENOUGH_BYTES:
        return f"{QUIET} -XX:SharedArchiveFile={archive} -Xshare:auto"
    return ""


def making(archive: Path) -> str:
    """Return the JVM options that write the archive at exit."""
    return f"{QUIET} -XX:ArchiveClassesAtExit={archive}"
