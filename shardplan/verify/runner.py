"""Runs the oracle in a process of its own that never outlives us, within a time limit, with its results cached."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardplan.errors import Diagnostic, InputError
from shardplan.machine.chips import resolve_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from shardplan.verify.environment import Environment

ORACLE = Path(__file__).with_name("oracle.py")
TICK_S = 0.5
FORMAT = 1
"""Raised when the meaning of a cached result changes."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the compiler said of one configuration; bytes per JAX device."""

    arguments_bytes: int | None
    temp_bytes: int | None
    peak_bytes: int | None
    needed_bytes: float | None
    """What it would have needed, where it ran out of memory."""
    limit_bytes: float | None
    out_of_memory: bool
    error: str | None
    """Why MaxText or the compiler refused, other than for memory."""
    mesh: dict[str, int]
    seconds: float
    cached: bool = False


def compile_flags(  # noqa: PLR0913 - one argument a part of the request
    environment: Environment,
    flags: Mapping[str, Any],
    topology: str,
    *,
    slices: int = 1,
    time_limit_s: float = 1800.0,
    progress: Callable[[str, float], None] = lambda _stage, _elapsed_s: None,
    cache: Path | None = None,
    stop_after: str = "compile",
) -> Compiled:
    """The compiler's verdict on MaxText flags for a topology.

    `progress` hears the stage and the seconds so far, about twice a second. `cache` is the folder of results (None for
    none). Raises InputError if the time limit passes or the oracle dies; KeyboardInterrupt goes on, with the
    compiler's processes ended.
    """
    request = {"flags": {k: str(v) for k, v in flags.items()}, "topology": topology, "slices": slices}
    key = _key(request | {"stop_after": stop_after}, environment)
    place = cache / f"{key}.json" if cache else None
    if place is not None and place.exists():
        return Compiled(**{**json.loads(place.read_text()), "cached": True})
    host = resolve_cluster(None, accelerator=topology).chip.compile_host.accelerator_type
    asked = _ask(environment, request | {"stop_after": stop_after}, host, time_limit_s, progress)
    result = _compiled(asked)
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(result)))
        partial.replace(place)
    return result


def cache_folder() -> Path:
    """Where results are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shardplan" / "compiled"


def _key(request: Mapping[str, Any], environment: Environment) -> str:
    """Name of a result: everything that can change it."""
    matters = [FORMAT, request, environment.versions, os.environ.get("LIBTPU_INIT_ARGS", "")]
    return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()[:32]


def _ask(
    environment: Environment,
    request: Mapping[str, Any],
    host: str,
    time_limit_s: float,
    progress: Callable[[str, float], None],
) -> dict[str, Any]:
    """The oracle's result for a request, on a machine that libtpu takes for `host`."""
    with tempfile.TemporaryDirectory(prefix="shardplan-") as folder:
        log = Path(folder) / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(  # noqa: S603 - the user's own Python, named by them
                [environment.python, str(ORACLE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                start_new_session=True,
                env={**os.environ, "HOME": folder, "TPU_ACCELERATOR_TYPE": host},
            )
            try:
                assert process.stdin is not None
                process.stdin.write(json.dumps(request).encode())
                process.stdin.close()
                for event in _events(process, time_limit_s, progress):
                    if "result" in event:
                        result: dict[str, Any] = event["result"]
                        return result
            finally:
                _end(process)
        tail = log.read_text(errors="replace").strip().splitlines()[-1:]
    message = f"the compiler's process ended with code {process.returncode} and no result"
    raise InputError([Diagnostic("SP016", message, None, tail[0][:300] if tail else None)])


def _events(
    process: subprocess.Popen[bytes], time_limit_s: float, progress: Callable[[str, float], None]
) -> Iterator[dict[str, Any]]:
    """Events as they come; between them, progress. InputError when the time is over."""
    started, stage, pending = time.monotonic(), "start", b""
    assert process.stdout is not None
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while True:
            elapsed = time.monotonic() - started
            progress(stage, elapsed)
            if elapsed > time_limit_s:
                message = f"no verdict within {time_limit_s:.0f} s (stage: {stage})"
                raise InputError([Diagnostic("SP016", message, None, "raise the limit with --time-limit")])
            if not ready.select(TICK_S):
                continue
            # Guard: a buffered readline could hold back lines that `select` then never announces.
            chunk = os.read(process.stdout.fileno(), 2**16)
            if not chunk:
                return
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                event: dict[str, Any] = json.loads(line)
                stage = event.get("stage", stage)
                progress(stage, time.monotonic() - started)
                yield event


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all it started; nothing is left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _compiled(result: Mapping[str, Any]) -> Compiled:
    """The oracle's result as a record."""
    memory, room = result.get("memory", {}), result.get("out_of_memory")
    return Compiled(
        arguments_bytes=memory.get("argument_size_in_bytes"),
        temp_bytes=memory.get("temp_size_in_bytes"),
        peak_bytes=memory.get("peak_memory_in_bytes"),
        needed_bytes=room["needed_bytes"] if room else None,
        limit_bytes=room["limit_bytes"] if room else None,
        out_of_memory=room is not None,
        error=result.get("error") if room is None else None,
        mesh=result.get("mesh", {}),
        seconds=float(result["seconds"]),
    )
