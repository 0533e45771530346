"""Tools around bundles: ``vknn bundle``, the C library over ctypes, profiles of vknn-run."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.rebuilt import DIGITS, digits, rebuilt, relu, with_example, with_field

import vknn
from vknn.bundle import Bundle, Runner, native, schema, trial
from vknn.bundle.comparison import difference
from vknn.bundle.records import BundleExample
from vknn.bundle.suitability import lacking
from vknn.bundle.trial import suiting_plans
from vknn.cli.main import main
from vknn.errors import (
    DeviceError,
    DeviceTimeoutError,
    InputError,
    ModelFormatError,
    OutOfMemoryError,
    VknnError,
)
from vknn.plan import CooperativeMatrix
from vknn.runtime import Snapshot, open_device

pytestmark = pytest.mark.glsl


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def program() -> Path:
    return build.program(build.RUNNER / "main.c")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo model with the reference's answer as its example."""
    path = tmp_path_factory.mktemp("net") / "net.vkb"
    plain = Bundle.of(digits("generic", "llvmpipe"))
    [port] = plain.plans[0].inputs
    image = np.random.default_rng(3).random((1, 8, 8), np.float32)
    with vknn.Session(DIGITS, device="cpu") as session:
        answer = session.run({"image": image})
    path.write_bytes(with_example(plain, {"image": image.reshape(port.shape)}, answer))
    return path


def one_step() -> tuple[np.ndarray, np.ndarray]:
    """An input of the bundle of one step, and its answer."""
    [port] = Bundle.of(relu()).plans[0].inputs
    data = np.random.default_rng(0).standard_normal(port.shape).astype(np.float32)
    return data, np.maximum(data, 0)


