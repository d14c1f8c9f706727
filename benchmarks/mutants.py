"""How many small faults in the physics and the order of plans a fast selection of the tests notices.

usage: python -m benchmarks.mutants [--count 320] [--seed 1] [--minutes 60] [--only PART] [--write]

Cosmic-ray finds the places and makes the mutants; this script draws a sample (one mutant a place, every place as likely) and
runs, in a copy of the project, the tests that belong to the mutated module, fastest first, up to the first that fails. Places whose
mutants cannot matter are left out, see `idle_places`. `--write` also puts the result where the page on mutants reads it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime as dt
import difflib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import hypothesis.strategies  # noqa: F401 - loaded once, for every mutant
import numpy as np  # noqa: F401 - loaded once
import pydantic.dataclasses  # noqa: F401 - loaded once
import pytest
import pytest_cov.plugin  # noqa: F401 - loaded once
import rich.table  # noqa: F401 - loaded once
import typer  # noqa: F401 - loaded once
import yaml  # noqa: F401 - loaded once
from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "docs" / "data" / "mutants.json"
FIRST = ("tests/cost/test_formulas.py",)
LAST = ("tests/cost/test_mechanisms.py",)
PAGE = ("tests/docs/test_accuracy_page.py",)
TESTS: dict[str, tuple[str, ...]] = {
    "shardplan/cost/memory": (*FIRST, "tests/cost/memory", *LAST, "tests/oracles/test_memory_corpus.py", *PAGE),
    "shardplan/cost/network": (
        *FIRST, "tests/cost/network", "tests/oracles/test_compiled_traffic.py", "tests/oracles/test_microbenchmarks.py",
        *LAST,
    ),
    "shardplan/cost/time": (
        *FIRST, "tests/cost/time", "tests/oracles/test_maxtext_flops.py", *LAST, "tests/oracles/test_published_runs.py",
        "tests/oracles/test_ablations.py", *PAGE,
    ),
    "shardplan/cost/tensors": (
        *FIRST, "tests/cost/tensors", "tests/cost/time/test_work.py", "tests/cost/memory", "tests/cost/network",
        "tests/oracles/test_memory_corpus.py", "tests/judge",
    ),
    "shardplan/cost": (
        *FIRST, "tests/cost/time", "tests/cost/network", "tests/cost/memory",
        "tests/oracles/test_published_runs.py", "tests/oracles/test_memory_corpus.py",
    ),
    "shardplan/splits": ("tests/splits", "tests/engine/test_variants.py", "tests/cost/network/test_comm.py"),
    "shardplan/engine/ranking.py": ("tests/engine/test_ranking.py", "tests/splits"),
}  # fmt: skip
"""Modules that are mutated, and the tests that may notice: fast ones first. The first prefix that matches counts."""

OPTIONS = [
    "-x",
    "-q",
    "--no-header",
    "--tb=line",
    "--assert=plain",
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
    "-p",
    "benchmarks.fastest_first",
    "--hypothesis-seed=0",
    "--hypothesis-profile=mutants",
]
TIMEOUT_S = 120.0
CRASHED = 3
NOT_COPIED = (".git", ".venv*", ".*_cache", ".hypothesis", "dist", "build", "__pycache__")


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test noticed."""

    module: str
    line: int
    operator: str
    occurrence: int
    """Which of the places of the operator in the module."""
    before: str
    after: str


