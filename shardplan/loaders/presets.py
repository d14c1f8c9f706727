"""An architecture by reference: the name of a preset, or a path to a file in any format a model is described in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shardplan.data import model_configs_folder, names
from shardplan.errors import Diagnostic, InputError, suggest
from shardplan.loaders import model_formats
from shardplan.source import Document, build, read_document
from shardplan.spec import Architecture

if TYPE_CHECKING:
    from shardplan.errors import Mark

_SUFFIXES = (".json", ".yml", ".yaml")


def architecture_names() -> list[str]:
    """The presets' names, sorted."""
    return names(model_configs_folder())


def load_architecture(reference: str, mark: Mark | None = None, folder: Path | None = None) -> Architecture:
    """The architecture of a preset, a Hugging Face config.json, a MaxText model yml or a shardplan architecture file.

    A reference with a slash or the suffix of a file is a path, relative to `folder`; any other is the name of a preset,
    in any case. Raises InputError, at `mark` where the reference itself is at fault.
    """
    if "/" in reference or "\\" in reference or reference.lower().endswith(_SUFFIXES):
        path = (folder or Path()) / Path(reference).expanduser()
        return read_architecture(read_document(_config_of(path)))
    known = {name.lower(): name for name in architecture_names()}
    if reference.lower() not in known:
        near = suggest(reference, known)
        hint = f"{near} `shardplan models` lists them all" if near else "`shardplan models` lists the presets"
        message = f"unknown model {reference[:60]!r}: neither a preset nor a path"
        raise InputError([Diagnostic("SP014", message, mark, hint)])
    return build(Architecture, read_document(model_configs_folder() / f"{known[reference.lower()]}.yaml"))


def read_architecture(document: Document) -> Architecture:
    """The architecture a document describes, in whichever format it is written; by default shardplan's own."""
    name = _name_of(Path(document.name))
    for form in model_formats():
        if form.recognises(document):
            return form.read(document, name)
    architecture = build(Architecture, document)
    named = isinstance(document.value, dict) and "name" in document.value
    return architecture if named else architecture.model_copy(update={"name": name})


def _config_of(path: Path) -> Path:
    """The path itself, or the config.json of a checkpoint's folder."""
    inside = path / "config.json"
    return inside if inside.is_file() else path


def _name_of(path: Path) -> str:
    """What to call a model: its file, or the folder of a file that is called config."""
    return (path.parent.name if path.stem == "config" and path.parent.name else path.stem)[:200] or "model"
