"""YAML to values with places, with the scalars of YAML 1.2: `no` is text, `4.59e14` a number, duplicates are errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from shardplan.errors import Diagnostic, InputError, Mark
from shardplan.source.document import MAX_DEPTH, MAX_NODES, Document, Key, Node, clean, fail

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INT: Final = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*")
_BASED_INT: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS: Final = 400
_TEXT_TAGS: Final = ("!", "tag:yaml.org,2002:str")
_BREAKS: Final = re.compile("[\x85\u2028\u2029]")
_MERGE: Final = "<<"
_PLAIN: Final = ("", None)  # the C parser says "", the Python one None


def parse_yaml(text: str, name: str) -> Document:
    """The one document of a YAML text; raises InputError, with places, for anything that is not exactly that."""
    import yaml

    text = clean(text, name)
    loader: Any = getattr(yaml, "CLoader", yaml.SafeLoader)
    composer = _Composer(yaml.parse(text, Loader=loader), name)
    try:
        root = composer.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if mark and error.context_mark and mark.line >= len(text.splitlines()):
            mark = error.context_mark  # what is open at the end began there
        place = Mark(name, mark.line + 1, mark.column + 1) if mark else Mark(name)
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        fail("SP004", f"not well-formed YAML: {problem}", place, _hint(problem, text, place))
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        fail("SP004", f"not well-formed YAML: {' '.join(str(error).split())[:200]}", Mark(name))
    if composer.diagnostics:
        raise InputError(composer.diagnostics)
    return Document(root.value, name, root)


def dump_yaml(value: Any) -> str:
    """A value as YAML that both this reader and a YAML 1.1 reader take for the same value."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's interface
            return True

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        # Guard: the characters YAML breaks lines at are folded to spaces in every style but double quotes.
        style = '"' if _BREAKS.search(data) else None if isinstance(_resolve(data), str) else "'"
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Composer:
    """Builds nodes from parser events, counting what aliases expand to."""

    def __init__(self, events: Iterator[Any], name: str) -> None:
        self.events = events
        self.name = name
        self.anchors: dict[str, Node | None] = {}  # None while the anchored node is being built
        self.diagnostics: list[Diagnostic] = []

    def document(self) -> Node:
        next(self.events)  # stream start
        start = next(self.events)
        if type(start).__name__ != "DocumentStartEvent":
            fail("SP006", "the input is empty", Mark(self.name))
        root = self.node(next(self.events), 0)
        next(self.events)  # document end
        after = next(self.events)
        if type(after).__name__ == "DocumentStartEvent":
            fail("SP006", "more than one document", self.mark(after), "give one file a document")
        return root

    def mark(self, event: Any) -> Mark:
        return Mark(self.name, event.start_mark.line + 1, event.start_mark.column + 1)

    def say(self, code: str, message: str, event: Any, hint: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(code, message, self.mark(event), hint))

    def node(self, event: Any, depth: int) -> Node:
        kind = type(event).__name__
        if kind == "AliasEvent":
            if (target := self.anchors.get(event.anchor)) is None:
                fail("SP004", f"alias *{event.anchor} has no complete anchor before it", self.mark(event))
            return target
        if depth > MAX_DEPTH:
            fail("SP003", f"nested more than {MAX_DEPTH} levels deep", self.mark(event))
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if event.tag is not None and not (kind == "ScalarEvent" and event.tag in _TEXT_TAGS):
            self.say("SP007", f"tag {event.tag[:60]!r} is not read here", event, "write the plain value")
        if kind == "ScalarEvent":
            node = self.scalar(event)
        elif kind == "SequenceStartEvent":
            node = self.sequence(event, depth)
        else:
            node = self.mapping(event, depth)
        if node.n_nodes > MAX_NODES:
            fail(
                "SP003",
                f"expands to more than {MAX_NODES:,} values",
                self.mark(event),
                "write out fewer aliases",
            )
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def scalar(self, event: Any) -> Node:
        value: Any = event.value
        if event.tag is None and event.style in _PLAIN:
            if len(value) > _MAX_DIGITS and _INT.fullmatch(value):
                self.say(
                    "SP008",
                    f"a whole number of {len(value)} digits",
                    event,
                    f"at most {_MAX_DIGITS} are read",
                )
            else:
                value = _resolve(value)
        return Node(value, event.start_mark.line + 1, event.start_mark.column + 1)

    def sequence(self, event: Any, depth: int) -> Node:
        items: list[Node] = []
        n_nodes = 1
        while type(inner := next(self.events)).__name__ != "SequenceEndEvent":
            items.append(self.node(inner, depth + 1))
            n_nodes += items[-1].n_nodes
            if n_nodes > MAX_NODES:
                break  # `node` refuses it
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        return Node([item.value for item in items], *place, dict(enumerate(items)), n_nodes=n_nodes)

    def mapping(self, event: Any, depth: int) -> Node:
        children: dict[Key, Node] = {}
        keys: dict[Key, tuple[int, int]] = {}
        merged: list[Node] = []
        n_nodes = 1
        while type(inner := next(self.events)).__name__ != "MappingEndEvent":
            key_node = self.node(inner, depth + 1)
            start = next(self.events)
            value_node = self.node(start, depth + 1)
            n_nodes += 1 + value_node.n_nodes
            if n_nodes > MAX_NODES:
                break  # `node` refuses it
            key = key_node.value
            if key == _MERGE and getattr(inner, "style", "alias") in _PLAIN:
                merged += self.merge_sources(value_node, start)
            elif isinstance(key, bool) or not isinstance(key, (str, int)):
                self.say("SP007", "a key must be text or a whole number", inner, "quote it")
            elif key in children:
                first = Mark(self.name, *keys[key])
                self.say("SP005", f"key {str(key)[:60]!r} is given twice", inner, f"first given at {first}")
            else:
                children[key] = value_node
                keys[key] = (key_node.line, key_node.column)
        for source in merged:
            for key, child in source.children.items():
                if key not in children:
                    children[key] = child
                    keys[key] = source.keys[key]
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        return Node({key: child.value for key, child in children.items()}, *place, children, keys, n_nodes)

    def merge_sources(self, node: Node, event: Any) -> list[Node]:
        """The mappings that `<<:` names, the first winning over later ones."""
        sources = list(node.children.values()) if isinstance(node.value, list) else [node]
        if all(isinstance(source.value, dict) for source in sources):
            return sources
        self.say("SP007", "'<<' needs a mapping or a list of mappings", event)
        return []


def _resolve(text: str) -> Any:
    """The value a plain scalar stands for."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "-+.0123456789":
        return text
    if _INT.fullmatch(text):
        return int(text) if len(text) <= _MAX_DIGITS else text
    if _BASED_INT.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def _hint(problem: str, text: str, place: Mark) -> str | None:
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line and place.line <= len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] or "'\\t'" in problem:
        return "indent with spaces, not tabs"
    if "mapping values are not allowed" in problem:
        return "indent alike what belongs together, and quote text that holds ': '"
    return None
