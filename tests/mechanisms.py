"""Mechanisms of the cost model: the functions and constants that its modules define, and the model without one of them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan.cost import calibration
from shardplan.cost.term import Term

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def defined(package: str, *classes: type) -> dict[str, Any]:
    """What the modules of a package define for others, by `module.name`, and members of some classes, by `Class.name`."""
    found: dict[str, Any] = {}
    for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        module = importlib.import_module(info.name)
        place = info.name.rpartition(".")[2]
        names = [name for node in ast.parse(inspect.getsource(module)).body for name in _names(node)]
        found |= {f"{place}.{name}": getattr(module, name) for name in names if not name.startswith("_")}
    for owner in classes:
        members = {k: v for k, v in vars(owner).items() if not k.startswith("_") and _is_code(v)}
        found |= {f"{owner.__name__}.{name}": member for name, member in members.items()}
    return {name: value for name, value in found.items() if not isinstance(value, str)}


def _names(node: ast.stmt) -> list[str]:
    """The function or the upper-case constants that a statement of a module defines; no types and no aliases."""
    match node:
        case ast.FunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            names = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
            return [name for name in names if name.isupper()]
        case ast.AnnAssign(target=ast.Name(id=name)) if name.isupper():
            return [name]
        case _:
            return []


def _is_code(member: object) -> bool:
    return isinstance(member, property | cached_property | classmethod) or inspect.isfunction(member)


def is_formula(value: Any) -> bool:
    """Whether it is a function of single letters."""
    if not inspect.isfunction(value):
        return False
    letters = inspect.signature(value).parameters
    return bool(letters) and all(re.fullmatch(r"[A-Za-z](_[a-z])?", letter) for letter in letters)


def switch_off(name: str, original: Any, off: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put something else in the place of a mechanism, wherever it was imported; None for what adds nothing."""
    owner, _, attribute = name.partition(".")
    if isinstance(original, property | cached_property) or owner[0].isupper():
        function = original.fget if isinstance(original, property) else getattr(original, "func", original)
        empty = without(function)
        owners = {cls for module in _modules() for cls in vars(module).values() if isinstance(cls, type)}
        (cls,) = (cls for cls in owners if cls.__name__ == owner and vars(cls).get(attribute) is original)
        monkeypatch.setattr(cls, attribute, empty if inspect.isfunction(original) else property(empty))
        return
    value = off if off is not None else without(original) if callable(original) else nothing(original)
    for module in _modules():
        if vars(module).get(attribute) is original:
            monkeypatch.setattr(module, attribute, value)


def _modules() -> list[Any]:
    return [module for name, module in list(sys.modules.items()) if name.startswith("shardplan.")]


def forget() -> None:
    """Drop constants that were read from the calibration files."""
    for value in vars(calibration).values():
        if hasattr(value, "cache_clear") and value is not calibration.calibration_file:
            value.cache_clear()


def without(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose result adds nothing."""
    return lambda *args, **more: nothing(function(*args, **more))


def nothing(value: Any) -> Any:
    """What is left of a result or a constant that adds nothing: no parts, zeros, False, None."""
    if value is None or isinstance(value, np.ndarray):
        return None if value is None else np.zeros_like(value)
    match value:
        case (str(), Term() as term):
            return value[0], Term(term.name, lambda: 0.0, {})
        case [(str(), Term()), *_]:
            return type(value)()
        case dict():
            return {key: nothing(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(nothing(each) for each in value)
    return type(value)()
