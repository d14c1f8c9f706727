"""The rule catalogue: `rules/*.yaml` read, checked against the known facts, and ready to be judged with.

A rule compares named facts; what the facts are is said in `facts`, which this module does not know.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from shardplan.catalogue.dimension import CHOICE, TRUTH, Kind, format_quantity
from shardplan.catalogue.predicate import Predicate, parse
from shardplan.catalogue.thresholds import thresholds
from shardplan.errors import Diagnostic, InputError, suggest
from shardplan.maxtext.releases import release_of, releases
from shardplan.source import build, read_document
from shardplan.spec import Input, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from shardplan.errors import Mark
    from shardplan.source import Document

NOT_RULES: Final = ("thresholds", "flags")
"""Files of the rules folder that hold something else."""

Code = Annotated[str, Field(strict=True, pattern=r"^SP[1-9][0-9]{2}$")]
Slug = Annotated[str, Field(strict=True, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
LongText = Annotated[str, Field(strict=True, min_length=1, max_length=1000)]
Status = Literal["preview", "stable", "deprecated", "removed"]
Severity = Literal["error", "warning", "note"]


class Effect(Input):
    """What follows when a rule fires."""

    kind: Literal["forbid", "demote", "prefer", "advise"]
    """`forbid`: not a plan. `demote` and `prefer`: order among equals. `advise`: say it, and set the flags."""
    flags: tuple[Slug, ...] = ()
    """Groups of `flags.yaml` to launch with; with `advise` only."""


def _release(name: str) -> str:
    """A release of the history, by its name there."""
    if name not in {release.name for release in releases()}:
        raise ValueError("expected the name of a MaxText release in rules/maxtext/releases.json")
    return name


Release = Annotated[Text, AfterValidator(_release)]


class Entry(Input):
    """One rule as written."""

    code: Code
    """Never reused, never renumbered."""
    name: Slug
    status: Status = "stable"
    severity: Severity
    when: LongText
    effect: Effect
    message: LongText
    """What is the matter; `{fact}` stands for the fact's value with its unit."""
    hint: LongText | None = None
    """What to do about it; `{fact}` as in the message."""
    why: LongText
    since: Release | None = None
    """The first MaxText release it holds for; None if it holds for all."""
    sources: Annotated[tuple[Text, ...], Field(min_length=1)]
    examples: Annotated[tuple[dict[str, bool | int | float | str], ...], Field(min_length=2)]
    """Facts of a case each, with `fires`: whether the rule fires on it."""


class RuleFile(Input):
    """One file of rules: a family."""

    family: Slug
    codes: Annotated[str, Field(strict=True, pattern=r"^SP[1-9]$")]
    """How the family's codes begin."""
    about: LongText
    rules: tuple[Entry, ...]


class FlagGroup(Input):
    """LIBTPU flags that belong together, for one chip."""

    flags: Annotated[tuple[Text, ...], Field(min_length=1)]
    source: Text
    evidence: Literal["recipe", "documentation", "library", "third-party"]
    """Where the group was seen: launched by a published recipe, in the vendor's guide, in its flag library, elsewhere."""
    note: LongText | None = None


