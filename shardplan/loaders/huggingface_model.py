"""Hugging Face config.json to an Architecture, by model_type; of a multimodal model the text decoder.

What a config.json leaves out has the default of its family, as in Transformers. Layers that cannot be planned are
refused by kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.errors import Diagnostic, InputError
from shardplan.loaders.huggingface_carried import carried, not_carried
from shardplan.loaders.huggingface_decoder import Decoder, HuggingFaceConfig
from shardplan.loaders.huggingface_families import FAMILIES, SAME_AS
from shardplan.loaders.huggingface_unsupported import (
    LAYER_KINDS,
    LAYER_LISTS,
    SOFTMAX_KINDS,
    TELLING_KEYS,
    UNSUPPORTED,
    is_softmax_only,
    seeming,
)
from shardplan.loaders.maxtext_twin import with_maxtext_name
from shardplan.loaders.patterns import layer_groups
from shardplan.source import Document, build
from shardplan.spec import Architecture

if TYPE_CHECKING:
    from shardplan.source.document import Path

TEXT_KEYS = ("text_config", "language_config", "llm_config")
"""Keys under which multimodal configurations keep their text decoder."""


EXAMPLE = """\
{"model_type": "llama", "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128}
"""


def recognises(document: Document) -> bool:
    """Whether a document looks like a config.json."""
    value = document.value
    return isinstance(value, dict) and any(key in value for key in ("model_type", "architectures", *TEXT_KEYS))


def read(document: Document, name: str) -> Architecture:
    """The architecture of a config.json, by the name MaxText has for it if it ships the model."""
    return with_maxtext_name(read_huggingface_config(document, name))


def read_huggingface_config(document: Document, name: str) -> Architecture:
    """The architecture of a config.json; raises InputError for layers that cannot be planned and for missing sizes."""
    at = _text_decoder(document)
    _refuse_unplannable(document, at)
    model_type = _model_type(document, at)
    config = build(HuggingFaceConfig, document, at)
    decoder = Decoder(config, FAMILIES[model_type], document, at)
    tied = _outer_tie(document) if at else None
    architecture = {
        "name": _name(document) or name,
        "model_width": decoder.size("hidden_size"),
        "vocab_size": decoder.size("vocab_size"),
        "tied_embeddings": tied if tied is not None else decoder.is_tied,
        "layer_groups": [{**group, "one_input": decoder.family.one_input} for group in layer_groups(decoder.layers())],
        "n_positions": decoder.size("max_position_embeddings") if decoder.family.has_positions else 0,
        "norm_bias": decoder.family.norm_bias,
        "maxtext_keys": tuple(carried(document, at).items()),
        "notes": (*_notes(config, document, at), *not_carried(document, at)),
    }
    return build(Architecture, Document(architecture, document.name))


# --- finding the text decoder, and refusing ----------------------------------------------------------------------------


def _text_decoder(document: Document) -> Path:
    """Path of the part that describes the text decoder."""
    assert isinstance(document.value, dict), "recognises comes first"
    for key in TEXT_KEYS:
        inner = document.value.get(key)
        if isinstance(inner, dict):
            return (key,)
        if inner is not None:
            message = f"{key}: expected the configuration of the text decoder"
            raise InputError([Diagnostic("SP012", message, document.mark((key,)))])
    return ()


def _model_type(document: Document, at: Path) -> str:
    """The family of the text decoder; raises InputError if it is missing or unknown."""
    inner, outer = document.at(at).get("model_type"), document.value.get("model_type")
    model_type = outer if inner is None else inner
    where = ("model_type",) if inner is None else (*at, "model_type")
    if model_type is None:
        hint = "config.json files name their family there, such as llama or qwen3_moe"
        raise InputError([Diagnostic("SP011", "missing key 'model_type'", document.mark(()), hint)])
    if not isinstance(model_type, str):
        raise InputError([Diagnostic("SP012", "model_type: expected text", document.mark(where))])
    family = SAME_AS.get(model_type, model_type)
    if family not in FAMILIES:
        hint = f"{seeming(document.at(at))}; if that is all, write the model inline (docs/input.md, Architecture)"
        message = f"unknown model_type {model_type[:60]!r}: what its layers are made of is not known here"
        raise InputError([Diagnostic("SP014", message, document.mark(where), hint)])
    return family


def _refuse_unplannable(document: Document, at: Path) -> None:
    """Raise InputError if the model has layers of a kind that cannot be planned, naming it."""
    found: list[Diagnostic] = []
    for path in dict.fromkeys(((), at)):
        part = document.at(path)
        kind = None if is_softmax_only(part) else UNSUPPORTED.get(str(part.get("model_type")))
        if kind:
            message = f"model_type {part['model_type']}: {kind} cannot be planned"
            found.append(Diagnostic("SP015", message, document.mark((*path, "model_type"))))
        for key, what in TELLING_KEYS.items():
            if part.get(key) and not kind and not (key in LAYER_LISTS and is_softmax_only(part)):
                found.append(Diagnostic("SP015", f"{key}: {what} cannot be planned", document.mark((*path, key))))
    types = document.at(at).get("layer_types")
    for i, kind in enumerate(types if isinstance(types, list) and not found else ()):
        if isinstance(kind, str) and kind not in SOFTMAX_KINDS:
            what = LAYER_KINDS.get(kind, f"layers of kind {kind[:60]!r}")
            found.append(
                Diagnostic("SP015", f"layer_types: {what} cannot be planned", document.mark((*at, "layer_types", i)))
            )
            break
    if found:
        raise InputError(found)


def _outer_tie(document: Document) -> bool | None:
    """What the outer configuration of a multimodal model says of tied embeddings."""
    tied = document.value.get("tie_word_embeddings")
    return tied if isinstance(tied, bool) else None


def _name(document: Document) -> str | None:
    given = document.value.get("_name_or_path")
    return given.rstrip("/").rpartition("/")[2][:200] or None if isinstance(given, str) else None


def _notes(config: HuggingFaceConfig, document: Document, at: Path) -> list[str]:
    notes = []
    if at or "vision_config" in document.value:
        notes.append("only the text decoder of this multimodal model is planned")
    if config.num_nextn_predict_layers:
        n = config.num_nextn_predict_layers
        notes.append(f"num_nextn_predict_layers {n} is left out, as Transformers and MaxText's default do")
    return notes
