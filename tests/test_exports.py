"""Packages have one public door: `__all__` names everything public that the door imports, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import plait_core

DOORS = [
    "plait_core",
    *(f"plait_core.{module.name}" for module in pkgutil.iter_modules(plait_core.__path__) if module.ispkg),
]


@pytest.mark.parametrize("name", DOORS)
def test_all_names_what_the_door_imports(name: str) -> None:
    door = importlib.import_module(name)
    public = {
        found
        for found, value in vars(door).items()
        if not found.startswith("_") and not isinstance(value, ModuleType) and found != "annotations"
    }
    assert sorted(door.__all__) == sorted(public)


@pytest.mark.parametrize("name", DOORS)
def test_what_is_exported_is_documented(name: str) -> None:
    door = importlib.import_module(name)
    for exported in door.__all__:
        value = getattr(door, exported)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{name}.{exported} says nothing about itself"
