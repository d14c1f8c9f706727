"""One key of MaxText's configuration: type, default, what a value other than the default means to shardplan; reading values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Effect = Literal["modelled", "architecture", "approximate", "refused", "ignored", "inert"]
"""modelled: resolved into a case. architecture: describes the model. approximate: accepted, priced as the default, noted.
refused: any value but the default cannot be modelled. ignored: MaxText accepts it without effect. inert: changes neither
memory, time nor sharding."""

MUON_BLOCKS: Final = frozenset(
    {"deepseek", "deepseek4", "qwen3", "qwen3_moe", "qwen3_custom_moe", "qwen3_next", "gpt_oss", "gemma3", "llama2"}
)
"""Decoder blocks whose weights MaxText knows how to feed to Muon. Source: configs/types.py; reference O2."""

_INT: Final = re.compile(r"[-+]?\d[\d_]{0,30}", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d{1,6})?", re.ASCII)
_WORDS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
} | dict.fromkeys(("null", "none", "~", ""))


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key."""

    effect: Effect
    kind: str | tuple[Any, ...]
    """bool, int, float, text, list, map or any, with `?` where null is allowed; or the tuple of choices."""
    default: Any


def parse(text: str) -> Any:
    """The value MaxText reads from the text after `key=`: YAML scalars; lists and mappings of scalars.

    Differs from YAML where it does not matter here: a nested or malformed list stays text.
    """
    stripped = text.strip()
    if stripped.lower() in _WORDS:
        return _WORDS[stripped.lower()]
    if len(stripped) >= 2 and stripped[0] == stripped[-1] and stripped[0] in "'\"":  # noqa: PLR2004
        return stripped[1:-1]
    if _INT.fullmatch(stripped):
        return int(stripped.replace("_", ""))
    if len(stripped) < 64 and _FLOAT.fullmatch(stripped):  # noqa: PLR2004
        return float(stripped.replace("_", ""))
    if stripped.startswith("[") and stripped.endswith("]"):
        inner = stripped[1:-1].strip()
        return [parse(part) for part in inner.split(",")] if inner else []
    return {} if stripped == "{}" else text


def accept(key: Key, value: Any) -> Any:
    """The value as the key's type; raises ValueError that says what was expected.

    As MaxText does, a whole float passes for an integer, 0 or 1 for a boolean, and true or false for a number.
    """
    if isinstance(key.kind, tuple):
        if value not in key.kind or isinstance(value, bool) != any(isinstance(c, bool) for c in key.kind):
            shown = ", ".join(repr(choice) if choice == "" else str(choice) for choice in key.kind[:24])
            raise ValueError(f"expected one of {shown}{', ...' if len(key.kind) > 24 else ''}")  # noqa: PLR2004
        return value
    kind = key.kind.removesuffix("?")
    if value is None and key.kind != kind:
        return None
    if value is None and kind in {"list", "map", "any"}:
        return None
    accepted = _COERCE[kind](value)
    if accepted is None and kind != "any":
        raise ValueError(f"expected {_EXPECTED[kind]}")
    return accepted


def _bool(value: Any) -> Any:
    return bool(value) if isinstance(value, bool) or value in (0, 1) else None


def _int(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return int(value) if isinstance(value, int) else None


def _float(value: Any) -> Any:
    # Guard: beyond a float, and NaN, whose comparisons are all false.
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else None  # noqa: PLR2004


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _list(value: Any) -> Any:
    return value if isinstance(value, (list, tuple, str)) else None


def _map(value: Any) -> Any:
    return value if isinstance(value, (dict, str)) else None


def _any(value: Any) -> Any:
    return value


_COERCE: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "text": _text,
    "list": _list,
    "map": _map,
    "any": _any,
}
_EXPECTED: Final = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "text": "text",
    "list": "a list",
    "map": "a mapping",
    "any": "anything",
}
