"""Documents to typed records: pydantic judges, and its verdicts become diagnostics that a person can act on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shardplan.errors import Diagnostic, DisagreementError, InputError, suggest
from shardplan.source.document import Document, Key, Path, dotted
from shardplan.source.schema import choices, known_keys
from shardplan.source.wording import EXPECTED_TYPES, RANGES, found, range_text

if TYPE_CHECKING:
    from pydantic import BaseModel

Model = TypeVar("Model", bound="BaseModel")

_INDEX: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def build(model: type[Model], document: Document, at: Path = ()) -> Model:
    """The record that a document, or the part of it at a path, describes; raises InputError with all that is wrong."""
    from pydantic import ValidationError

    value = document.at(at)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        faults = [_fault(model, document, at, detail) for detail in error.errors(include_url=False)]
    diagnostics = {_diagnostic(fault, document): None for fault in _one_per_place(faults)}
    raise InputError(sorted(diagnostics, key=_in_order))


@dataclass(frozen=True)
class _Fault:
    """One verdict of pydantic at a place of the document."""

    kind: str
    path: Path
    """Where in the document; with the key that is missing or unknown, if that is the fault."""
    value: Any
    message: str
    ctx: dict[str, Any]
    known: dict[str, str | None]
    """Keys the record at the place, or around it, knows, each with its description."""
    expected: tuple[str, ...] = ()
    """What would have been right, one per alternative."""


def _fault(model: type[BaseModel], document: Document, at: Path, detail: Any) -> _Fault:
    kind, ctx = detail["type"], dict(detail.get("ctx", {}))
    loc: tuple[Key, ...] = detail["loc"]
    absent = kind in {"missing", "union_tag_not_found"}
    known: dict[str, str | None] = {}
    if kind in {"missing", "extra_forbidden"}:
        known = known_keys(model, loc[:-1])
    path = at + _document_path(document.at(at), loc)
    if kind == "missing":
        path = (*at, *_document_path(document.at(at), loc[:-1]), loc[-1])
    elif kind in {"union_tag_not_found", "union_tag_invalid"}:
        path = (*path, ctx["discriminator"].strip("'"))
    elif isinstance(ctx.get("error"), DisagreementError):
        path += ctx["error"].at
    value = None if absent else detail["input"]
    if kind == "union_tag_invalid":
        value = ctx["tag"]
    expected: tuple[str, ...] = ()
    if kind in EXPECTED_TYPES:
        expected = (EXPECTED_TYPES[kind],)
    elif "expected" in ctx or "expected_tags" in ctx:
        expected = choices(str(ctx.get("expected", ctx.get("expected_tags"))))
    return _Fault(kind, path, value, detail["msg"], ctx, known, expected)


def _document_path(value: Any, loc: tuple[Key, ...]) -> Path:
    """The part of pydantic's location that is in the document, without names of union members and the like."""
    path: list[Key] = []
    for step in loc:
        # pydantic writes the whole-number keys of a mapping as text.
        as_number = (int(step),) if isinstance(step, str) and _INDEX.fullmatch(step) else ()
        for key in (step, *as_number):
            inside = isinstance(value, dict) and key in value
            if inside or (isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)):
                path.append(key)
                value = value[key]
                break
    return tuple(path)


def _one_per_place(faults: list[_Fault]) -> list[_Fault]:
    """The faults without those of union members that the user did not mean.

    Of a union, pydantic reports what is wrong with every member. If one member got further than "wrong type", the user
    meant that one; if none did, the alternatives become one fault.
    """
    inner = {fault.path[:depth] for fault in faults for depth in range(len(fault.path))}
    by_path: dict[Path, list[_Fault]] = {}
    for fault in faults:
        by_path.setdefault(fault.path, []).append(fault)
    kept: list[_Fault] = []
    for path, group in by_path.items():
        alternatives = [fault for fault in group if fault.expected]
        # Guard: pydantic counts only the sound items of a list, and calls it too short besides.
        definite = [
            fault for fault in group if not fault.expected and not (fault.kind == "too_short" and path in inner)
        ]
        kept += definite
        if not alternatives or definite or path in inner:
            continue
        expected = tuple(dict.fromkeys(word for fault in alternatives for word in fault.expected))
        first = next((fault for fault in alternatives if fault.kind not in EXPECTED_TYPES), alternatives[0])
        kept.append(_Fault(first.kind, path, first.value, first.message, first.ctx, {}, expected))
    return kept


def _diagnostic(fault: _Fault, document: Document) -> Diagnostic:
    where = f"{dotted(fault.path)}: " if fault.path else ""
    key = fault.path[-1] if fault.path else ""
    mark = document.mark(fault.path)
    hint: str | None
    if fault.kind == "extra_forbidden":
        hint = suggest(key, fault.known) or f"known here: {', '.join(sorted(fault.known)) or 'no keys'}"
        return Diagnostic("SP010", f"{where}unknown key {str(key)[:60]!r}", document.key_mark(fault.path), hint)
    if fault.kind in {"missing", "union_tag_not_found"}:
        return Diagnostic("SP011", f"missing key {dotted(fault.path)!r}", mark, fault.known.get(str(key)))
    if fault.expected:
        expected = _alternatives(fault.expected)
        code = "SP012" if fault.kind in EXPECTED_TYPES else "SP014"
        # A list of one choice per line would drown the message; the nearest one is the hint.
        words = [word.strip("'") for word in fault.expected if word.startswith("'")]
        hint = suggest(fault.value, words) if isinstance(fault.value, str) else None
        return Diagnostic(code, f"{where}expected {expected}, found {found(fault.value)}", mark, hint)
    if fault.kind in RANGES:
        return Diagnostic("SP013", f"{where}{range_text(fault.kind, fault.ctx, fault.value)}", mark)
    message = fault.ctx.get("error", fault.message)
    hint = message.hint if isinstance(message, DisagreementError) else None
    code = "SP015" if isinstance(fault.value, (dict, list)) else "SP013"
    return Diagnostic(code, f"{where}{message}", mark, hint)


def _alternatives(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _in_order(diagnostic: Diagnostic) -> tuple[int, int, str]:
    mark = diagnostic.mark
    return ((mark.line or 0) if mark else 0, (mark.column or 0) if mark else 0, diagnostic.message)
