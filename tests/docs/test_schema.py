from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from places import ROOT

from shardplan.cli.schema import Schema
from shardplan.render.schema import schema_text

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ROOT / "docs" / "schema"


@pytest.mark.parametrize("name", [schema.value for schema in Schema])
def test_the_published_schema_is_that_of_the_output_types(name: str) -> None:
    published = (FOLDER / f"{name}.schema.json").read_text()
    assert published == schema_text(name), f"run: shardplan schema {name} > docs/schema/{name}.schema.json"


def objects(schema: dict[str, object]) -> Iterator[dict[str, object]]:
    for value in [schema, *dict(schema.get("$defs", {})).values()]:
        if value.get("type") == "object" and "properties" in value:
            yield value


@pytest.mark.parametrize("name", [schema.value for schema in Schema])
def test_every_record_says_what_it_is(name: str) -> None:
    for record in objects(json.loads(schema_text(name))):
        assert record.get("description"), record.get("title")


def test_every_schema_is_published() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{schema.value}.schema.json" for schema in Schema}
