"""Lazy package exports (PEP 562): a name is imported at its first use.

The whole of plait_core is eighty files and numpy; a command that checks one filter needs eight of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def lazy_exports(
    package: str, exports: Mapping[str, Iterable[str]], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package. `exports` lists the names that each module defines.

    A name that was found is stored in the package, so each is looked up once.
    """
    module_of = {name: module for module, names in exports.items() for name in names}
    submodule_names = frozenset(submodules)
    namespace = vars(sys.modules[package])

    def find(name: str) -> object:
        if name in submodule_names:
            return import_module(f"{package}.{name}")  # the import also stores it in the package
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        value = namespace[name] = getattr(import_module(module_of[name], package), name)
        return value

    def listed() -> list[str]:
        return sorted({*namespace, *module_of, *submodule_names})

    return find, listed