def idle_places(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Spans of a module, from (line, column) to the same, that never decide a number.

    Annotations are not evaluated; decorators cache and freeze; `strict` in `zip` and `assert` guard against ourselves; imports
    for the type checker do not run.
    """
    found: list[ast.expr | ast.stmt | ast.keyword] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(decorator_list=decorators, returns=returns):
                found += [*decorators, *([returns] if returns else [])]
            case ast.ClassDef(decorator_list=decorators):
                found += decorators
            case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                found.append(annotation)
            case ast.keyword(arg="strict"):
                found.append(node)
            case ast.Assert():
                found.append(node)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                found.append(node)
            case _:
                pass
    return [((n.lineno, n.col_offset), (n.end_lineno or n.lineno, n.end_col_offset or n.col_offset)) for n in found]


def places(root: Path) -> dict[tuple[object, ...], list[MutationSpec]]:
    """The mutants of each place that can matter, by module, span and family of operator."""
    found: dict[tuple[object, ...], list[MutationSpec]] = {}
    names = sorted(str(path.relative_to(root)) for path in root.glob("shardplan/**/*.py"))
    modules = [name for name in names if _prefix(name) and not name.endswith("__init__.py")]
    for name in modules:
        idle = idle_places((root / name).read_text(encoding="utf-8"))
        for item in _all_work_items([Path(name)], {}):
            (spec,) = item.mutations
            decorates = spec.operator_name.endswith("RemoveDecorator")
            if not decorates and not any(start <= spec.start_pos < end for start, end in idle):
                family = spec.operator_name.rpartition("/")[2].partition("_")[0]
                found.setdefault((name, spec.start_pos, spec.end_pos, family), []).append(spec)
    return found


def _prefix(name: str) -> str | None:
    return next((prefix for prefix in TESTS if name.startswith(prefix)), None)


def sample(root: Path, count: int, seed: int, only: str = "") -> list[MutationSpec]:
    """One mutant each of some places, in the order drawn."""
    draw = random.Random(seed)  # noqa: S311 - a sample, no secret
    every = places(root)
    chosen = draw.sample(sorted(every, key=str), len(every))
    specs = [draw.choice(sorted(every[place], key=str)) for place in chosen]
    return [spec for spec in specs if only in str(spec.module_path)][:count]


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of the project as the working directory."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        with contextlib.chdir(copy):
            yield copy


def tests_of(name: str) -> tuple[str, ...]:
    """Tests that may notice a mutant of a module."""
    prefix = _prefix(name)
    assert prefix is not None
    return TESTS[prefix]


def passes(tests: Iterable[str], timeout_s: float = TIMEOUT_S, log: str = os.devnull) -> bool:
    """Whether tests pass in a process of their own, which starts with all packages but ours loaded."""
    child = os.fork()
    if not child:
        _run_tests(tests, log)
    ends = time.monotonic() + timeout_s
    while time.monotonic() < ends:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _run_tests(tests: Iterable[str], log: str) -> NoReturn:
    """Run tests, say so in a file, and end the process whatever happens."""
    code: int = CRASHED
    try:
        sys.dont_write_bytecode = True
        with Path(log).open("w", encoding="utf-8") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            code = int(pytest.main([*OPTIONS, *tests]))
    except BaseException:  # noqa: BLE001 - a mutant may do anything
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Run a sample of mutants and print what survived."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=320)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--only", default="", help="part of a module's path")
    options.add_argument(
        "--again", action="store_true", help="only those that survived last, with the tests as they are now"
    )
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    os.nice(15)
    with copied() as root:
        _run(root, chosen)


def _run(root: Path, chosen: argparse.Namespace) -> None:
    specs = sample(root, chosen.count, chosen.seed, chosen.only)
    if chosen.again:
        known = {(one["module"], one["operator"], one["occurrence"]) for one in _last()["survivors"]}
        specs = [one for one in specs if (str(one.module_path), one.operator_name, one.occurrence) in known]
    _check_unmutated({str(spec.module_path) for spec in specs})
    ends, tried = time.monotonic() + 60 * chosen.minutes, []
    survivors: list[Survivor] = []
    for spec in specs:
        if time.monotonic() > ends:
            break
        tried.append(spec)
        operator = get_operator(spec.operator_name)(**spec.operator_args)
        with use_mutation(spec.module_path, operator, spec.occurrence) as (before, after):
            if after is not None and passes(tests_of(str(spec.module_path))):
                survivors.append(_survivor(spec, before, after))
                print(survivors[-1], flush=True)
        if not len(tried) % 10 or spec is specs[-1]:
            print(f"{len(survivors)} of {len(tried)} survived", flush=True)
            if chosen.write and (not chosen.again or spec is specs[-1]):
                result = _result(root, chosen, tried, survivors)
                RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{len(tried) - len(survivors)} of {len(tried)} killed")


def _last() -> dict[str, Any]:
    """The result of the last run that was written."""
    result: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return result


def _result(
    root: Path, chosen: argparse.Namespace, tried: list[MutationSpec], survivors: list[Survivor]
) -> dict[str, object]:
    """What the page on mutants reads; survivors that were tried again replace those of the last run."""
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    if chosen.again:
        return _last() | {"date": today, "survivors": [asdict(one) for one in survivors]}
    counts = Counter(_prefix(str(spec.module_path)) or "" for spec in tried)
    found = {"date": today, "seed": chosen.seed, "places": len(places(root)), "tried": dict(sorted(counts.items()))}
    return found | {"survivors": [asdict(one) for one in survivors]}


def _check_unmutated(names: set[str]) -> None:
    """Every selection passes on the code as it is; this also compiles it, and times the tests."""
    compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "shardplan", "tests"]
    subprocess.run(compiled, check=True)
    for tests in sorted({tests_of(name) for name in names}):
        started = time.monotonic()
        assert passes(tests, 10 * TIMEOUT_S, "unmutated.log"), Path("unmutated.log").read_text(encoding="utf-8")
        print(f"{time.monotonic() - started:.1f} s for {' '.join(tests)}", flush=True)


def _survivor(spec: MutationSpec, before: str, after: str) -> Survivor:
    changed = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[:2] in ("- ", "+ ")]
    old, new = (" ".join(line[2:].strip() for line in changed if line[0] == sign) for sign in "-+")
    return Survivor(str(spec.module_path), spec.start_pos[0], spec.operator_name, spec.occurrence, old, new)


if __name__ == "__main__":
    main()
