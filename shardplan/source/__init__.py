"""Text that people write, as values that know their place: YAML and JSON in, typed records out.

The only package that knows YAML. Nothing here is heavy to import: yaml and pydantic load on first use.
"""

from __future__ import annotations

from shardplan.source.build import build
from shardplan.source.document import Document, Node
from shardplan.source.files import read_document, read_text
from shardplan.source.json_text import parse_json
from shardplan.source.yaml_text import dump_yaml, parse_yaml

__all__ = ["Document", "Node", "build", "dump_yaml", "parse_json", "parse_yaml", "read_document", "read_text"]
