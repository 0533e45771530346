"""The command line, run in this process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from tests.small_model import SHAPE, write_small_model

from vknn.cli import main
from vknn.cli.output import progress
from vknn.ops.pooling.pool import GlobalAveragePool


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def array(tmp_path: Path) -> Path:
    path = tmp_path / "data.npy"
    np.save(path, np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32))
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    code = main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


def run_json(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 0):  # type: ignore[no-untyped-def]
    found, out, err = run(capsys, *argv, "--json")
    assert found == code, err
    assert err == ""
    return json.loads(out)


@pytest.mark.device
def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    devices = run_json(capsys, "devices")
    assert sum(d["default"] for d in devices) == 1
    code, out, _ = run(capsys, "devices")
    assert code == 0
    assert devices[0]["name"].split()[0] in out
    for device in devices:
        assert device["names"] == [f"uuid:{UUID(device['uuid'])}"] + (
            [f"pci:{device['pci']}"] if device["pci"] else []
        )
        assert all(name in out for name in device["names"])


@pytest.mark.device
def test_a_device_by_a_name_that_lasts(
    capsys: pytest.CaptureFixture[str], model: Path, array: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the option and by the switch, which \"vknn devices\" marks."""
    default = next(d for d in run_json(capsys, "devices") if d["default"])
    name = default["names"][0]
    found = run_json(capsys, "run", model, "--input", array, "--device", name)
    monkeypatch.setenv("VKNN_DEVICE", name)
    meant = next(d for d in run_json(capsys, "devices") if d["default"])
    assert found["device"] == meant["name"]
    assert meant["uuid"] == default["uuid"]
    code, _, err = run(capsys, "run", model, "--input", array, "--device", name[:-1])
    assert code == 2
    assert "write it as uuid: and 32 hexadecimal digits" in err


