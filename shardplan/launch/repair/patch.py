"""A repaired launch as people take it over: a unified diff of its flags, and the whole command with the change."""

from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shardplan.engine.decide import judge_split
from shardplan.exporters.maxtext.text import launcher, written
from shardplan.launch.repair.edits import Machine
from shardplan.launch.repair.search import repair
from shardplan.loaders.load import load_command
from shardplan.loaders.maxtext_flags import parse_command
from shardplan.loaders.maxtext_flags.command import entry_point, split_shell
from shardplan.maxtext.releases import release_of
from shardplan.plan import FlagOut, PatchOut
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Flags = Mapping[str, Any]

_ENDS: Final = {";", "&&", "||", "|", "&"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A launch that was judged: its flags as given, what it runs on, and its words if it was a command line."""

    flags: Flags
    machine: Machine
    words: tuple[str, ...] = ()

    @classmethod
    def of_command(
        cls, words: Sequence[str], accelerator: str | None, slices: int | None, maxtext: str | None = None
    ) -> Attempt | None:
        """The attempt a command line was; None where its settings come from elsewhere too, or its machine is not said."""
        command = parse_command(words)
        flags = {key: text for key, (text, _) in command.flags.items()}
        name = accelerator or command.accelerator or flags.get("compile_topology")
        number = slices or command.slices or flags.get("compile_topology_num_slices") or "1"
        elsewhere = any(variable.startswith("M_") for variable in command.environment)
        if name is None or elsewhere or not str(number).isdecimal():
            return None
        return cls(flags, Machine(name, int(number), maxtext), tuple(words))

    @classmethod
    def of_record(cls, record: Flags, maxtext: str | None = None) -> Attempt:
        """The attempt one record of flags was."""
        return cls(record["flags"], Machine(record["topology"], record.get("slices") or 1, maxtext))


def patch_for(attempt: Attempt) -> PatchOut | None:
    """The smallest change found that makes an attempt legal and fitting, judged once more as a whole."""
    old = attempt.flags
    new = repair(old, attempt.machine)
    if new is None:
        return None
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    machine = attempt.machine
    words = _words(new, machine)
    if attempt.words:
        words = restarted(patched(attempt.words, {key: new.get(key) for key in changed}, old), machine.maxtext)
    launch = load_command(words, accelerator=machine.accelerator, slices=machine.slices, maxtext=machine.maxtext)
    result = judge_split(launch.case, split_rows(launch.case, launch.split), "fixed")
    assert result.choice is not None, "a split that is a split has been priced"
    assert not launch.drift, "a repaired launch is one that its release takes"
    assert result.verdict == "fits", f"the repaired launch {result.verdict}: {changed}"
    return PatchOut(
        changes=tuple(FlagOut(key=key, old=old.get(key), new=new.get(key)) for key in changed),
        patch=tuple(difflib.unified_diff(_lines(old), _lines(new), "launch", "fixed", lineterm="")),
        command=as_text(words),
        verdict=result.verdict,
        total_bytes=result.choice.memory.total_bytes,
        limit_bytes=result.choice.memory.limit_bytes,
        estimate_s=result.choice.time.estimate_s,
        global_batch=result.choice.global_batch,
    )


def patched(words: Sequence[str], changes: Flags, given: Flags) -> list[str]:
    """The words of a command line with flags set, or dropped where the value is None; new ones follow the last given.

    One word is a whole shell line, and what xpk takes as --command is one too; both stay one word.
    """
    if len(words) == 1:
        return [as_text(patched(split_shell(words[0]), changes, given), expands=True)]
    for place, word in enumerate(words):
        option, _, value = word.partition("=")
        if option == "--command":
            line = split_shell(value or words[place + 1])
            inner = as_text(patched(line, changes, given), expands=True, separator=" ")
            return [*words[:place], option, inner, *words[place + (1 if value else 2) :]]
    last = max((place for place, word in enumerate(words) if word.partition("=")[0] in given), default=len(words) - 1)
    added = [f"{key}={written(value)}" for key, value in changes.items() if key not in given and value is not None]
    found: list[str] = []
    for place, word in enumerate(words):
        key, equals, _ = word.partition("=")
        if not equals or key not in changes:
            found.append(word)
        elif changes[key] is not None:
            found.append(f"{key}={written(changes[key])}")
        found += added if place == last else []
    return found


def restarted(words: Sequence[str], maxtext: str | None) -> list[str]:
    """The words with the trainer of the release where theirs is one it does not have."""
    release = release_of(maxtext).release
    if len(words) == 1 and len(shell := split_shell(words[0])) > 1:
        mended = restarted(shell, maxtext)
        return [as_text(mended, expands=True)] if mended != shell else list(words)
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        option, _, line = word.partition("=") if word.startswith("--command=") else ("", "", word)
        entry = entry_point(word) if before == "-m" or word.endswith(".py") else None
        if option or before == "--command":
            found.append(f"{option}{'=' if option else ''}{restarted([line], maxtext)[0]}")
        elif entry is not None and entry.does == "train" and not entry.is_in(release):
            found += launcher(maxtext)[2 if before == "-m" else 1 : 3]
        else:
            found.append(word)
    return found


def as_text(words: Sequence[str], *, expands: bool = False, separator: str = " \\\n  ") -> str:
    """Words as a shell reads them, one flag a line; `expands` if variables in them are still to be filled in."""
    if len(words) == 1:
        return words[0]  # a whole shell line already
    text = ""
    for word in words:
        key, equals, value = word.partition("=")
        is_flag = bool(equals) and re.fullmatch(r"[a-z]\w*", key) is not None
        is_setting = is_flag or (bool(equals) and key.isidentifier())
        quoted = f"{key}={_quoted(value, expands=expands)}" if is_setting else _quoted(word, expands=expands)
        text += (separator if is_flag else " ") + (word if word in _ENDS else quoted)
    return text.strip()


def _quoted(word: str, *, expands: bool) -> str:
    """A word for a shell; in double quotes where a variable in it is still to be filled in."""
    if expands and "$" in word:
        return '"' + re.sub(r'(["\\`])', r"\\\1", word) + '"'
    return shlex.quote(word) if word else ""


def _words(flags: Flags, machine: Machine) -> list[str]:
    """The launch of flags that were no command line."""
    return [*launcher(machine.maxtext), *_lines(flags)]


def _lines(flags: Flags) -> list[str]:
    return [f"{key}={written(value)}" for key, value in flags.items()]
