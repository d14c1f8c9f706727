"""Everything people hand to shardplan, as records; a module `<format>_model` reads models of that format and is found here."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.source import Document
    from shardplan.spec import Architecture


@runtime_checkable
class ModelFormat(Protocol):
    """What a module that reads models has."""

    EXAMPLE: str
    """The smallest file of the format, as JSON or YAML: what the tests of every format read."""

    @staticmethod
    def recognises(document: Document, /) -> bool:
        """Whether a document is of this format and no other."""

    @staticmethod
    def read(document: Document, name: str, /) -> Architecture:
        """The architecture a document describes, called `name` unless it says otherwise; InputError with all that is wrong."""


def model_formats() -> Iterator[ModelFormat]:
    """The formats there are, by their modules, sorted by name; each is imported when its turn comes."""
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        if name.endswith("_model"):
            module = import_module(f"{__name__}.{name}")
            assert isinstance(module, ModelFormat), f"loaders/{name} lacks EXAMPLE, recognises or read"
            yield module
