"""A MaxText launch as typed in a shell, taken apart: environment, program of any release, configuration file, `key=value` flags."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from shardplan.errors import Diagnostic, InputError, Mark
from shardplan.maxtext.releases import configurations, entry_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.maxtext.releases import EntryPoint

_ENVIRONMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_PYTHON: Final = re.compile(r"(.*/)?python(\d+(\.\d+)?)?")
_ENDS: Final = {";", "&&", "||", "|", "&"}
_WRAPPERS: Final = {
    "env",
    "export",
    "nohup",
    "time",
    "exec",
    "sudo",
    "set",
    "bash",
    "sh",
    "-c",
    "-e",
    "-x",
    "-ex",
}
_TRAINERS: Final = re.compile(r"(.*\.)?(train|train_compile)")
_MAX_CHARACTERS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Command:
    """One launch."""

    flags: dict[str, tuple[str, Mark]] = field(default_factory=dict)
    """Text after `key=`, with its place."""
    program: EntryPoint | None = None
    """What is started; None if the command does not say, or by a path that does not tell the release."""
    program_mark: Mark | None = None
    """Where a program is named."""
    configuration: str | None = None
    """Name of the configuration file, without its folders."""
    environment: dict[str, tuple[str, Mark]] = field(default_factory=dict)
    accelerator: str | None = None
    """What xpk's --tpu-type (or --device-type) said."""
    slices: int | None = None
    notes: tuple[str, ...] = ()
    """What was read in a way the user may not expect."""

    @property
    def libtpu_init_args(self) -> tuple[str, ...]:
        """The XLA flags handed to libtpu through the environment."""
        text, _ = self.environment.get("LIBTPU_INIT_ARGS", ("", None))
        return tuple(text.split())


def parse_command(words: Sequence[str]) -> Command:
    """The launch in the words of a command line; one word with blanks is taken for a whole shell line.

    Understands assignments before the program, `export A=B;`, `python3 -m module`, script paths, a configuration file, and
    `xpk workload create --tpu-type ... --command "..."`. Raises InputError if there is nothing to read or no MaxText trainer.
    """
    if sum(map(len, words)) > _MAX_CHARACTERS:
        raise _unreadable("SP003", "the command line is longer than 1,000,000 characters")
    if len(words) == 1 and any(character.isspace() for character in words[0].strip()):
        words = split_shell(words[0])
    if "xpk" in (word.rpartition("/")[2].removesuffix(".py") for word in words[:3]):
        return _xpk(words)
    reader = _Reader()
    for number, word in enumerate(words, 1):
        reader.read(word, Mark(f"command line, word {number}"))
    reader.finish()
    return Command(
        reader.flags,
        reader.program,
        reader.program_mark,
        reader.configuration,
        reader.environment,
        notes=tuple(reader.notes),
    )


def split_shell(line: str) -> list[str]:
    """The words of a shell line, with `;` and `&&` as words of their own; InputError if a quote is left open."""
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError as error:
        raise _unreadable("SP004", f"the command line is not a shell command: {error}") from None


class _Reader:
    """Reads words from left to right; what comes before the program is environment, what comes after it flags."""

    def __init__(self) -> None:
        self.flags: dict[str, tuple[str, Mark]] = {}
        self.environment: dict[str, tuple[str, Mark]] = {}
        self.problems: list[Diagnostic] = []
        self.notes: list[str] = []
        self.program: EntryPoint | None = None
        self.program_mark: Mark | None = None
        self.configuration: str | None = None
        self._module_next = False
        self._ended = False

    def read(self, word: str, mark: Mark) -> None:
        """Take one word."""
        if word in _ENDS:
            self._ended = self.program_mark is not None and bool(self.flags)
        elif self._ended:
            return  # another command after the launch
        elif self._module_next:
            self._module_next = False
            self._start(word, mark)
        elif word == "-m":
            self._module_next = True
        elif self.program_mark is None:
            self._before(word, mark)
        else:
            self._after(word, mark)

    def _before(self, word: str, mark: Mark) -> None:
        """A word before the program: its environment, the interpreter, options of it; or, without a program, a flag."""
        if word.endswith(".py"):
            self._start(word, mark)
        elif re.fullmatch(r"[A-Z][A-Z0-9_]*=.*", word, re.DOTALL):
            key, _, value = word.partition("=")
            self.environment[key] = (value, mark)
        elif not (_PYTHON.fullmatch(word) or word in _WRAPPERS or word.startswith("-")):
            self._after(word, mark)

    def _after(self, word: str, mark: Mark) -> None:
        """A word after the program: a configuration file or a flag."""
        if word.endswith((".yml", ".yaml")) and "=" not in word:
            self._configuration(word, mark)
        elif "=" in word:
            self._flag(word, mark)
        elif word.strip():
            message = f"expected key=value, found {word[:80]!r}"
            self.problems.append(Diagnostic("SP004", message, mark, "MaxText flags have no dashes and no blanks"))

    def finish(self) -> None:
        """Raise what was wrong, or that there was nothing."""
        if not self.problems and not self.flags and self.program_mark is None:
            self.problems.append(Diagnostic("SP006", "the command line holds no MaxText launch", Mark("command line")))
        if self.problems:
            raise InputError(self.problems)

    def _flag(self, word: str, mark: Mark) -> None:
        key, _, value = word.partition("=")
        if key in self.flags:
            self.notes.append(f"{key[:80]} is given twice; MaxText takes the last: {value[:80]}")
        self.flags[key] = (value, mark)

    def _start(self, program: str, mark: Mark) -> None:
        self.program, self.program_mark = entry_point(program), mark
        module = _module(program)
        if self.program is None and not _TRAINERS.fullmatch(module):
            message = f"{program[:80]!r} is not a trainer of MaxText"
            hint = "expected maxtext.trainers.pre_train.train or train_compile"
            self.problems.append(Diagnostic("SP015", message, mark, hint))

    def _configuration(self, word: str, mark: Mark) -> None:
        name = word.rpartition("/")[2]
        if name in configurations():
            self.configuration = name
            return
        what = "is for GPUs" if "/gpu/" in word else "is not known"
        message = f"the configuration {word[:120]!r} {what}: its defaults cannot be read"
        self.problems.append(Diagnostic("SP015", message, mark, "give its keys as key=value beside base.yml instead"))


def entry_point(program: str) -> EntryPoint | None:
    """The entry point of some release that a module or a path to a script names, whatever folder it lies in."""
    module = f".{_module(program)}"
    found = [entry for entry in entry_points() if module.endswith(f".{entry.module}")]
    return max(found, key=lambda entry: len(entry.module), default=None)


def _module(program: str) -> str:
    return program.removesuffix(".py").strip("/").replace("/", ".")


def _xpk(words: Sequence[str]) -> Command:
    """The launch inside `xpk workload create ... --command "..."`, with the accelerator and slices of the workload."""
    options: dict[str, str] = {}
    for here, after in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = here.partition("=")
        if name.startswith("--"):
            options[name.lstrip("-").replace("_", "-")] = value if equals else after
    if "command" not in options:
        raise _unreadable("SP011", "the xpk command line has no --command")
    inner = parse_command([f"{options['command']} "])
    accelerator = options.get("tpu-type") or options.get("device-type")
    slices = options.get("num-slices", "1")
    if not re.fullmatch(r"[1-9]\d{0,5}", slices):
        raise _unreadable("SP012", f"--num-slices is {slices[:40]!r}; expected a whole number")
    return replace(inner, accelerator=accelerator, slices=int(slices))


def _unreadable(code: str, message: str) -> InputError:
    return InputError([Diagnostic(code, message, Mark("command line"))])
