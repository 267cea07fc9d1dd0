"""Saved addresses: a JSON file in the user's configuration directory, readable by the user alone, for it holds tokens.

`$XDG_CONFIG_HOME/plait/contexts.json`, by default `~/.config/plait/contexts.json`. Replaced as a whole, atomically.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..terminal.failures import Failure
from ..terminal.interrupts import interruptible


@dataclass(frozen=True, slots=True)
class Context:
    """One broker: its URL, its HTTP side and its token where they are known."""

    url: str
    http: str | None = None
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    """A file with the authority of its certificate."""
    certificate: str | None = None
    key: str | None = None


@dataclass(slots=True)
class Contexts:
    """All of them, and the one in use."""

    saved: dict[str, Context] = field(default_factory=dict)
    current: str | None = None

    @property
    def in_use(self) -> Context | None:
        return self.saved.get(self.current) if self.current else None


def contexts_file() -> Path:
    """Where they are saved."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "plait" / "contexts.json"


def load_contexts() -> Contexts:
    """What is saved; nothing if there is no file."""
    path = contexts_file()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError) as error:
        raise Failure(f"the saved contexts cannot be read: {error}", hint=f"see {path}") from None
    try:
        return _read(json.loads(text))
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise Failure(f"{path} is damaged: {error!r}", hint="repair or remove it") from None


def save_contexts(contexts: Contexts) -> None:
    """Replaces what is saved."""
    path = contexts_file()
    written = {
        "current": contexts.current,
        "contexts": {
            name: {key: value for key, value in asdict(context).items() if value is not None}
            for name, context in sorted(contexts.saved.items())
        },
    }
    interruptible()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".contexts-")  # mode 0600 from the start
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(written, file, indent=2, ensure_ascii=False)
                file.write("\n")
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Failure(f"the contexts cannot be saved: {error}", hint=f"see {path.parent}") from None


def _read(written: Any) -> Contexts:
    saved = {str(name): Context(**fields) for name, fields in written["contexts"].items()}
    for name, context in saved.items():
        for value in asdict(context).values():
            if not isinstance(value, str | None) or context.url is None:
                raise TypeError(f"the context {name} has a value that is no text")
    current = written.get("current")
    return Contexts(saved, current if current in saved else None)
