"""The Dockerfile, step by step: its image starts as it will in a cluster, and stays small."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import __version__
from exporter.settings import Settings
from tests.daemon import Daemon
from tests.deploy.conftest import ROOT
from tests.deploy.container import PORT, free_port, run, running
from tests.deploy.image import Image, build
from tests.deploy.tools import tool

DOCKERFILES = ("Dockerfile", "deploy/docker/vllm.Dockerfile")
MAX_BYTES = 120_000_000
LEDGER_SERIES = (
    'gpu_memory_ledger_bytes{device="cuda:0",owner="weights",'
    'uuid="GPU-00000001-0000-4000-8000-000000000001"}'
)

pytestmark = pytest.mark.timeout(300)  # pip fetches what the image holds


@pytest.fixture(scope="module")
def image(public_directory: Path) -> Image:
    """The exporter's image, its tree read-only."""
    image = build(ROOT / "Dockerfile", ROOT, public_directory, {})
    subprocess.run(["chmod", "-R", "a-w", image.root], check=True)
    return image


@pytest.fixture(scope="module")
def port() -> str:
    return free_port()


@pytest.fixture(scope="module")
def daemon(image: Image, port: str) -> Iterator[Daemon]:
    """The image's own command, on a free port."""
    listen = ["--web.listen-address", f"127.0.0.1:{port}"]
    with running(image, [*image.command, *listen]) as daemon:
        yield daemon


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_hadolint_finds_nothing(dockerfile: str) -> None:
    result = subprocess.run(
        [tool("hadolint"), ROOT / dockerfile], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "")


def test_the_context_holds_what_is_copied_and_nothing_else() -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {pattern[1:] for pattern in patterns if pattern.startswith("!")}
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert "*" in patterns
    assert let_in == set(" ".join(copied).split())
    assert all((ROOT / name).exists() for name in let_in)


def test_the_image_says_what_it_is(image: Image) -> None:
    labels = {key.removeprefix("org.opencontainers.image."): v for key, v in image.labels.items()}
    assert labels["title"] == "vllm-memory-exporter"
    assert labels["version"] == __version__
    assert labels["licenses"] == "Apache-2.0"
    assert labels["revision"] == "unknown"
    assert image.user == "65532:65532"
    assert image.ports == [PORT]
    assert Settings().web_listen_address == f":{PORT}"


def test_every_base_is_pinned_by_its_whole_version() -> None:
    (default,) = re.findall(r"^ARG PYTHON=(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", default)
    assert set(bases) == {"${PYTHON}"}


def test_it_adds_little_to_its_base(image: Image, capsys: pytest.CaptureFixture[str]) -> None:
    size = image.size_bytes()
    with capsys.disabled():
        print(f"\nthe image adds {size:,} bytes to its base")  # noqa: T201 (a measured figure)
    assert 5_000_000 < size <= MAX_BYTES


def test_no_build_tool_is_left(image: Image) -> None:
    packages = {path.name.split("-")[0] for path in image.root.rglob("*.dist-info")}
    assert "vllm_memory_exporter" in packages
    assert packages.isdisjoint({"pip", "setuptools", "wheel", "hatchling"})


@pytest.mark.parametrize("path", ["/opt/exporter/new", "/wheels/new", "/dev/shm/new"])
def test_here_too_it_can_write_nothing(image: Image, path: str) -> None:
    where = image.here(path)
    code = f"import os; f = open({where!r}, 'w'); os.unlink({where!r}); f.write('x'); f.flush()"
    result = run(image, ["python", "-c", code])
    assert result.returncode != 0
    assert any(reason in result.stderr for reason in ("Permission denied", "File too large"))


def test_without_gpu_it_serves_and_says_what_is_missing(daemon: Daemon) -> None:
    samples = daemon.wait_for(
        lambda samples: 'vllm_memory_exporter_source_up{source="nvml"}' in samples
    )
    assert samples['vllm_memory_exporter_source_up{source="nvml"}'] == 0
    assert any(name.startswith("vllm_memory_exporter_build_info") for name in samples)