class FlagFile(Input):
    """Flag groups by name, then by chip."""

    groups: dict[Slug, dict[str, FlagGroup]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One checked rule."""

    entry: Entry
    family: str
    predicate: Predicate
    kinds: Mapping[str, Kind]
    """Kind of every name in the condition, the message and the hint."""
    mark: Mark
    """Where it is written."""
    chips: frozenset[str] | None = None
    """Chips for which one of its flag groups is written; None if it asks for no flags and concerns all."""

    @property
    def code(self) -> str:
        """Its code."""
        return self.entry.code

    @property
    def effect(self) -> str:
        """Its effect's kind."""
        return self.entry.effect.kind

    @property
    def is_active(self) -> bool:
        """Whether it is judged with; removed rules stay in the catalogue to keep their code."""
        return self.entry.status != "removed"

    def concerns(self, chip: str, maxtext: str | None) -> bool:
        """Whether it is judged with on a chip, where flags are advised only if they were seen there, and under a MaxText."""
        is_in_force = self.entry.since is None or release_of(maxtext).release.has(self.entry.since)
        return self.is_active and is_in_force and (self.chips is None or chip in self.chips)

    def message(self, facts: Mapping[str, Any]) -> str:
        """The message with one candidate's numbers."""
        return _filled(self.entry.message, facts, self.kinds)

    def hint(self, facts: Mapping[str, Any]) -> str | None:
        """The hint with one candidate's numbers, if the rule has one."""
        return _filled(self.entry.hint, facts, self.kinds) if self.entry.hint else None

    def explanation(self, facts: Mapping[str, Any]) -> str:
        """The message, and the condition with its numbers."""
        return f"{self.message(facts)} ({self.predicate.explain(facts)})"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every rule by code, in order of code; every family's purpose; every flag group."""

    rules: Mapping[str, Rule]
    families: Mapping[str, str]
    flag_groups: Mapping[str, Mapping[str, FlagGroup]]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules.values())

    def rule(self, code: str) -> Rule:
        """The rule of that code; InputError if there is none."""
        if code not in self.rules:
            raise InputError([Diagnostic("SP014", f"unknown rule {code[:60]!r}", None, suggest(code, self.rules))])
        return self.rules[code]

    def forbidding(self, families: Iterable[str] = (), names: Iterable[str] | None = None) -> tuple[Rule, ...]:
        """Active rules that forbid; of some families only, and only those that need no facts but `names`, if given."""
        wanted, known = frozenset(families), None if names is None else frozenset(names)
        return tuple(
            rule
            for rule in self
            if rule.effect == "forbid"
            and rule.is_active
            and (not wanted or rule.family in wanted)
            and (known is None or rule.predicate.names <= known)
        )

    def flags(self, groups: Iterable[str], chip: str) -> tuple[str, ...]:
        """The flags of some groups for a chip, each flag once: a later group's value replaces an earlier one's."""
        chosen: dict[str, str] = {}
        for group in groups:
            if found := self.flag_groups[group].get(chip):
                chosen |= {flag.partition("=")[0]: flag for flag in found.flags}
        return tuple(chosen.values())


def load_catalogue(folder: Path, known: Mapping[str, Kind]) -> Catalogue:
    """The catalogue of a folder, checked against the facts it may use; InputError with everything wrong in all files."""
    constants = {name: Kind(constant.unit) for name, constant in thresholds().items()}
    assert not (both := constants.keys() & known.keys()), f"both a fact and a threshold: {sorted(both)}"
    groups = build(FlagFile, read_document(folder / "flags.yaml")).groups
    reader = _Reader({**known, **constants}, frozenset(constants), groups)
    for path in sorted(folder.glob("*.yaml")):
        if path.stem not in NOT_RULES:
            reader.read(read_document(path))
    if reader.faults:
        raise InputError(reader.faults)
    return Catalogue(dict(sorted(reader.rules.items())), reader.families, groups)


