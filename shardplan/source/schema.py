"""What a record type knows: the keys at a place, and the choices of a field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from shardplan.source.document import Key


def known_keys(model: type[BaseModel], loc: tuple[Key, ...]) -> dict[str, str | None]:
    """The keys of the records that may stand at a place, each with the first sentence of its description."""
    annotations: list[Any] = [model]
    for step in loc:
        # A step that no annotation knows is pydantic's name for a member of a union.
        annotations = [inner for outer in annotations for inner in _inside(outer, step)] or annotations
    keys: dict[str, str | None] = {}
    for record in (record for annotation in annotations for record in _records(annotation)):
        for name, field in record.model_fields.items():
            sentence = field.description.split("\n")[0] if field.description else None
            keys[field.alias or name] = keys.get(field.alias or name) or sentence
    return keys


def choices(expected: str) -> tuple[str, ...]:
    """The single choices, quoted as pydantic wrote them, of its "'a', 'b' or 'c'"."""
    return tuple(re.findall(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s,]+", re.sub(r"\s+or\s+(?=\S+$)", ", ", expected)))


def _records(annotation: Any) -> Iterator[type[BaseModel]]:
    """The record types among the members of an annotation."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        yield annotation
    elif get_origin(annotation) not in {tuple, list, dict, set, frozenset}:
        for member in get_args(annotation):
            yield from _records(member)


def _inside(annotation: Any, step: Key) -> Iterator[Any]:
    """The annotations of what an annotation holds at a key or an index."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        for name, field in annotation.model_fields.items():
            if step in {name, field.alias}:
                yield field.annotation
    elif (origin := get_origin(annotation)) in {tuple, list, set, frozenset}:
        yield from (member for member in get_args(annotation) if isinstance(step, int) and member is not Ellipsis)
    elif origin is dict:
        yield get_args(annotation)[1]
    else:
        for member in get_args(annotation):
            yield from _inside(member, step)
