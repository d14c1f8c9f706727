"""A model described elsewhere that MaxText ships: found by its structure, so that it is launched by MaxText's own name.

Two architectures are the same model if every layer is: names, remarks and the padding of the vocabulary do not count, nor
does which axis splits normalisation scales, which MaxText's model file decides.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from shardplan.data import model_configs_folder, names
from shardplan.loaders.huggingface_carried import lost_scaling
from shardplan.maxtext.tables import table
from shardplan.source import build, read_document, read_text
from shardplan.spec import Architecture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OWN = frozenset({"name", "notes", "maxtext_model_name", "maxtext_keys", "vocab_size", "norm_axis"})
"""What may differ between a model and its twin."""


def with_maxtext_name(architecture: Architecture) -> Architecture:
    """The architecture with the `model_name` MaxText has for it and the keys that differ; unchanged if it has none."""
    wanted = architecture.model_dump(exclude=set(_OWN))
    twins = [twin for twin in _presets(architecture) if twin.model_dump(exclude=set(_OWN)) == wanted]
    if not twins:
        return architecture

    def distance(twin: Architecture) -> tuple[int, float]:
        return len(_differing(architecture, twin)), -SequenceMatcher(None, architecture.name.lower(), twin.name).ratio()

    twin = min(twins, key=distance)
    scaling = table().models[str(twin.maxtext_model_name)].get("rope_type", "default")
    notes = [note for note in architecture.notes if note != lost_scaling(scaling)]
    same = f"MaxText ships this model: launched as model_name={twin.maxtext_model_name}"
    changes = {
        "maxtext_model_name": twin.maxtext_model_name,
        "maxtext_keys": tuple(_differing(architecture, twin).items()),
        "norm_axis": twin.norm_axis,
        "notes": (*notes, same),
    }
    return architecture.model_copy(update=changes)


def _presets(architecture: Architecture) -> Iterator[Architecture]:
    """The presets of that width that MaxText knows; files are read in full only where their text has the width."""
    folder = model_configs_folder()
    width = re.compile(rf"^model_width: {architecture.model_width}\b", re.MULTILINE)
    for name in names(folder):
        path = folder / f"{name}.yaml"
        if width.search(read_text(path)):
            preset = build(Architecture, read_document(path))
            if preset.maxtext_model_name == name:
                yield preset


def _differing(architecture: Architecture, twin: Architecture) -> dict[str, Any]:
    """The MaxText keys with which the twin becomes the architecture."""
    known = table()
    assert twin.maxtext_model_name is not None, "only presets with a name are twins"
    own: Mapping[str, Any] = known.models[twin.maxtext_model_name]
    defaults = {"rope_max_timescale": 10_000, "normalization_layer_epsilon": 1e-5, "rope_type": "default"}
    asked = {**dict(architecture.maxtext_keys), "vocab_size": architecture.vocab_size}
    return {key: value for key, value in asked.items() if own.get(key, defaults.get(key)) != value}