def test_the_health_check_tells_a_running_from_a_missing_daemon(
    image: Image, daemon: Daemon, port: str
) -> None:
    def check(port: str) -> int:
        command = [word.replace(PORT, port) for word in image.healthcheck]
        assert command != image.healthcheck
        return run(image, command).returncode

    assert daemon.get("/-/healthy")[0] == 200
    assert check(port) == 0
    assert check(free_port()) == 1


def test_the_demo_runs_in_it_and_ends_when_told(image: Image) -> None:
    listen = ["--web.listen-address", "127.0.0.1:0", "--replay.freeze-at", "25"]
    with running(image, ["demo", *listen]) as daemon:
        samples = daemon.wait_for(lambda samples: LEDGER_SERIES in samples)
        assert samples[LEDGER_SERIES] == 8_032_625_152  # half of the model: two ranks
        assert daemon.terminate() == 0


@pytest.mark.parametrize("engine_user", ["0:0", "2000:0", "1000650000:0"])
def test_the_exporter_reads_what_an_engine_of_another_user_writes_and_rotates(
    image: Image, public_directory: Path, engine_user: str
) -> None:
    """As in an emptyDir: anyone may write, and the plugin alone writes and deletes."""
    trace = public_directory / f"trace-{engine_user.partition(':')[0]}"
    trace.mkdir()
    trace.chmod(0o777)
    name = "vllm-0.engine.dp0.r0.7-1.jsonl"
    line = '{"page_table": {"num_pages": 42, "contiguous_pages": 17}}\n'
    writer = (
        "from pathlib import Path; from exporter.plugin.trace_file import TraceFile\n"
        f"file = TraceFile(Path({str(trace)!r}), {name!r}, 65536)\n"
        f"line = {line!r}.encode()\n"
        "while not Path(f'{file.path}.1').exists():\n"
        "    file.prepare(len(line)); file.append(line)"
    )
    written = run(image, ["python", "-c", writer], user=engine_user, is_read_only=False)
    assert (written.returncode, written.stderr) == (0, "")
    flags = ["--no-nvml", f"--trace.path={trace}", "--web.listen-address=127.0.0.1:0"]
    with running(image, ["serve", *flags]) as daemon:
        ratios = [
            value
            for series, value in daemon.wait_for(has_contiguity).items()
            if series.startswith("vllm_page_table_contiguity_ratio")
        ]
    assert ratios == [pytest.approx(17 / 42)]


def has_contiguity(samples: dict[str, float]) -> bool:
    return any(series.startswith("vllm_page_table_contiguity_ratio") for series in samples)


def test_the_plugin_recipe_installs_one_package_that_vllm_finds(
    image: Image, public_directory: Path
) -> None:
    place = public_directory / "vllm"
    place.mkdir()
    recipe = ROOT / "deploy/docker/vllm.Dockerfile"
    build(recipe, ROOT, place, {"vllm-memory-exporter:0.1.0": image.root})
    code = (
        "import sys; before = set(sys.modules)\n"
        "from importlib.metadata import entry_points\n"
        "(point,) = entry_points(group='vllm.general_plugins')\n"
        "before |= set(sys.modules)\n"
        "point.load()()\n"
        "loaded = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(point.name, sorted(loaded - sys.stdlib_module_names))"
    )
    output = subprocess.run(
        [place / "base/bin/python", "-c", code],
        env={"VLLM_MEMORY_TRACE_DIR": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout
    assert output == "vllm_memory_exporter ['exporter']\n"
    listing = ["pip", "list", "--format=freeze", "--exclude=pip", "--exclude=setuptools"]
    installed = subprocess.run(
        [place / "base/bin/python", "-m", *listing],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert installed == f"vllm-memory-exporter=={__version__}\n"


def test_the_documented_recipe_is_the_tested_one() -> None:
    lines = (ROOT / "deploy/docker/vllm.Dockerfile").read_text().splitlines()
    recipe = "\n".join(line for line in lines if not line.startswith("#"))
    assert recipe.count("\n") == 1
    assert recipe in (ROOT / "docs/deployment.md").read_text()


def test_the_recipes_take_the_version_that_is_built() -> None:
    for dockerfile in DOCKERFILES:
        text = (ROOT / dockerfile).read_text()
        assert set(re.findall(r"vllm-memory-exporter:([\w.]+)", text)) == {__version__}
