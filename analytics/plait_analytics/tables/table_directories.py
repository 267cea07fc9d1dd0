"""Directories of tables that any tool opens. `OUT/TABLE` has the current Parquet files of a table and nothing else.

    OUT/_files/TABLE/NAME.parquet   files, never changed once they are there; the manifest names the current ones
    OUT/_views/TABLE/NUMBER/        hard links to the files that are current together
    OUT/TABLE                       a symbolic link to one view, replaced in one step

Rule 1: a name is never used for other content. A reader that took its files from a listing reads these files or finds
one missing. It never reads half a table, and no row twice.
Rule 2: a file or view that is no longer current stays for GRACE_S. Readers that use the manifest finish with it.

Nothing is hidden by its name: polars and DuckDB read files whose names begin with `_` or a dot.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from plait_core import PlaitError

FILES: Final = "_files"
VIEWS: Final = "_views"
PAGES: Final = "_pages"
PARTIAL: Final = "_partial"
"""Folder of files that are being written. It is outside of every table's directory."""

GRACE_S: Final = 60.0
"""Seconds that replaced files stay. A read of one table takes seconds, also by Spark."""


class LakeError(PlaitError):
    """A directory whose tables cannot be used."""


class TableDirectories:
    """The directories of tables below OUT."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def refuse_others(self, tables: Collection[str]) -> None:
        """Raise LakeError if the place of a table's directory is taken by something else."""
        for table in tables:
            path = self.directory / table
            if path.exists() and not path.is_symlink():
                raise LakeError(f"{path} was not made by this version of plait analyze", hint="give another --out")

    def show(self, files: Mapping[str, Sequence[str]], now_s: float) -> None:
        """Make each table's directory show exactly these files, given relative to OUT.

        One more file is linked into the current view; any other change is a new view. So a listing has all files of
        before or all files of now.
        """
        for table, paths in files.items():
            wanted = {Path(path).name: self.directory / path for path in paths}
            view = self._view(table)
            shown = {path.name for path in view.iterdir()} if view is not None else set()
            fresh = wanted.keys() - shown
            if view is not None and shown <= wanted.keys() and len(fresh) <= 1:
                for name in fresh:
                    _link(wanted[name], view / name, self.directory / PARTIAL)
                continue
            self._replace_view(table, wanted, view, now_s)

    def supersede(self, paths: Collection[str], now_s: float) -> None:
        """Begin the grace time of files that the manifest names no longer."""
        for path in paths:
            _date(self.directory / path, now_s)

    def forget(self, current: Collection[str], now_s: float) -> None:
        """Delete the files and views of tables that are not current and whose grace time is over."""
        kept = {self.directory / path for path in current}
        for path in _children(self.directory / FILES, self.directory / PAGES):
            if path not in kept and _age_s(path, now_s) > GRACE_S:
                path.unlink(missing_ok=True)
        for view in _children(self.directory / VIEWS):
            if view != self._view(view.parent.name) and _age_s(view, now_s) > GRACE_S:
                shutil.rmtree(view, ignore_errors=True)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _view(self, table: str) -> Path | None:
        """Return the current view of a table."""
        try:
            view = self.directory / os.readlink(self.directory / table)
        except OSError:
            return None
        return view if view.is_dir() else None

    def _replace_view(self, table: str, wanted: Mapping[str, Path], before: Path | None, now_s: float) -> None:
        views = self.directory / VIEWS / table
        views.mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(path.name) for path in views.iterdir() if path.name.isdigit()), default=0)
        (views / str(number)).mkdir()
        for name, path in wanted.items():
            _link(path, views / str(number) / name, self.directory / PARTIAL)
        link = self.directory / PARTIAL / table
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(Path(VIEWS) / table / str(number), target_is_directory=True)
        os.replace(link, self.directory / table)
        if before is not None:
            _date(before, now_s)


def _link(path: Path, place: Path, partial: Path) -> None:
    """Give a file a second name. A file system without hard links gets a copy."""
    try:
        os.link(path, place)
    except FileExistsError:
        return
    except OSError:
        partial.mkdir(exist_ok=True)
        shutil.copy2(path, partial / place.name)
        os.replace(partial / place.name, place)


def _children(*directories: Path) -> Iterator[Path]:
    """Yield what the folders of tables in some directories hold."""
    for directory in directories:
        for table in directory.iterdir() if directory.is_dir() else ():
            yield from table.iterdir()


def _age_s(path: Path, now_s: float) -> float:
    try:
        return now_s - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _date(path: Path, now_s: float) -> None:
    try:
        os.utime(path, (now_s, now_s))
    except FileNotFoundError:
        return