def test_a_bundle_is_described(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", str(net), "--json", "--layers"]) == 0
    document = json.loads(capsys.readouterr().out)
    bundle = Bundle.open(net)
    assert (document["sha256"], document["bytes"]) == (bundle.sha256, net.stat().st_size)
    assert sum(document["sections"].values()) < document["bytes"]
    assert {kernel for module in document["modules"] for kernel in module["kernels"]} >= {
        "convolution/conv"
    }
    generic, llvmpipe = document["plans"]
    assert (generic["target"], llvmpipe["target"]) == ("generic", "llvmpipe")
    assert generic["inputs"][0]["name"] == "image" and generic["inputs"][0]["dtype"] == "float32"
    assert generic["example"] and generic["weights"] == bundle.plans[0].weight_bytes
    assert "convolution1+relu1" in [layer["layers"] for layer in generic["layers"]]
    assert sum(layer["flops"] for layer in generic["layers"]) == generic["work"]
    assert main(["bundle", str(net), "--plan", "1", "--layers"]) == 0
    text = capsys.readouterr().out
    assert bundle.sha256 in text and "plan 1: digits, llvmpipe, fp32" in text
    assert "convolution1+relu1" in text and "plan 0" not in text


def test_wrong_uses_are_told(net: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    changed = bytearray(net.read_bytes())
    changed[-1] ^= 1
    (tmp_path / "bad.vkb").write_bytes(changed)
    for arguments, text in [
        ([str(net), "--plan", "2"], "there is no plan 2; it has 2"),
        ([str(net), "--runner", "x"], "--runner needs --check"),
        ([str(DIGITS)], "this is no bundle"),
        ([str(tmp_path / "bad.vkb")], "SHA-256"),
    ]:
        assert main(["bundle", *arguments]) == 2
        assert text in capsys.readouterr().err


@pytest.mark.device
def test_a_check_runs_both(net: Path, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", str(net), "--check", "--runner", str(program), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = [(row["plan"], row["by"], row["ok"]) for row in document["checks"]]
    assert found == [(p, by, True) for p in (0, 1) for by in ("vknn", "vknn-run")]
    assert document["ok"] and all(row["max_abs"] < 1e-5 for row in document["checks"])


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
    monkeypatch.setattr(native, "_HEADER", "#include <no/such/header.h>\n")
    if native._compiler() is not None:
        assert "no Vulkan headers: install" in str(native.missing_compiler())
    monkeypatch.setattr(native, "COMPILERS", ("no-such-compiler",))
    assert native.missing_compiler() == "there is no C compiler (no-such-compiler): install gcc"
    with pytest.raises(VknnError, match="vknn-run cannot be compiled: there is no C compiler"):
        native.compiled_program(tmp_path)
    monkeypatch.setattr(native, "checkout_root", lambda: None)
    assert "name the program with --runner" in str(native.missing_compiler())


@pytest.mark.device
def test_a_device_that_suits_no_plan(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Bundle.open(net)
    with pytest.raises(VknnError, match=r"phone suits no plan: plan 0 \(generic\) needs .*generic"):
        suiting_plans(bundle.plans[:1], replace(able(), max_storage_buffers=1))
    monkeypatch.setattr(trial, "lacking", lambda plan, snapshot: ["legs"])
    with (
        open_device("auto") as device,
        pytest.raises(VknnError, match="which lacks legs: choose another with --plan"),
    ):
        trial.try_plan(bundle, bundle.plans[0], device)


def able() -> Snapshot:
    """A device that can run the demo model's plans."""
    features = frozenset(("subgroup_shuffle", "subgroup_arithmetic"))
    return Snapshot(
        name="phone", features=features, subgroup_size=8, max_storage_buffers=8,
        shared_memory=32768, max_group_size=(256, 256, 64), max_group_invocations=256,
        storage_alignment=16, texel_alignment=16,
    )  # fmt: skip


def test_what_a_device_lacks() -> None:
    generic, llvmpipe = Bundle.of(digits("generic", "llvmpipe")).plans
    assert lacking(generic, Snapshot()) == [], "the generic plan needs what Vulkan 1.1 has"
    assert lacking(generic, able()) == lacking(llvmpipe, able()) == []
    for plan, change, text in [
        (llvmpipe, {"features": frozenset()}, "subgroup_shuffle"),
        (llvmpipe, {"subgroup_size": 32}, "subgroups of 8 (it has 32)"),
        (llvmpipe, {"texel_alignment": 1024}, "texel views at multiples of 256 (it wants 1024)"),
        (generic, {"max_storage_buffers": 1}, "storage buffers of a pipeline (it has 1)"),
        (generic, {"max_group_invocations": 32}, "128 lanes of a workgroup (it has 32)"),
        (generic, {"max_group_size": (8, 256, 64)}, "lanes of a workgroup in x (it has 8)"),
        (generic, {"max_storage_buffer_range": 99}, "bytes of a storage buffer (it has 99)"),
        (generic, {"max_push_constants": 16}, "bytes of push constants (it has 16)"),
        (generic, {"shared_memory": 64}, "bytes of shared memory (it has 64)"),
        (generic, {"api_version": (1, 0, 3)}, "Vulkan 1.1 (it has 1.0.3)"),
    ]:
        found = lacking(plan, replace(able(), **change))  # type: ignore[arg-type]
        assert any(text in lack for lack in found), (change, found)


def test_cooperative_matrices_are_needed_by_their_sizes() -> None:
    bundle = Bundle.of(digits("generic", "llvmpipe"))
    plans = bundle.tables[schema.PLAN].copy()
    plans[0]["matrices"], plans[0]["features"] = 1, plans[0]["features"] | np.uint64(0x300)
    rows = np.array([(16, 16, 8, 0, 1, 0)], schema.MATRIX.dtype).tobytes()
    plan = Bundle.of(rebuilt(bundle, {"plan": plans.tobytes(), "matrix": rows})).plans[0]
    text = "products of cooperative matrices 16x16x8 of float16 into float32"
    assert {text, "cooperative_matrix", "full_subgroups"} <= set(lacking(plan, able()))
    has = able().features | {"cooperative_matrix"}
    product = CooperativeMatrix(16, 16, 8)
    assert lacking(plan, replace(able(), features=has, cooperative=(product,))) == []


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


@pytest.mark.device
def test_the_library_runs_a_bundle(library: Path, net: Path, tmp_path: Path) -> None:
    bundle = Bundle.open(net)
    given = {e.port.name: e.array for e in bundle.plans[0].examples}
    with Runner(net, library=library, target="llvmpipe", cache=tmp_path) as runner:
        assert list(runner.inputs) == ["image"] and list(runner.outputs) == ["probabilities"]
        assert runner.inputs["image"].shape == bundle.plans[1].inputs[0].shape
        assert runner.memory >= bundle.plans[1].weight_bytes and runner.device
        first = runner.run({"image": given["image"]})["probabilities"]
        np.testing.assert_allclose(first, given["probabilities"], rtol=1e-4, atol=1e-6)
        assert runner.test() == (True, runner.test()[1]) and "probabilities" in runner.test()[1]
        steps = json.loads(runner.profile(2))["steps"]
        assert "convolution1+relu1" in [step["label"] for step in steps]
    with pytest.raises(VknnError, match="the runner was closed"):
        runner.run({"image": given["image"]})


@pytest.mark.device
def test_memory_is_borrowed(library: Path) -> None:
    data, answer = one_step()
    for staged in (False, True):
        with Runner(relu(), library=library, staged=staged) as runner:
            with pytest.raises(InputError, match="missing input 'data'"):
                runner.run({})
            runner.borrow("data")[...] = data
            assert np.array_equal(runner.run({})["y"], answer)
            runner.borrow("data")[...] = -data
            runner.submit()
            runner.wait()
            assert np.array_equal(runner.borrow("y"), np.maximum(-data, 0))
            runner.reset()


@pytest.mark.device
def test_errors_have_their_kinds(library: Path, net: Path, tmp_path: Path) -> None:
    data, _ = one_step()
    (tmp_path / "cut.vkb").write_bytes(net.read_bytes()[:-100])
    pinned = Bundle.open(net).sha256
    Runner(net, library=library, sha256=pinned).close()
    cases: list[tuple[Any, dict[str, Any], type[VknnError], str]] = [
        (tmp_path / "none.vkb", {}, ModelFormatError, "none.vkb"),
        (tmp_path / "cut.vkb", {}, ModelFormatError, "cut"),
        (b"nothing", {}, ModelFormatError, "bundle"),
        (net, {"sha256": "0" * 64}, ModelFormatError, "SHA-256"),
        (net, {"sha256": "0"}, InputError, "64 hexadecimal digits"),
        (net, {"target": "mali"}, InputError, "mali"),
        (net, {"shapes": "image=9"}, InputError, "image=9"),
        (net, {"device": "nothing"}, DeviceError, "nothing"),
        (net, {"memory_limit": 100}, OutOfMemoryError, "100"),
        (net, {"library": tmp_path / "no.so"}, VknnError, "no library of vknn_run"),
        (net, {"library": "libc.so.6"}, VknnError, "no library of vknn_run"),
    ]
    for bundle, options, kind, text in cases:
        with pytest.raises(kind, match=text):
            Runner(bundle, **{"library": library, **options})
    with Runner(relu(), library=library) as runner:
        for feeds, text in [
            ({"x": data}, "missing input 'data'"),
            ({"data": data, "x": data}, "there is no input 'x'; there are data"),
            ({"data": data[0]}, "'data' is float32"),
            ({"data": data.astype("f8")}, "'data' is float64"),
        ]:
            with pytest.raises(InputError, match=text):
                runner.run(feeds)
        with pytest.raises(InputError, match="no output 'x'"):
            runner.borrow("x")
        with pytest.raises(InputError, match="no example"):
            runner.test()
    with (
        pytest.raises(DeviceTimeoutError),
        Runner(net, library=library, target="generic", time_limit=1e-9) as runner,
    ):
        runner.run({"image": np.zeros(runner.inputs["image"].shape, np.float32)})


def test_the_library_has_to_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VKNN_RUNNER", raising=False)
    with pytest.raises(VknnError, match=r"give library=, or VKNN_RUNNER"):
        Runner(relu())
    monkeypatch.setenv("VKNN_RUNNER", str(tmp_path / "lib.so"))
    with pytest.raises(VknnError, match=r"lib\.so is no library"):
        Runner(relu())


@pytest.mark.device
def test_nets_in_two_threads(library: Path) -> None:
    data, answer = one_step()
    right = []

    def work() -> None:
        with Runner(relu(), library=library) as runner:
            right.append(
                all(np.array_equal(runner.run({"data": data})["y"], answer) for _ in "123")
            )

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True, True]


STEP = {
    "label": "conv1", "op": "Conv direct", "kernel": "convolution/conv", "groups": [4, 1, 1],
    "flops": 2000000, "bytes": 4000, "begin": 10.0, "microseconds": 20.0,
}  # fmt: skip
TIMES = {
    "device": "Phone", "driver": "v1", "target": "generic", "shapes": "data=1", "precision": "fp32",
    "runs": 7, "microseconds": 40.0,
    "steps": [STEP, {**STEP, "label": "copied", "kernel": "copy", "groups": [0] * 3, "begin": 30}],
}  # fmt: skip


def test_a_phones_profile_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(TIMES))
    assert main(["report", str(path), "--trace", str(tmp_path / "trace.json")]) == 0
    text = capsys.readouterr().out
    assert "on Phone (v1), mean of 7" in " ".join(text.split()) and "100.0" in text, text
    assert main(["report", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [c["layers"] for c in document["commands"]] == [["conv1"], ["copied"]]
    assert document["commands"][0]["gflops"] == pytest.approx(100)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    [event] = [e for e in events if e.get("name") == "conv1"]
    assert (event["ts"], event["dur"]) == (pytest.approx(10), pytest.approx(20))


@pytest.mark.parametrize(
    "change, text",
    [
        ({"runs": "7"}, "runs: a number"),
        ({"device": None}, "device: a string"),
        ({"steps": [{**STEP, "groups": [1, 1]}]}, r"steps\[0\].groups: a list of 3"),
        ({"steps": [{**STEP, "microseconds": -1}]}, "microseconds"),
        ({"steps": [{}]}, "is missing"),
    ],
)
def test_damaged_profiles_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], text: str
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**TIMES, **change}))
    assert main(["report", str(path)]) == 2
    told = capsys.readouterr().err
    assert "run.json: no profile of vknn-run" in told and text.replace("\\", "") in told
    path.write_text("{")
    assert main(["report", str(path)]) == 2
    assert "no JSON" in capsys.readouterr().err
    path.write_text(json.dumps(TIMES))
    assert main(["report", str(path), "--html", str(tmp_path / "x.html")]) == 2
    assert "take --trace" in capsys.readouterr().err


def test_texts_of_a_bundle_cannot_steer_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = Bundle.of(relu())
    strings = bundle.sections["strings"].tobytes()
    path = tmp_path / "net.vkb"
    evil = Bundle.of(rebuilt(bundle, {"strings": strings + b"\x1b[2Jevil[bold]\0"}))
    path.write_bytes(with_field(evil, schema.PORT, "name", len(strings)))
    assert main(["bundle", str(path)]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and "evil[bold]" in text
