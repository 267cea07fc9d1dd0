"""Read configuration: tables of a TOML document. Each value is checked once; each error names file, key and hint.

Values may come from the file, the environment or the command line, and an error names the place to correct. An error
never contains a value, which might be a secret.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from plait_core.errors import PlaitError

Table: TypeAlias = dict[str, Any]
KeyPath: TypeAlias = tuple[str, ...]
_T = TypeVar("_T")

TEXT_MAX: Final = 4096
"""Characters of a name, an address or a path: PATH_MAX."""

SECRET_FILE_BYTES_MAX: Final = 4096
SECRET_MIN, SECRET_MAX = 8, 1024
"""Characters of a token. Shorter ones can be guessed; longer ones do not fit the first frame of a connection."""


class ConfigurationError(PlaitError):
    """An invalid configuration. `source` is the file, variable or option to correct, `key` the key in it."""

    def __init__(self, message: str, *, source: str = "", key: str = "", hint: str = "") -> None:
        super().__init__(": ".join(part for part in (source, key, message) if part), hint=hint)
        self.source = source
        self.key = key


class Origin:
    """The source of each value: the file, unless a variable or an option overrides it."""

    def __init__(self, file: Path | None, environment: Mapping[str, str]) -> None:
        self.file = file
        self.environment = environment
        self._overridden: dict[KeyPath, str] = {}

    def override(self, path: KeyPath, by: str) -> None:
        """Note that `by` gave the value of this key and of all keys below it."""
        self._overridden[path] = by

    def of(self, path: KeyPath) -> str:
        """Return the source to correct if the value of this key is wrong."""
        by = self.overridden(path)
        return by if by is not None else (str(self.file) if self.file is not None else "configuration")

    def overridden(self, path: KeyPath) -> str | None:
        """Return the variable or option that gave this key, if one did."""
        heads = (path[:length] for length in range(len(path), 0, -1))
        return next((self._overridden[head] for head in heads if head in self._overridden), None)

    def located(self, path: KeyPath, text: str) -> Path:
        """Return an absolute path: in a file, relative to that file's directory."""
        home = self.file.absolute().parent if self.file is not None and self.overridden(path) is None else Path.cwd()
        return home / Path(text).expanduser()


