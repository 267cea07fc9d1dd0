"""A package's door that opens when somebody knocks (PEP 562): a name is imported when it is first asked for.

The whole language is thirty files and numpy; a command that checks one filter needs eight of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def lazy_exports(
    package: str, homes: Mapping[str, Iterable[str]], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package: `homes` says which names are imported from which module.

    What was found stays in the package, so each name is looked up once.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    rooms = frozenset(submodules)
    inside = vars(sys.modules[package])

    def find(name: str) -> object:
        if name in rooms:
            return import_module(f"{package}.{name}")  # which also leaves it in the package
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        value = inside[name] = getattr(import_module(home_of[name], package), name)
        return value

    def listed() -> list[str]:
        return sorted({*inside, *home_of, *rooms})

    return find, listed
