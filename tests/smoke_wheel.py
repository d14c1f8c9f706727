"""Builds the wheel, installs it into a clean environment, and plans a shipped case from another folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the smoke test; any failing step ends it with that step's error."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT))
        (wheel,) = place.glob("shardplan-*.whl")
        venv.create(place / "clean", with_pip=False)
        python = place / "clean" / "bin" / "python"
        # Guard: our pip installs there; a pip of its own would take longer than all the rest.
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check", wheel)
        shardplan = python.with_name("shardplan")
        data = "from shardplan import data; print(data.rules_folder(), data.model_configs_folder())"
        folders = run(python, "-c", data, cwd=place)
        assert all(str(place) in path for path in folders.split()), f"data outside of the wheel: {folders}"
        run(shardplan, "--help", cwd=place)
        run(shardplan, "rules", cwd=place)
        case = shutil.copy(ROOT / "model_configs" / "cases" / "llama3.1-70b-8k.yaml", place)
        sys.stdout.write(run(shardplan, "recommend", case, cwd=place))


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
