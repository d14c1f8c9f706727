"""What a record type knows: the keys at a place, and the choices of a field."""

from __future__ import annotations

import ast
import re
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

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
        described = field_docstrings(record)
        for name, field in record.model_fields.items():
            sentence = described[name].split("\n")[0] if name in described else None
            keys[field.alias or name] = keys.get(field.alias or name) or sentence
    return keys


@cache
def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring under each field of a record type, inherited ones included.

    pydantic could read them when a type is made; reading source takes a tenth of a whole run, so it is done on demand.
    """
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if hasattr(owner, "model_fields") and owner.__module__.partition(".")[0] != "pydantic":
            (body,) = (node.body for node in ast.parse(dedent(getsource(owner))).body if isinstance(node, ast.ClassDef))
            for field, text in pairwise(body):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                        found[name] = cleandoc(words)
    return found


def json_schema(output: Any, mode: Literal["validation", "serialization"] = "validation") -> dict[str, Any]:
    """The JSON Schema of a type, with the docstrings of fields as their descriptions."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(output).json_schema(mode=mode)
    named = {record.__name__: record for record in _reachable(output)}
    definitions = {**schema.get("$defs", {}), schema.get("title", ""): schema}
    for name, definition in definitions.items():
        for field, text in field_docstrings(named[name]).items() if name in named else ():
            if field in definition.get("properties", {}):
                whole = {**definition["properties"][field], "description": text}
                definition["properties"][field] = dict(sorted(whole.items()))
    return schema


def _reachable(annotation: Any) -> set[type[BaseModel]]:
    """Record types an annotation holds, at any depth."""
    found: set[type[BaseModel]] = set()
    waiting = [annotation]
    while waiting:
        current = waiting.pop()
        if isinstance(current, type) and hasattr(current, "model_fields"):
            if current not in found:
                found.add(current)
                waiting += [field.annotation for field in current.model_fields.values()]
        else:
            waiting += get_args(current)
    return found


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
