"""Bundles tried on a device: ``vknn bundle --check`` by vknn and vknn-run, and differences."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.rebuilt import (
    digits_with_example,
    one_step,
    relu,
    with_example,
    with_field,
)
from tests.helpers import shared_device

from vknn.bundle import Bundle, native, schema
from vknn.bundle.comparison import difference
from vknn.bundle.records import BundleExample
from vknn.bundle.suitability import lacking
from vknn.cli.main import main
from vknn.errors import (
    DeviceError,
    VknnError,
)
from vknn.runtime import open_device

pytestmark = pytest.mark.glsl


@pytest.fixture(scope="module")
def program() -> Path:
    return build.program(build.RUNNER / "main.c")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_with_example(tmp_path_factory.mktemp("net"))


@pytest.mark.device
def test_a_check_runs_both(net: Path, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", str(net), "--check", "--runner", str(program), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = [(row["plan"], row["by"], row["ok"]) for row in document["checks"]]
    snapshot = shared_device().snapshot
    plans = [p.index for p in Bundle.open(net).plans if not lacking(p, snapshot)]
    assert 0 in plans and found == [(p, by, True) for p in plans for by in ("vknn", "vknn-run")]
    assert document["ok"] and all(row["max_abs"] < 1e-5 for row in document["checks"])


@pytest.mark.device
def test_a_check_of_subgroups_that_the_device_has_not(
    net: Path, program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runner may ask the driver for them: its word counts, and what suits is checked."""
    with open_device("auto") as device:
        if device.snapshot.api_version < (1, 3, 0):
            pytest.skip("no driver here can be asked for a size of subgroups")
    path, size = tmp_path / "other.vkb", 128
    path.write_bytes(with_field(Bundle.open(net), schema.PLAN, "subgroup_size", size, at=1))
    arguments = ["bundle", str(path), "--check", "--runner", str(program)]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["plan"] for row in document["checks"]} == {0} and document["ok"]
    [left] = document["not by vknn"]
    assert left["plan"] == 1 and "subgroups of 128" in left["lacks"][0]
    assert main([*arguments, "--plan", "1"]) == 2
    text = capsys.readouterr().err
    assert "subgroups of 128" in text and "vknn-run says that the device does not suit" in text


@pytest.mark.device
def test_a_check_by_the_runner_alone(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A driver that has the subgroups which it is asked for: what the program says counts."""
    with open_device("auto") as device:
        if device.snapshot.api_version < (1, 3, 0):
            pytest.skip("no driver here can be asked for a size of subgroups")
    bundle = Bundle.open(net)
    path = tmp_path / "other.vkb"
    path.write_bytes(with_field(bundle, schema.PLAN, "subgroup_size", 128, at=1))
    for off, status in [(0.0, 0), (0.25, 1)]:
        answer = {e.port.name: e.array for e in bundle.plans[1].examples}["probabilities"]
        np.save(tmp_path / "answer.npy", answer + np.float32(off))
        program = tmp_path / "program"
        program.write_text(
            f"#!{sys.executable}\nimport shutil, sys\n"
            "path = sys.argv[sys.argv.index('--output') + 1].partition('=')[2]\n"
            f"shutil.copy({str(tmp_path / 'answer.npy')!r}, path)\n"
        )
        program.chmod(0o755)
        arguments = ["bundle", str(path), "--check", "--plan", "1", "--runner", str(program)]
        assert main([*arguments, "--json"]) == status
        document = json.loads(capsys.readouterr().out)
        assert [(r["plan"], r["by"], r["ok"]) for r in document["checks"]] == [
            (1, "vknn-run", not status)
        ]


@pytest.mark.device
def test_a_check_names_what_differs(
    net: Path,
    program: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bundle = Bundle.open(net)
    example = {e.port.name: e.array for e in bundle.plans[0].examples}
    wrong = example["probabilities"].copy()
    wrong.flat[7] -= 0.25
    bad = tmp_path / "bad.vkb"
    bad.write_bytes(with_example(bundle, example, {"probabilities": wrong}))
    arguments = ["bundle", str(bad), "--check", "--plan", "0", "--runner", str(program)]
    assert main(arguments) == 1
    text = capsys.readouterr().out
    lines = [line for line in text.splitlines() if "probabilities" in line]
    assert len(lines) == 2 and all("WRONG" in line and "1 of 10" in line for line in lines)
    assert "0.25" in lines[0] and " vknn " in lines[0] and " vknn-run " in lines[1]
    monkeypatch.setattr(native, "COMPILERS", ("no-such-compiler",))
    assert main(["bundle", str(net), "--check", "--plan", "0"]) == 0
    assert "vknn-run was not tried: there is no C compiler" in capsys.readouterr().out


@pytest.mark.device
def test_a_check_needs_an_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "relu.vkb"
    path.write_bytes(relu())
    assert main(["bundle", str(path), "--check"]) == 2
    assert "it has no example" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.device
def test_a_checkouts_own_program_is_compiled(tmp_path: Path) -> None:
    if (reason := native.missing_compiler()) is not None:
        pytest.skip(reason)
    path = tmp_path / "relu.vkb"
    path.write_bytes(relu())
    data, answer = one_step()
    program = native.compiled_program(tmp_path)
    [plan] = Bundle.open(path).plans
    assert np.array_equal(native.run_program(program, path, plan, {"data": data})["y"], answer)
    with pytest.raises(DeviceError, match="no device nothing"):
        native.run_program(program, path, plan, {"data": data}, ["--device", "nothing"])


def test_why_there_is_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "COMPILERS", ("no-such-compiler",))
    assert native.missing_compiler() == "there is no C compiler (no-such-compiler): install gcc"
    with pytest.raises(VknnError, match="vknn-run cannot be compiled: there is no C compiler"):
        native.compiled_program(tmp_path)
    monkeypatch.setattr(native, "checkout_root", lambda: None)
    assert "name the program with --runner" in str(native.missing_compiler())


def example(values: list[float], absolute: float = 0.0, relative: float = 0.0) -> BundleExample:
    [port] = Bundle.of(relu()).plans[0].outputs
    array = np.array(values, np.float32)
    return BundleExample(replace(port, shape=array.shape), array, absolute, relative)


def test_differences_are_measured() -> None:
    nan, inf = np.nan, np.inf
    for told, got, wrong in [
        (example([1, nan, inf]), [1, nan, inf], 0),
        (example([1, 2]), [1, np.nextafter(np.float32(2), 3)], 1),
        (example([1, 100], 0.5, 0.1), [1.5, 110], 0),
        (example([1, 100], 0.5, 0.1), [1.7, 111], 2),
        (example([1, 2], 10.0), [nan, inf], 2),
        (example([nan, inf], 10.0), [1, -inf], 2),
    ]:
        row = difference(told, np.array(got, np.float32), "x")
        assert (row.wrong, row.ok) == (wrong, not wrong), row
        json.dumps(row.to_json(), allow_nan=False)
    row = difference(example([1, 2, 3], 1.0), np.array([1, 2.5, 5], np.float32), "x")
    assert (row.max_abs, row.of_limit, row.worst, row.wrong) == (2.0, 2.0, (2,), 1)
    row = difference(example([1, 2]), np.array([1], np.float32), "x")
    assert not row.ok and row.note == "float32[1] in place of float32[2]"