def test_info(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    found = run_json(capsys, "info", model)
    assert found["inputs"] == [
        {"name": "data", "shape": None, "hint": list(SHAPE), "dtype": "float32"}
    ]
    assert found["layers"]["Convolution"] == 1
    assert found["operators"]["Conv+Add"] == 1
    assert found["parameters"] > 200
    code, out, _ = run(capsys, "info", model)
    assert code == 0
    assert "the file suggests 3, 8, 8" in out


@pytest.mark.device
def test_info_graph_and_plan(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    code, before, _ = run(capsys, "info", model, "--graph", "before")
    assert code == 0
    assert "= Relu()" in before
    _, after, _ = run(capsys, "info", model, "--graph", "--shape", "3,4,4")
    assert "Conv+Relu" in after
    assert "float32[1, 6, 4, 4]" in after
    _, unfused, _ = run(capsys, "info", model, "--graph", "--disable", "fusion")
    assert "Conv+Relu" not in unfused
    code, plan, _ = run(capsys, "info", model, "--plan")
    assert code == 0
    assert plan.startswith("plan small")
    both = run_json(capsys, "info", model, "--plan", "--graph")
    assert both["plans"] == [plan]


def test_run_prints_the_best_scores(
    capsys: pytest.CaptureFixture[str], model: Path, array: Path, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("zero\none\ntwo\nthree\n???\n")
    found = run_json(capsys, "run", model, "--input", array, "--labels", labels, "--top", 9)
    (output,) = found["outputs"]
    assert output["name"] == "out"
    top = output["top"]
    assert [t["index"] for t in top] != []
    assert sum(t["score"] for t in top) == pytest.approx(1, abs=1e-5)
    assert [t["score"] for t in top] == sorted((t["score"] for t in top), reverse=True)
    names = {t["index"]: t["label"] for t in top}
    assert (names[1], names[4]) == ("one", None)
    code, out, _ = run(capsys, "run", model, "--input", f"data={array}", "--labels", labels)
    assert code == 0
    assert "zero" in out


def test_run_on_files_and_folders(
    capsys: pytest.CaptureFixture[str], model: Path, array: Path, tmp_path: Path
) -> None:
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("b.png", "a.jpg"):
        image.new("RGB", (9, 7), (1, 2, 3)).save(folder / name)
    (folder / "notes.txt").write_text("no input")
    argv = ("run", model, array, folder, "--device", "numpy")
    code, out, err = run(capsys, *argv, "--top", 2)
    assert (code, err) == (0, "")
    files = [str(array), str(folder / "a.jpg"), str(folder / "b.png")]
    assert [line.split(": ")[0] for line in out.splitlines()] == files
    assert ": out " in out
    code, out, _ = run(capsys, *argv, "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [entry["file"] for entry in found] == files
    assert len(found[0]["outputs"][0]["top"]) == 5
    code, _, err = run(capsys, *argv, "--input", array)
    assert (code, "all inputs are given" in err) == (2, True)
    code, _, err = run(capsys, *argv, "--output", tmp_path / "out.npz")
    assert (code, "give its input with --input" in err) == (2, True)


def test_files_may_stand_behind_options(
    capsys: pytest.CaptureFixture[str], model: Path, array: Path
) -> None:
    expected = run(capsys, "run", model, array, array, "--device", "numpy")
    assert (expected[0], expected[1].count("\n"), expected[2]) == (0, 2, "")
    assert run(capsys, "run", model, "--device", "numpy", array, array) == expected
    assert run(capsys, "run", model, array, "--device", "numpy", array) == expected
    for argv in (["run", model, "--nosuch", array], ["info", model, array]):
        with pytest.raises(SystemExit):
            main([str(a) for a in argv])
        assert "unrecognized arguments" in capsys.readouterr().err


def test_files_are_for_the_input_that_is_left(
    capsys: pytest.CaptureFixture[str], array: Path, tmp_path: Path
) -> None:
    path = tmp_path / "two.param"
    path.write_text("7767517\n3 3\nInput a 0 1 a\nInput b 0 1 b\nBinaryOp s 2 1 a b s 0=0\n")
    argv = ("run", path, array, "--device", "numpy")
    code, _, err = run(capsys, *argv)
    assert (code, "these are left: a, b" in err) == (2, True)
    code, out, _ = run(capsys, *argv, "--input", f"b={array}")
    assert (code, out.startswith(f"{array}: s float32")) == (0, True)


@pytest.mark.device
def test_run_writes_npz(
    capsys: pytest.CaptureFixture[str], model: Path, array: Path, tmp_path: Path
) -> None:
    inputs = tmp_path / "in.npz"
    np.savez(inputs, data=np.load(array), other=np.zeros(3))
    results = []
    for device, given in (("vulkan", inputs), ("numpy", array)):
        target = tmp_path / f"{device}.npz"
        argv = ("run", model, "--input", given, "--output", target, "--device", device)
        assert run(capsys, *argv)[0] == 0
        with np.load(target) as arrays:
            results.append(arrays["out"])
    np.testing.assert_allclose(results[0], results[1], atol=1e-5)


def test_verify_that_checks_nothing_fails(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    code, out, _ = run(capsys, "verify", model, "--device", "numpy")
    assert code == 1
    assert "nothing to compare" in out
    assert run_json(capsys, "verify", model, "--device", "numpy", code=1)["checked"] == 0


@pytest.mark.parametrize("command", ["run --output", "verify --dump"])
def test_errors_name_the_file_on_a_full_disk(
    capsys: pytest.CaptureFixture[str], model: Path, array: Path, command: str
) -> None:
    name, option = command.split()
    argv = (name, model, "--input", array, "--device", "numpy", option, "/dev/full")
    code, _, err = run(capsys, *argv)
    assert (code, err) == (2, "vknn: error: /dev/full: No space left on device\n")


@pytest.mark.device
def test_verify(
    capsys: pytest.CaptureFixture[str],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dump = tmp_path / "dump.npz"
    code, out, _ = run(capsys, "verify", model, "--dump", dump)
    assert code == 0
    assert "operators agree" in out
    assert dump.stat().st_size > 1000
    code, out, _ = run(capsys, "verify", model, "--failures")
    assert code == 0
    assert "conv1" not in out
    true = GlobalAveragePool.reference
    monkeypatch.setattr(GlobalAveragePool, "reference", lambda self, x: (true(self, x)[0] + 1,))
    found = run_json(capsys, "verify", model, code=1)
    assert found["ok"] is False
    assert found["first_failure"].startswith("pool")
    code, out, _ = run(capsys, "verify", model, "--failures")
    assert code == 1
    assert "first out of tolerance: GlobalAveragePool" in out


def test_profile(capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    found = run_json(
        capsys, "profile", model, "--runs", 1, "--warmup", 0, "--trace", trace, "--shape", "3x6x6"
    )
    assert found["runs"] == 1
    assert json.loads(trace.read_text())["traceEvents"]
    code, out, _ = run(capsys, "profile", model, "--runs", 1, "--sort", "time", "--limit", 2)
    assert code == 0
    assert "GPU busy" in out


@pytest.mark.device
def test_bench(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    argv = ("bench", model, "--runs", 1, "--warmup", 0)
    found = run_json(capsys, *argv, "--random-weights", "--empty-caches", "--device", "vulkan")
    assert set(found["cold_start"]) >= {"load", "plan", "pipelines", "first run"}
    code, out, _ = run(capsys, *argv, "--device", "numpy")
    assert code == 0
    assert "cold start" in out


ERRORS = [
    (["run", "nosuch.param"], "nosuch.param: no such file"),
    (["run", "MODEL"], "missing input 'data'"),
    (["run", "MODEL", "--input", "nosuch.npy"], "nosuch.npy: no such file"),
    (["run", "MODEL", "--input", "x=y", "--input", "z"], "no input 'x'; the inputs are data"),
    (["run", "MODEL", "--input", "x=nosuch.npy"], "there is no input 'x'; the inputs are data"),
    (["run", "MODEL", "--input", "y", "--input", "z"], "two files for input 'data'"),
    (["run", "MODEL", "--input", "SMALL", "--labels", "nosuch"], "nosuch: no such file"),
    (["run", "MODEL", "--input", "MODEL"], "is neither .npy, .npz nor a picture"),
    (["run", "MODEL", "--input", "FLAT"], "takes 1 group(s) of 3 channels, not 6|channels"),
    (["run", "MODEL", "--device", "nosuch", "--input", "SMALL"], "no device matches 'nosuch'"),
    (["run", "MODEL", "--weights", "nosuch.bin"], "nosuch.bin: no such weights file"),
    (["verify", "MODEL", "--shape", "3,a"], "'3,a' is no shape"),
    (["verify", "MODEL", "--shape", "x=3,4"], "there is no input 'x'; the inputs are data"),
    (["info", "MODEL", "--disable", "fusion,x"], "--disable names x; known are texel,"),
    (["profile", "MODEL", "--runs", "0"], "at least one run"),
    (["info", "MODEL", "--plan", "--shape", "7,8,8"], "channels"),
]


def needs_device(argv: list[str]) -> list[pytest.MarkDecorator]:
    return [pytest.mark.device] if "--device" in argv or "--plan" in argv else []


@pytest.mark.parametrize(
    ("argv", "message"),
    [pytest.param(*case, marks=needs_device(case[0]), id=" ".join(case[0])) for case in ERRORS],
)
def test_errors_are_one_line(
    capsys: pytest.CaptureFixture[str],
    model: Path,
    tmp_path: Path,
    array: Path,
    argv: list[str],
    message: str,
) -> None:
    flat = tmp_path / "flat.npy"
    np.save(flat, np.zeros((6, 8, 8), np.float32))
    paths = {"MODEL": str(model), "FLAT": str(flat), "SMALL": str(array)}
    code, out, err = run(capsys, *(paths.get(a, a) for a in argv))
    assert code == 2
    assert out == ""
    assert err.startswith("vknn: error: ")
    assert err.count("\n") == 1
    assert any(m in err for m in message.split("|")), err


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKNN_DEBUG", "1")
    code, _, err = run(capsys, "run", "nosuch.param")
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("vknn: error: ")


def test_errors_of_our_own_say_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model: Path
) -> None:
    monkeypatch.setattr("vknn.cli.info.run", lambda args: 1 / 0)
    code, _, err = run(capsys, "info", model)
    assert code == 3
    assert err == (
        "vknn: internal error: ZeroDivisionError: division by zero (VKNN_DEBUG=1 shows where)\n"
    )
    monkeypatch.setattr("vknn.cli.info.run", lambda args: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run(capsys, "info", model)[0] == 130


def test_progress_goes_to_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress("x") as tell:
        assert tell is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress("x") as tell:
        assert tell is not None
        tell(1, 2, "something")
    with progress("x", quiet=True) as tell:
        assert tell is None


@pytest.mark.parametrize("command", ["info", "run", "verify", "profile", "bench", "tune"])
def test_help_speaks_of_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no names of Python's in it: values are N, NAME or FILE, as docs/command-line.md."""
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    out = capsys.readouterr().out
    assert "('" not in out
    values = re.findall(r"--([\w-]+) ([A-Z_]+)\b", out)
    assert {value for _, value in values} <= {"N", "NAME", "NAMES", "FILE", "FOLDER", "FACTOR",
                                              "OPTIONS", "SECONDS", "W"}  # fmt: skip
    assert ("weights", "FILE") in values
    assert ("device", "NAME") in values


def test_what_is_required_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run"])
    assert capsys.readouterr().err.endswith("arguments are required: model\n")


@pytest.mark.long
def test_the_module_runs_and_knows_its_commands() -> None:
    for argv, code in ((["--help"], 0), (["--version"], 0), ([], 2), (["nosuch"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "vknn", *argv], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "vknn", "bench", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--peer" in done.stdout
