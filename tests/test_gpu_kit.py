"""The kit for another machine's GPU: what is packed, what runs there, what is said of failures."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "tools"
#: Modules of the kit, which are no package: they lie beside each other there.
MODULES = ("debian", "kit_packing", "machine", "prepare", "processes", "steps", "summary")


@pytest.fixture(autouse=True)
def _modules_of_the_kit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.syspath_prepend(str(TOOLS / "kit"))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def child(program: str, seconds: float, folder: Path, text: bool = False):  # type: ignore[no-untyped-def]
    import processes

    task = processes.Task("task", ("-c", program), seconds, text=text)
    return processes.do(task, dict(os.environ), time.monotonic() + 60, folder)


@pytest.mark.parametrize(
    "program, status, note",
    [
        ("print('[1]')", "passed", ""),
        ("print('[1]'); raise SystemExit('why')", "failed", "exit code 1: why"),
        ("print('no JSON')", "failed", "exit code 0: no message"),
        (
            "import sys; sys.exit('none') if 0 else (sys.stderr.write('none'), sys.exit(77))",
            "skipped",
            "none",
        ),
        ("import os; os.abort()", "crashed", "SIGABRT: no message"),
    ],
)
def test_how_children_end(program: str, status: str, note: str, tmp_path: Path) -> None:
    outcome = child(program, 30, tmp_path)
    assert (outcome.status, outcome.note) == (status, note)
    assert outcome.answer == ([1] if "[1]" in program else None)


@pytest.mark.long
def test_a_child_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    program = "import subprocess; print('begun', flush=True); subprocess.run(['sleep', '60'])"
    start = time.monotonic()
    outcome = child(program, 2, tmp_path, text=True)
    assert (outcome.status, outcome.answer) == ("timed out", ["begun"])
    assert time.monotonic() - start < 20


@pytest.mark.long
def test_a_child_that_hangs_leaves_what_it_had(tmp_path: Path) -> None:
    lines = r"print('{\"a\": 1}'); print('{\"a\": 2}'); print('{\"a\":', flush=True)"
    outcome = child(f"{lines}; import time; time.sleep(60)", 2, tmp_path)
    assert (outcome.status, outcome.answer) == ("timed out", {"a": 2})


@pytest.mark.long
def test_nothing_begins_behind_the_deadline(tmp_path: Path) -> None:
    import processes

    task = processes.Task("late", ("-c", "1/0"), 9)
    assert processes.do(task, {}, time.monotonic() - 1, tmp_path).status == "left out"
    task = processes.Task("cut off", ("-c", "import time; time.sleep(60)"), 50)
    outcome = processes.do(task, {}, time.monotonic() + 1.5, tmp_path)
    assert outcome.status == "left out" and "the time was up after" in outcome.note


def test_exit_code_and_page_say_what_failed() -> None:
    import processes
    import summary

    def done(*outcomes: str) -> list[summary.Done]:
        made = [processes.Outcome(f"t{i}", s, 1.0, "why") for i, s in enumerate(outcomes)]
        return [summary.Done("verify", "what", 2.0, made)]

    assert summary.exit_code(done("passed", "skipped")) == 0
    assert summary.exit_code(done("passed", "left out")) == 3
    for status in ("failed", "crashed", "timed out"):
        assert summary.exit_code(done("left out", status)) == 1
        page = summary.markdown(done("passed", status), {})
        assert f"- verify: t1: {status}: why" in page
        assert f"| step | passed | {status} | seconds |" in page


def test_no_step_takes_the_time_of_those_behind_it() -> None:
    import steps

    def step(least: float) -> steps.Step:
        return steps.Step("step", "", 100, lambda kit: [], least=least)

    assert steps.seconds_for(step(20), [], 300) == 100
    assert steps.seconds_for(step(20), [], 30) == 30
    assert steps.seconds_for(step(20), [step(60)], 120) == 60
    assert steps.seconds_for(step(60), [step(60)], 100) == 50
    assert steps.seconds_for(step(0), [step(60), step(60)], -5) < 0


def test_wheels_that_fit() -> None:
    import machine

    for wheel, versions in {
        "numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl": {"311"},
        "protobuf-7.36.2-cp310-abi3-manylinux2014_x86_64.whl": {"310", "311", "312"},
        "rich-15.0.0-py3-none-any.whl": {"39", "310", "311", "312"},
        "defusedxml-0.7.1-py2.py3-none-any.whl": {"39", "310", "311", "312"},
    }.items():
        assert {v for v in ("39", "310", "311", "312") if machine.fits(wheel, v)} == versions


def test_dispatches_of_both_profiles_are_joined() -> None:
    joined = _children("dispatches").joined
    key = {"kernel": "k", "label": "l", "groups": [1, 1, 1], "layers": ["a"]}
    copy = {**key, "kernel": "copy", "groups": None, "median": 1.0}
    other = {**key, "label": "m", "median": 2.0}
    static = [
        {**key, "registers": 8},
        {**key, "label": "m", "registers": 9, "modelled": {"time": 3.0}},
    ]
    found = joined([copy, {**key, "median": 1.5}, copy, other], static)
    assert [entry.get("static", {}).get("registers") for entry in found] == [None, 8, None, 9]
    assert [entry.get("modelled") for entry in found] == [None, None, None, 3.0]


def test_networks_are_those_of_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    import kit_packing

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from comparison.networks import NETWORKS

    assert kit_packing._input_shapes() == {name: list(shape) for name, shape in NETWORKS.items()}


def test_a_version_that_is_none_is_refused(tmp_path: Path) -> None:
    import debian
    import kit_packing

    with pytest.raises(debian.Unavailable, match="no version of Python"):
        kit_packing.pack(tmp_path / "kit.tar", "3.x")


def test_packages_that_are_left_out(tmp_path: Path) -> None:
    import debian
    import kit_packing

    names = ["numpy-2.5.5-cp312-cp312-any.whl", "ml_dtypes-0.6-cp312-cp312-any.whl", "b-1-any.whl"]
    for name in names:
        (tmp_path / name).touch()
    kit_packing._leave_out(tmp_path, ["numpy", "ml-dtypes"])
    assert [path.name for path in tmp_path.iterdir()] == ["b-1-any.whl"]
    with pytest.raises(debian.Unavailable, match="no package 'numpy'"):
        kit_packing._leave_out(tmp_path, ["numpy"])


def test_a_package_that_the_kit_lacks_is_told_before_the_wheel_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import debian
    import kit_packing

    def fetched(folder: Path, version: str) -> None:
        folder.mkdir()
        (folder / "numpy-2.5.5-cp312-cp312-any.whl").touch()

    monkeypatch.setattr(kit_packing, "_add_wheels", fetched)
    monkeypatch.setattr(kit_packing, "NETWORKS", tmp_path)
    monkeypatch.setattr(kit_packing, "_add_networks", lambda _: pytest.fail("told late"))
    with pytest.raises(debian.Unavailable, match="no package 'nunpy'; it holds numpy"):
        kit_packing.pack(tmp_path / "kit.tar", "3.12", ["nunpy"])


def test_what_the_wheel_needs_is_read() -> None:
    import kit_packing

    needed = {re.split("[<>=]", text)[0] for text in kit_packing._requirements()}
    assert {"numpy", "vulkan", "ml_dtypes"} <= needed


def test_a_kit_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import kit_packing

    for part in ("networks", "tests", "libraries", "wheels", "vknn"):
        monkeypatch.setattr(kit_packing, f"_add_{part}", lambda *arguments: None)
    monkeypatch.setattr(kit_packing, "MOST_BYTES", 1000)
    monkeypatch.setattr(kit_packing, "NETWORKS", tmp_path)
    with pytest.raises(kit_packing.TooLarge, match=r"more than .*largest: "):
        kit_packing.pack(tmp_path / "kit.tar", "3.11")


@pytest.mark.parametrize("target", [".", "file/kit.tar", "pipe"])
def test_a_target_that_cannot_be_written_is_told_before_packing(
    target: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, str(TOOLS / "gpu_kit"), "pack", str(tmp_path / target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "building" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and str(tmp_path) in line


@pytest.fixture
def hollow_kit(tmp_path: Path) -> Path:
    """A kit with all its files, and nothing in its wheels."""
    kit = tmp_path / "gpu_kit"
    shutil.copytree(TOOLS / "kit", kit, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("wheels", "libraries", "tests", "networks"):
        (kit / folder).mkdir()
    (kit / "networks" / "shapes.json").write_text('{"blazeface": [3, 128, 128]}')
    (kit / "packed.json").write_text("{}")
    (kit / "wheels" / "vknn.tar.xz").write_bytes(b"no archive")
    with zipfile.ZipFile(kit / "wheels" / "cffi-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("cffi.py", "")
    return kit


def run_kit(kit: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and the last line of stderr."""
    command = [sys.executable, "-I", str(kit / "run.py"), *arguments]
    done = subprocess.run(
        command, cwd=kit.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


def test_results_that_cannot_be_written_are_told_before_a_step(hollow_kit: Path) -> None:
    hollow_kit.with_name("file").touch()
    for arguments, text in (
        (["file"], "results cannot be written"),
        (["results", "--archive", "file/results.tar.gz"], "results cannot be written"),
        (["results", "--archive", "."], "this is a folder: name a file"),
        (["results", "--archive", "/dev/null"], "this is no plain file: name a file"),
        (["results", "--time-limit", "nan"], "a number of seconds above 0"),
        (["results", "--time-limit", "-1"], "a number of seconds above 0"),
    ):
        code, line = run_kit(hollow_kit, *arguments)
        assert code == 2 and text in line, line


def test_results_that_a_full_disk_takes_no_more_of(
    hollow_kit: Path,
) -> None:
    """One line; what was there before stays, and nothing half written does."""
    results = hollow_kit.with_name("results")
    results.mkdir()
    (results / "machine.json").write_text("before")
    program = f"""
import resource, signal, sys
sys.path.insert(0, {str(hollow_kit)!r})
import machine, processes, run
machine.prepare = lambda *_: {{}}
processes.do_all = lambda *_: [processes.Outcome("machine", "passed", 0.0, answer="x" * 9999)]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # as a full disk: an OSError
sys.argv = ["run.py", {str(results)!r}, "--only", "machine"]
sys.exit(run.main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: results cannot be written: ") and "machine.json: " in line
    assert [p.name for p in results.iterdir()] == ["machine.json"]
    assert (results / "machine.json").read_text() == "before"


def test_a_kit_takes_the_place_of_an_older_one_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import kit_packing

    (tmp_path / "kit").mkdir()
    target = tmp_path / "kit.tar"
    target.write_text("older")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tarfile.TarFile, "add", full)
        with pytest.raises(OSError, match=r"kit\.tar"):
            kit_packing._write_tar(tmp_path / "kit", target)
    assert target.read_text() == "older"
    kit_packing._write_tar(tmp_path / "kit", target)
    assert tarfile.is_tarfile(target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kit", "kit.tar"]


def test_a_kit_that_is_damaged_says_so(hollow_kit: Path) -> None:
    code, line = run_kit(hollow_kit, "results")
    assert code == 2 and "the kit's wheels cannot be unpacked: " in line
    (hollow_kit / "networks" / "shapes.json").unlink()
    code, line = run_kit(hollow_kit, "results")
    assert code == 2 and "lacks networks/shapes.json: unpack the kit again" in line


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.timeout(900)
def test_a_packed_kit_runs_by_itself(tmp_path: Path, shared: Path) -> None:
    """Unpacked elsewhere, with nothing of this checkout or its environment on the path."""
    import debian
    import kit_packing

    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    try:
        size = kit_packing.pack(tmp_path / "kit.tar", version)
    except debian.Unavailable as error:
        pytest.skip(str(error))
    assert size < 60_000_000
    with tarfile.open(tmp_path / "kit.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    python = getattr(sys, "_base_executable", sys.executable)
    chosen = ["--only", "machine", "devices", "verify", "--networks", "blazeface"]
    archive = tmp_path / "results.tar.gz"
    command = [python, "-I", str(tmp_path / "gpu_kit/run.py"), str(tmp_path / "results"), *chosen]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VKNN"))}
    done = subprocess.run(
        [*command, "--archive", str(archive)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(archive) as tar:
        names = {Path(name).name for name in tar.getnames()}
    steps = ("weights", "machine", "devices", "verify")
    assert names == {"summary.md", *(f"{step}.json" for step in steps)}
    found = json.loads((tmp_path / "results/verify.json").read_text())
    assert [task["name"] for task in found["tasks"]] == ["blazeface fp32", "blazeface fp16"]
    assert "| verify | 2 |" in (tmp_path / "results/summary.md").read_text()


def _children(name: str) -> ModuleType:
    import importlib.util

    path = TOOLS / "kit" / "children" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"kit_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
