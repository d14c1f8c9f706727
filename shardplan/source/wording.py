"""Words for what pydantic expected and what a person wrote instead."""

from __future__ import annotations

from typing import Any, Final

_WHOLE: Final = "a whole number"
_LIST: Final = "a list"
_MAPPING: Final = "a mapping"

EXPECTED_TYPES: Final = {
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "none_required": "null",
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dataclass_type": _MAPPING,
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
}
"""pydantic's error types that say "wrong type", with the type that would be right."""

RANGES: Final = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "finite_number": "must be a finite number",
    "int_parsing_size": "must be a number of reasonable size",
    "too_short": "needs at least {min_length} items",
    "too_long": "takes at most {max_length} items",
    "string_too_short": "needs at least {min_length} characters",
    "string_too_long": "takes at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
}
"""pydantic's error types that say "out of range", with the range."""


def range_text(kind: str, ctx: dict[str, Any], value: Any) -> str:
    """The range a value misses, and the value."""
    bounds = {key: f"{bound:,}" if isinstance(bound, int) else bound for key, bound in ctx.items()}
    text = RANGES[kind].format(**bounds)
    singular = text.endswith((" 1 items", " 1 characters"))
    return f"{text.removesuffix('s') if singular else text}, found {found(value)}"


def found(value: Any) -> str:
    """A value of a document as a person would name it, shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _shortened(repr(value))
    if isinstance(value, str):
        return f"text {_shortened(repr(value))}"
    if isinstance(value, dict):
        return f"a mapping with {_shortened(', '.join(map(str, value)))}" if value else "an empty mapping"
    return f"a list of {len(value)}" if isinstance(value, list) else _shortened(repr(value))


def _shortened(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit - 15]}...{text[-10:]}"