class _Reader:
    """Reads files of rules one after the other and notes every fault."""

    def __init__(
        self,
        known: Mapping[str, Kind],
        constants: frozenset[str],
        groups: Mapping[str, Mapping[str, FlagGroup]],
    ) -> None:
        self.known, self.constants, self.groups = known, constants, groups
        self.rules: dict[str, Rule] = {}
        self.families: dict[str, str] = {}
        self.faults: list[Diagnostic] = []

    def read(self, document: Document) -> None:
        """One file."""
        try:
            file = build(RuleFile, document)
        except InputError as error:
            self.faults.extend(error.diagnostics)
            return
        self.families[file.family] = file.about
        for place, entry in enumerate(file.rules):
            at = ("rules", place)
            if entry.code in self.rules:
                self._fault("SP015", f"{entry.code} is given twice", document.mark((*at, "code")))
            if not entry.code.startswith(file.codes):
                self._fault("SP015", f"{entry.code} is not one of {file.codes}xx", document.mark((*at, "code")))
            if (rule := self._rule(entry, file.family, document, at)) is not None:
                self.rules[entry.code] = rule

    def _rule(self, entry: Entry, family: str, document: Document, at: tuple[str, int]) -> Rule | None:
        """One rule, or None with its faults noted."""
        before = len(self.faults)
        try:
            predicate = parse(entry.when, self.known, document.mark((*at, "when")))
        except InputError as error:
            self.faults.extend(error.diagnostics)
            return None
        shown = placeholders(entry.message) | placeholders(entry.hint or "")
        for name in sorted(shown - self.known.keys()):
            key = "message" if name in placeholders(entry.message) else "hint"
            self._fault("SP010", f"unknown fact {name!r}", document.mark((*at, key)), suggest(name, self.known))
        if entry.effect.flags and entry.effect.kind != "advise":
            self._fault("SP015", "flags belong to the effect advise", document.mark((*at, "effect")))
        for group in entry.effect.flags:
            if group not in self.groups:
                hint = suggest(group, self.groups)
                self._fault("SP014", f"unknown flag group {group!r}", document.mark((*at, "effect", "flags")), hint)
        if len(self.faults) == before:
            self._check_examples(entry, predicate, shown, document, (*at, "examples"))
        kinds = {name: self.known[name] for name in predicate.names | (shown & self.known.keys())}
        seen = [self.groups.get(group, {}) for group in entry.effect.flags]
        chips = frozenset(chip for group in seen for chip in group) if seen else None
        return Rule(entry, family, predicate, kinds, document.mark(at), chips)

    def _check_examples(
        self, entry: Entry, predicate: Predicate, shown: frozenset[str], document: Document, at: tuple[str | int, ...]
    ) -> None:
        """Each example gives every fact of the condition; one that fires gives those of the message too."""
        fires = Counter(example.get("fires") for example in entry.examples)
        if not fires[True] or not fires[False]:
            self._fault("SP015", "expected an example that fires and one that does not", document.mark(at))
        for place, example in enumerate(entry.examples):
            needed = predicate.names | (shown if example.get("fires") is True else frozenset())
            for name in sorted(needed - self.constants - example.keys()):
                self._fault("SP011", f"example lacks the fact {name!r}", document.mark((*at, place)))
            for name, value in example.items():
                mark = document.mark((*at, place, name))
                if name != "fires" and name not in predicate.names | shown:
                    self._fault("SP010", f"{name!r} is not used by the rule", mark, suggest(name, predicate.names))
                elif name == "fires" or not _suits(value, self.known[name]):
                    expected = "true or false" if name == "fires" else self.known[name].unit or "a number"
                    if not (name == "fires" and isinstance(value, bool)):
                        self._fault("SP012", f"{name}: expected {expected}, found {value!r}", mark)

    def _fault(self, code: str, message: str, mark: Mark, hint: str | None = None) -> None:
        self.faults.append(Diagnostic(code, message, mark, hint))


def placeholders(template: str) -> frozenset[str]:
    """Names in braces of a message; an unbalanced brace counts as the name of nothing known."""
    try:
        return frozenset(name for _, name, _, _ in Formatter().parse(template) if name is not None)
    except ValueError:
        return frozenset({"{"})


def _suits(value: object, kind: Kind) -> bool:
    """Whether an example's value is of a fact's kind."""
    if kind.unit == TRUTH:
        return isinstance(value, bool)
    if kind.unit == CHOICE:
        return value in kind.choices
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _filled(template: str, facts: Mapping[str, Any], kinds: Mapping[str, Kind]) -> str:
    """A template with the facts' values written by their units."""
    return template.format_map({n: format_quantity(facts[n], kinds[n].unit) for n in placeholders(template)})
