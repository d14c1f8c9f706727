"""Everything people hand to shardplan, as cases: the one place that composes the loaders, which do not know each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shardplan.errors import Diagnostic, InputError, InvalidShardingError, Mark
from shardplan.loaders.case import read_case
from shardplan.machine.chips import resolve_cluster
from shardplan.maxtext.releases import release_of
from shardplan.maxtext.tables import table
from shardplan.source import Document, read_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shardplan.loaders.maxtext_flags import Launch, Settings
    from shardplan.spec import Architecture, Case, Cluster

AUTO: Final = "auto"
"""Asks for the releases in which a launch is legal."""
MAX_SLICES: Final = 1_000_000
"""More slices than this are a slip of the keyboard."""


def load_case(path: str | Path, maxtext: str | None = None) -> Case:
    """The case in a YAML or JSON file, for another MaxText if one is named; raises InputError with everything wrong in it."""
    return parse_case(read_document(path), Path(path).parent, maxtext)


def parse_case(document: Document, folder: Path = Path(), maxtext: str | None = None) -> Case:
    """The case a document describes; relative model paths start at `folder`."""
    if maxtext is not None and maxtext.strip().lower() == AUTO:
        hint = "shardplan check --maxtext auto tells it of a launch, by its keys"
        raise InputError(
            [Diagnostic("SP014", "auto: a case does not tell its MaxText release", Mark("--maxtext"), hint)]
        )
    return read_case(document, lambda name, mark: _model(name, mark, folder), maxtext)


def load_command(
    words: Sequence[str], *, accelerator: str | None = None, slices: int | None = None, maxtext: str | None = None
) -> Launch:
    """A MaxText command line as it will be launched, with a MaxText release; by default the newest.

    The accelerator comes from the argument, from xpk's --tpu-type, or from `compile_topology`. Raises InputError for what
    cannot be read or modelled, and InvalidShardingError for what MaxText would refuse.
    """
    from shardplan.loaders.maxtext_flags import Base, Start, parse_command, read_settings

    command, meant = parse_command(words), release_of(maxtext, Mark("--maxtext"))
    start = Start.of(command, meant.release)
    flags = {key: text for key, (text, _) in command.flags.items()}
    marks = {key: mark for key, (_, mark) in command.flags.items()}
    for variable, (text, mark) in command.environment.items():
        if variable.startswith("M_"):
            key = variable.removeprefix("M_").lower()
            if meant.release.environment == "ignored" and key not in table(meant.release.name).keys:
                continue
            if key in flags:
                message = f"{key} is given as a flag and as {variable}; MaxText takes one"
                raise InvalidShardingError([Diagnostic("SP005", message, mark)])
            flags[key], marks[key] = text, mark
    base = Base(meant.release.name, start.sets, start.also_known)
    settings = read_settings(flags, "command line", marks, base)
    settings.drift[:0] = start.drift
    settings.unreadable += start.unreadable
    settings.notes += [*([meant.note] if meant.note else ()), *start.notes, *command.notes]
    if command.libtpu_init_args:
        settings.notes.append("LIBTPU_INIT_ARGS is not read: memory is that of the compiler without extra flags")
    return _launch(settings, accelerator or command.accelerator, slices or command.slices, "command line")


def load_record(record: Mapping[str, Any], maxtext: str | None = None) -> Launch:
    """One configuration as `{"id", "topology", "slices", "flags": {...}, "maxtext"}`, a line of a `check --from` file.

    The release it is for is the one it names, unless another one is asked for; by default the newest.
    """
    name = str(record.get("id") or "flags")[:200]
    flags = record.get("flags")
    wrong = [
        message
        for ok, message in (
            (isinstance(flags, dict), "flags: expected a mapping of MaxText keys"),
            (
                isinstance(record.get("topology"), str),
                "topology: expected an accelerator name such as tpu7x-256",
            ),
            (_is_count(record.get("slices", 1)), "slices: expected a whole number of at least 1"),
            (isinstance(record.get("maxtext", ""), str), "maxtext: expected a release such as 0.2.1"),
        )
        if not ok
    ]
    if wrong:
        raise InputError(Diagnostic("SP012", message, Mark(name)) for message in wrong)
    assert isinstance(flags, dict)
    from shardplan.loaders.maxtext_flags import Base, read_settings

    meant = release_of(maxtext or record.get("maxtext") or None, Mark(name))
    settings = read_settings(flags, name, base=Base(meant.release.name))
    settings.notes += [meant.note] if meant.note else []
    return _launch(settings, record["topology"], record.get("slices", 1) or 1, name)


def _launch(settings: Settings, accelerator: str | None, slices: int | None, name: str) -> Launch:
    """The launch of settings on an accelerator, with all that is wrong in either."""
    cluster = architecture = None
    for part in ("cluster", "model"):
        try:
            if part == "cluster":
                cluster = _cluster(settings, accelerator, slices)
            else:
                architecture = _flag_model(settings)
        except InputError as error:
            # Guard: a size MaxText refuses anyway must not turn the answer into "cannot be modelled".
            settings.unreadable += error.diagnostics if part == "cluster" or not settings.invalid else ()
    if cluster is None or architecture is None:
        settings.raise_problems()
    assert cluster is not None, "a cluster that cannot be resolved has noted why"
    assert architecture is not None, "a model that cannot be built has noted why"
    from shardplan.loaders.maxtext_flags import resolve

    return resolve(settings, architecture, cluster, name)


def _cluster(settings: Settings, accelerator: str | None, slices: int | None) -> Cluster:
    name = accelerator or settings["compile_topology"]
    if not name:
        hint = "add --accelerator, for example --accelerator tpu7x-256"
        raise InputError(
            [Diagnostic("SP011", "which accelerator? the command does not say", Mark(settings.source), hint)]
        )
    number = slices or max(settings["compile_topology_num_slices"], settings["num_slices"], 1)
    if number > MAX_SLICES:
        message = f"{number:,} slices; expected at most {MAX_SLICES:,}"
        raise InputError([Diagnostic("SP013", message, settings.mark("compile_topology_num_slices"))])
    mark = Mark(settings.source) if accelerator else settings.mark("compile_topology")
    return resolve_cluster(None, accelerator=name, slices=number, mark=mark)


def _model(name: str, mark: Mark, folder: Path) -> Architecture:
    from shardplan.loaders.presets import load_architecture

    return load_architecture(name, mark, folder)


def _flag_model(settings: Settings) -> Architecture:
    """The architecture `model_name` stands for, with what the flags override."""
    from shardplan.loaders.maxtext_model import read_maxtext_model

    name = str(settings["model_name"]).replace("-Instruct", "")
    document = Document(settings.architecture_keys, settings.source)
    return read_maxtext_model(document, name, None if settings.overridden else name)


def _is_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)
