"""Results as text: pages for people (`table`, `plain`, `markdown`), JSON and YAML for programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel

    from shardplan.render.page import Page


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    PLAIN = "plain"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True)
class Style:
    """How a result is laid out; width and colour matter to `table` only, None leaves them to the terminal."""

    format: Format
    width: int | None = None
    color: bool | None = None


def render(result: BaseModel | Sequence[BaseModel], page: Callable[[], Page], style: Style) -> str:
    """The result in the style's format, ending in a newline; `page` is only built where people read."""
    match style.format:
        case Format.JSON:
            from shardplan.render.machine import to_json

            return to_json(result)
        case Format.YAML:
            from shardplan.render.machine import to_yaml

            return to_yaml(result)
        case Format.PLAIN:
            from shardplan.render.plain import plain

            return plain(page())
        case Format.MARKDOWN:
            from shardplan.render.markdown import markdown

            return markdown(page())
        case Format.TABLE:
            from shardplan.render.table import table

            return table(page(), style.width, color=style.color)
