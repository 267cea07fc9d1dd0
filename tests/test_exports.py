"""Packages have one public package: `__all__` names everything public that the package imports, and nothing else.

The doors of `plait`, `plait_core` and `plait_core.matching` import lazily (PEP 562). The imports for type checkers, the
names that `__getattr__` finds and `__all__` must be the same list.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import plait_core

LAZY = ["plait_core", "plait", "plait_core.matching"]
PACKAGES = [
    *LAZY,
    "plait_broker",
    "plait_analytics",
    "plait_peer",
    "plait_crypto",
    "plait_crypto.hazmat",
    "plait_crypto.keyserver",
    "plait_keyserver",
    *(f"plait_core.{module.name}" for module in pkgutil.iter_modules(plait_core.__path__) if module.ispkg),
]


def imported_for_type_checkers(package: ModuleType) -> dict[str, str]:
    """Return the names that the package imports under TYPE_CHECKING, each with the module it is imported from."""
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text())
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    found = {}
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        home = importlib.util.resolve_name("." * node.level + (node.module or ""), package.__name__)
        found |= {alias.asname or alias.name: home for alias in node.names}
    return found


@pytest.mark.parametrize("name", sorted({*PACKAGES} - {*LAZY}))
def test_all_lists_what_a_package_imports(name: str) -> None:
    package = importlib.import_module(name)
    public = {
        found
        for found, value in vars(package).items()
        if not found.startswith("_") and not isinstance(value, ModuleType) and found != "annotations"
    }
    assert sorted(package.__all__) == sorted(public)


@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_package_exports_what_it_declares_to_type_checkers(name: str) -> None:
    package = importlib.import_module(name)
    declared = imported_for_type_checkers(package)
    assert sorted(package.__all__) == sorted(declared)
    for found, home in declared.items():
        here = importlib.import_module(f"{name}.{found}") if home == name else None
        assert getattr(package, found) is (here or getattr(importlib.import_module(home), found))
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_package_imports_a_module_at_the_first_use_of_a_name(name: str) -> None:
    """Check in a new process: an import loads no module of the package, and `import *` loads all of them."""
    code = (
        f"import sys, {name} as package\n"
        f"early = [m for m in sys.modules if m.startswith('{name}.') and m != 'plait_core.lazy_exports']\n"
        "assert not early, early\n"
        "assert set(package.__all__) <= set(dir(package))\n"
        f"from {name} import *\n"
        "assert set(package.__all__) <= set(globals())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_package_has_no_other_names(name: str) -> None:
    package = importlib.import_module(name)
    with pytest.raises(AttributeError, match=rf"^module '{name}' has no attribute 'nothing_like_it'$"):
        _ = package.nothing_like_it
    with pytest.raises(ImportError):
        exec(f"from {name} import nothing_like_it", {})


@pytest.mark.parametrize("name", PACKAGES)
def test_every_export_is_documented(name: str) -> None:
    package = importlib.import_module(name)
    for exported in package.__all__:
        value = getattr(package, exported)
        if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
            assert inspect.getdoc(value), f"{name}.{exported} has no docstring"


def test_the_kernel_needs_no_numpy() -> None:
    """NumPy would be a third of the broker's image, which omits it, and a third of a broker's memory."""
    if plait_core.index_name() != "native":
        pytest.skip("the index in Python is made of numpy")
    code = (
        "import sys, plait, plait_keyserver, plait_peer.server, plait_broker.server.server, plait.commands.brokers.up\n"
        "from plait_core import new_index\n"
        "assert new_index() is not None and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
