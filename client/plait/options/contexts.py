"""Saved addresses: a JSON file in the user's configuration directory, readable by the user alone since it has tokens.

`$XDG_CONFIG_HOME/plait/contexts.json`, by default `~/.config/plait/contexts.json`. Each change replaces it atomically.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import AddressInvalid, ConfigurationInvalid


@dataclass(frozen=True, slots=True)
class Context:
    """Address and credentials of one broker."""

    url: str
    http: str | None = None
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    """File with the authority of the broker's certificate."""
    certificate: str | None = None
    key: str | None = None


@dataclass(slots=True)
class Contexts:
    """All saved contexts, and the name of the one in use."""

    saved: dict[str, Context] = field(default_factory=dict)
    current: str | None = None

    def named(self, name: str, source: str = "") -> Context:
        """Return the context of this name. Raise AddressInvalid if there is none; `source` gave the name."""
        if name not in self.saved:
            known = ", ".join(sorted(self.saved)) or "none"
            by = f" (from {source})" if source else ""
            raise AddressInvalid(f"there is no context {name[:80]!r}{by}", hint=f"saved are: {known}")
        return self.saved[name]


def contexts_file() -> Path:
    """Return the path of the file."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "plait" / "contexts.json"


def load_contexts() -> Contexts:
    """Return the saved contexts; none if there is no file."""
    path = contexts_file()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError) as error:
        raise ConfigurationInvalid(f"the saved contexts cannot be read: {error}", hint=f"see {path}") from None
    try:
        return _read(json.loads(text))
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise ConfigurationInvalid(f"{path} is damaged: {error!r}", hint="repair or remove it") from None


def save_contexts(contexts: Contexts) -> None:
    """Replace the saved contexts."""
    path = contexts_file()
    content = {
        "current": contexts.current,
        "contexts": {
            name: {key: value for key, value in asdict(context).items() if value is not None}
            for name, context in sorted(contexts.saved.items())
        },
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".contexts-")  # mode 0600 from the start
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=2, ensure_ascii=False)
                file.write("\n")
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigurationInvalid(f"the contexts cannot be saved: {error}", hint=f"see {path.parent}") from None


def _read(content: Any) -> Contexts:
    saved = {str(name): Context(**fields) for name, fields in content["contexts"].items()}
    for name, context in saved.items():
        for value in asdict(context).values():
            if not isinstance(value, str | None) or context.url is None:
                raise TypeError(f"the context {name} has a value that is no text")
    current = content.get("current")
    return Contexts(saved, current if current in saved else None)