class ConfigSection:
    """One table. Read every key that may be there, then call `finish`, which rejects the others."""

    def __init__(self, table: Table, origin: Origin, path: KeyPath = ()) -> None:
        self._table = table
        self._origin = origin
        self._path = path
        self._known: dict[str, None] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def error(self, key: str | None, message: str, hint: str = "") -> ConfigurationError:
        """Return an error about a key, or about the whole section if `key` is None."""
        path = self._path if key is None else (*self._path, key)
        return ConfigurationError(message, source=self._origin.of(path), key=_shown(path), hint=hint)

    def text(self, key: str) -> str | None:
        """Return a text that is not empty."""
        value = self._take(key, str, "a text in quotes")
        if value is not None and not (0 < len(value) <= TEXT_MAX and value.isprintable()):
            raise self.error(key, f"is a text of 1 to {TEXT_MAX} printable characters")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts."""
        value = self._take(key, list, "a list of texts")
        if value is not None and not all(type(item) is str for item in value):
            raise self.error(key, "is a list of texts, each in quotes")
        return None if value is None else tuple(value)

    def flag(self, key: str) -> bool | None:
        """Return true or false."""
        return self._take(key, bool, "true or false")

    def whole(self, key: str, least: int, greatest: int) -> int | None:
        """Return a whole number."""
        value = self._take(key, int, "a whole number")
        if value is not None and not least <= value <= greatest:
            raise self.error(key, f"is between {least:,} and {greatest:,}")
        return value

    def number(self, key: str, least: float, greatest: float) -> float | None:
        """Return a number, whole or not."""
        if type(self._table.get(key)) is int:
            return self.whole(key, math.ceil(least), math.floor(greatest))
        value = self._take(key, float, "a number")
        if value is not None and not least <= value <= greatest:
            raise self.error(key, f"is between {least:g} and {greatest:g}")
        return value

    def path(self, key: str) -> Path | None:
        """Return a path."""
        text = self.text(key)
        return None if text is None else self._origin.located((*self._path, key), text)

    def file(self, key: str) -> Path | None:
        """Return the path of a file that can be read now."""
        path = self.path(key)
        if path is not None:
            try:
                with path.open("rb"):
                    pass
            except (OSError, ValueError) as error:
                raise self._unreadable(key, path, error) from None
        return path

    def secret(self, name: str) -> str | None:
        """Return a token, given as `name`, in a file as `name_file`, or in a variable as `name_env`."""
        given = [key for key in (name, f"{name}_file", f"{name}_env") if self._knows(key)]
        if not given:
            return None
        if len(given) > 1:
            raise self.error(given[1], f"and {given[0]} are both given", hint="give one of them")
        key = given[0]
        if key == name:
            token = self._take(key, str, "a text in quotes") or ""
        elif key.endswith("_file"):
            token = self._read_secret(key)
        else:
            variable = self.text(key) or ""
            token = self._origin.environment.get(variable, "")
            if not token:
                raise self.error(key, f"the environment has no {variable}", hint="an empty token is not accepted")
        token = token.strip("\r\n")
        if not (
            SECRET_MIN <= len(token) <= SECRET_MAX and token.isascii() and token.isprintable() and " " not in token
        ):
            raise self.error(
                key,
                f"a token is {SECRET_MIN} to {SECRET_MAX} printable ASCII characters without a space",
                hint="openssl rand -base64 24 makes one",
            )
        return token

    def section(self, key: str) -> ConfigSection | None:
        """Return a table below."""
        table = self._take(key, dict, f"a table, written [{_shown((*self._path, key))}]")
        return None if table is None else ConfigSection(table, self._origin, (*self._path, key))

    def sections(self, key: str) -> list[ConfigSection] | None:
        """Return a list of tables below."""
        shown = _shown((*self._path, key))
        tables = self._take(key, list, f"a list of tables, each begun by [[{shown}]]")
        if tables is None:
            return None
        if not all(type(table) is dict for table in tables):
            raise self.error(key, f"is a list of tables, each begun by [[{shown}]]")
        return [
            ConfigSection(table, self._origin, (*self._path, f"{key}[{number}]"))
            for number, table in enumerate(tables, 1)
        ]

    def finish(self) -> None:
        """Reject every key that was not read."""
        for key in self._table:
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, 1)
                hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(self._known)}"
                raise self.error(key[:64], "is not a known key here", hint)

    def _knows(self, key: str) -> bool:
        self._known[key] = None
        return key in self._table

    def _take(self, key: str, kind: type[_T], called: str) -> _T | None:
        """Return the value, or None without one. TOML has no null, and a bool is no number."""
        if not self._knows(key):
            return None
        value = self._table[key]
        if not isinstance(value, kind) or type(value) is not kind:
            raise self.error(key, f"is not {called}")
        return value

    def _read_secret(self, key: str) -> str:
        path = self.path(key)
        assert path is not None, "the caller checked that the key exists"
        try:
            with path.open("rb") as file:
                return file.read(SECRET_FILE_BYTES_MAX).decode("ascii", errors="replace")
        except (OSError, ValueError) as error:
            raise self._unreadable(key, path, error) from None

    def _unreadable(self, key: str, path: Path, error: Exception) -> ConfigurationError:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is no path"
        return self.error(key, f"{path} cannot be read: {why}", hint="give the path of a file that this user may read")


def override(table: Table, path: KeyPath, value: object) -> None:
    """Set a value deep inside a table, and create the tables on the way."""
    for key in path[:-1]:
        inner = table.get(key)
        if not isinstance(inner, dict):
            inner = table[key] = {}
        table = inner
    table[path[-1]] = value


def remove(table: Table, head: KeyPath, keys: Sequence[str]) -> None:
    """Delete values deep inside a table, where they exist."""
    inner: object = table
    for key in head:
        inner = inner.get(key) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        for key in keys:
            inner.pop(key, None)


def _shown(path: KeyPath) -> str:
    """Return a key for a message: one line of printable characters."""
    return "".join(character if character.isprintable() else "?" for character in ".".join(path))
