"""Generated parts of the documentation, for cog: each function returns the Markdown of one block.

`make docs` checks that the pages hold what these return; `make format` writes it.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardplan import cli
from shardplan.cli.help import MEANINGS
from shardplan.errors import INPUT_CODES
from shardplan.loaders.case import CaseInput, ClusterInput
from shardplan.machine.chips import chip_names, load_chip
from shardplan.render.describe import describe_chip, describe_rule
from shardplan.render.lists import chips_page, rule_page, rules_page
from shardplan.render.markdown import markdown
from shardplan.render.page import Grid, Page
from shardplan.source.schema import json_schema
from shardplan.spec import (
    Architecture,
    Attention,
    Constraints,
    FeedForward,
    Layer,
    LayerGroup,
    Optimizer,
    Runtime,
    Split,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100
HUGE = 10**5
"""Bounds from here on are not worth a reader's time."""

SECTIONS: dict[str, type[BaseModel]] = {
    "The case": CaseInput,
    "workload": Workload,
    "workload.optimizer": Optimizer,
    "cluster": ClusterInput,
    "constraints": Constraints,
    "plan": Split,
    "runtime": Runtime,
    "model, written out": Architecture,
    "model.layer_groups": LayerGroup,
    "model.layer_groups.layers": Layer,
    "attention": Attention,
    "feed_forward": FeedForward,
}
"""The sections of a case in the order a reader meets them."""


def console(command: str, lines: int | None = None) -> str:
    """A command with what it prints on a terminal, as a code block; at most so many lines of it."""
    printed = run(command).rstrip("\n").split("\n")
    shown = printed if lines is None else printed[:lines]
    more = [f"... ({len(printed) - len(shown)} more lines)"] if len(shown) < len(printed) else []
    return "\n".join(("", "```console", f"$ {command}", *shown, *more, "```", ""))


def run(command: str) -> str:
    """What a `shardplan` command prints on a terminal, run from the root of the repository."""
    program, *arguments = shlex.split(command)
    assert program == "shardplan", f"not one of ours: {command}"
    if not {"-o", "--output", "--help", "export", "schema", "init"} & set(arguments):
        end = arguments.index("--") if "--" in arguments else len(arguments)
        arguments[end:end] = ["-o", "table", "--width", str(WIDTH)]
    out = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        cli.main(arguments)
    return out.getvalue()


def case(path: str) -> str:
    """A shipped case, with its name."""
    text = (ROOT / path).read_text(encoding="utf-8").strip()
    return f"\n```yaml\n# {path}\n{text}\n```\n"


def exit_codes() -> str:
    """The exit codes and their meaning."""
    rows = [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "\n".join(("", "| code | meaning |", "|---|---|", *rows, ""))


def input_codes() -> str:
    """The codes of errors in the input."""
    rows = [f"| {code} | {meaning} |" for code, meaning in INPUT_CODES.items()]
    return "\n".join(("", "| code | meaning |", "|---|---|", *rows, ""))


def chips() -> str:
    """The chips."""
    page = chips_page([describe_chip(load_chip(name)) for name in chip_names()])
    return "\n" + markdown(Page("", page.blocks))


def rules() -> str:
    """The catalogue: a table, then every rule's page, by family."""
    from shardplan.engine.decide import catalogue

    rules = list(catalogue())
    parts = [
        markdown(Page("", tuple(b for b in rules_page([*map(describe_rule, rules)]).blocks if isinstance(b, Grid))))
    ]
    for family, about in catalogue().families.items():
        parts.append(f"## {family}\n\n{about}\n")
        for rule in rules:
            if rule.family == family:
                page = rule_page(describe_rule(rule))
                fields = markdown(Page("", page.blocks)).replace("\n## ", "\n#### ")
                parts.append(f"### {page.title}\n\n{fields}")
    return "\n" + "\n".join(parts)


def fields() -> str:
    """Every key of a case."""
    parts = []
    for title, model in SECTIONS.items():
        parts += [f"## {title}", "", (model.__doc__ or "").strip(), "", *_table(model), ""]
    return "\n".join(("", *parts))


def _table(model: type[BaseModel]) -> Iterator[str]:
    schema = json_schema(model)
    required = set(schema.get("required", ()))
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for key, field in schema["properties"].items():
        default = "required" if key in required else _default(field.get("default"))
        meaning = " ".join(field.get("description", "").split()).replace("|", "\\|")
        yield f"| `{key}` | {_kind(field, schema.get('$defs', {}))} | {default} | {meaning} |"


def _default(value: object) -> str:
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, dict):
        return (
            ", ".join(f"{key} {_default(inner)}" for key, inner in value.items() if inner is not None) and "see below"
        )
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _kind(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """What may be written, in words."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return next((title for title, model in SECTIONS.items() if model.__name__ == name), name.lower())
    if "anyOf" in field:
        return " or ".join(_kind(one, definitions) for one in field["anyOf"] if one.get("type") != "null")
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    kind = field.get("type")
    if kind == "array":
        return f"list of {_kind(field.get('items', {}), definitions)}"
    if kind == "object":
        return f"mapping to {_kind(field.get('additionalProperties') or {}, definitions)}"
    words = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
    return words.get(str(kind), "see below") + _range(field)


def _range(field: dict[str, Any]) -> str:
    """Bounds in words; upper ones that only keep typing errors out are left unsaid."""
    words = []
    for key, word in (
        ("minimum", "from"),
        ("exclusiveMinimum", "above"),
        ("maximum", "to"),
        ("exclusiveMaximum", "below"),
    ):
        if key in field and abs(field[key]) < HUGE:
            words.append(f" {word} {field[key]:g}")
    return "".join(words)
