"""Results for programs: JSON and YAML of the output types, keys in the order of the types, numbers unrounded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

ONE_A_LINE_FROM = 2
"""From so many results on, a JSON list has one result a line, for `grep`, `jq -c` and speed."""


def to_json(result: BaseModel | Sequence[BaseModel]) -> str:
    """A result as indented JSON; several as a list."""
    data = _data(result)
    if isinstance(data, list) and len(data) >= ONE_A_LINE_FROM:
        return "[" + ",\n ".join(_dump(item, indent=None) for item in data) + "]\n"
    return _dump(data, indent=2) + "\n"


def to_line(result: BaseModel) -> str:
    """A result as JSON on one line, without a newline."""
    return _dump(_data(result), indent=None)


def to_yaml(result: BaseModel | Sequence[BaseModel]) -> str:
    """A result as YAML; several as a list."""
    from shardplan.source import dump_yaml

    return dump_yaml(_data(result))


def _data(result: BaseModel | Sequence[BaseModel]) -> Any:
    if isinstance(result, (list, tuple)):
        return [item.model_dump(mode="json") for item in result]
    return result.model_dump(mode="json")  # type: ignore[union-attr]  # a sequence is a list or tuple here


def _dump(data: Any, *, indent: int | None) -> str:
    # Guard: NaN is not JSON; a result that holds one is our bug and must not reach a dashboard.
    return json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)
