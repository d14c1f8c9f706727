"""The base of every record people write: frozen, no unknown keys, no coercion of scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_SCALARS: Final = frozenset({"int", "float", "bool", "str"})


def _strict_scalars(schema: Any) -> Any:
    if isinstance(schema, dict):
        strict = {"strict": True} if schema.get("type") in _SCALARS else {}
        return {key: _strict_scalars(value) if key != "default" else value for key, value in schema.items()} | strict
    if isinstance(schema, list):
        return [_strict_scalars(item) for item in schema]
    return schema


class Record(BaseModel):
    """A frozen record; `true` is no number, `"3"` is not 3, 3.0 is not 3, but 3 is a number where 3.0 is.

    Lists of a document become tuples and sets as fields say; only scalars are strict.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema pydantic would make, with strict scalars."""
        schema: CoreSchema = _strict_scalars(handler(source))
        return schema
