"""What a config.json says of training alone: carried to the launch as MaxText keys, or named where MaxText has none.

No plan depends on it. Source: Transformers 5 modeling_rope_utils.py; MaxText 0.2.5 configs/base.yml, rope settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardplan.source import Document
    from shardplan.source.document import Path

_DEFAULT_ROPE = frozenset({"default", "none", ""})


def carried(document: Document, at: Path) -> dict[str, int | float | str]:
    """MaxText keys for the rotary base and the norms' epsilon of a text decoder."""
    part = document.at(at)
    found: dict[str, int | float | str] = {}
    theta, epsilon = _rope(part).get("rope_theta", part.get("rope_theta")), part.get("rms_norm_eps")
    if _is_number(theta) and float(theta).is_integer() and theta >= 1:
        found["rope_max_timescale"] = int(theta)
    if _is_number(epsilon) and 0 < epsilon < 1:
        found["normalization_layer_epsilon"] = float(epsilon)
    if _scaling(part) == "llama3":
        found["rope_type"] = "llama3.1"
    return found


def not_carried(document: Document, at: Path) -> list[str]:
    """What of it no MaxText key is written for."""
    part = document.at(at)
    kind, rope = _scaling(part), _rope(part)
    notes = [] if kind in _DEFAULT_ROPE | {"llama3"} else [lost_scaling(kind)]
    if any(isinstance(value, dict) for value in rope.values()):
        notes.append("rotary settings that differ by kind of layer are not exported: set MaxText's own")
    return notes


def lost_scaling(kind: str) -> str:
    """The remark on a way of stretching the rotary base that no key is written for."""
    return f"rope scaling {kind[:40]!r} is not exported: set MaxText's own"


def _rope(part: Any) -> dict[str, Any]:
    found = part.get("rope_parameters") or part.get("rope_scaling")
    return found if isinstance(found, dict) else {}


def _scaling(part: Any) -> str:
    rope = _rope(part)
    return str(rope.get("rope_type", rope.get("type", "default")))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
