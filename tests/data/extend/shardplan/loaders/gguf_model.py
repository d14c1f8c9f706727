"""A made-up loader: the metadata of a GGUF file, written as YAML."""

from __future__ import annotations

from shardplan.source import Document, build
from shardplan.spec import Architecture, Count
from shardplan.spec.scalars import Input

EXAMPLE = """\
general.architecture: llama
embedding_length: 64
block_count: 2
feed_forward_length: 256
head_count: 4
head_count_kv: 2
vocab_size: 128
"""


class Metadata(Input):
    """Sizes of a Llama-like model."""

    embedding_length: Count
    block_count: Count
    feed_forward_length: Count
    head_count: Count
    head_count_kv: Count
    vocab_size: Count


def recognises(document: Document) -> bool:
    """Whether a document has GGUF's keys."""
    return isinstance(document.value, dict) and "general.architecture" in document.value


def read(document: Document, name: str) -> Architecture:
    """The architecture that the metadata describes."""
    sizes = {key: value for key, value in document.value.items() if not key.startswith("general.")}
    m = build(Metadata, Document(sizes, document.name, document.marks))
    attention = {
        "n_query_heads": m.head_count,
        "n_key_value_heads": m.head_count_kv,
        "head_width": m.embedding_length // m.head_count,
    }
    group = {"count": m.block_count, "attention": attention, "feed_forward": {"width": m.feed_forward_length}}
    architecture = {"name": name, "model_width": m.embedding_length, "vocab_size": m.vocab_size, "layer_groups": [group]}
    return build(Architecture, Document(architecture, document.name))
