"""Other engines that run: compared, at fault, missing, refusing, crashing, never ending."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_model import write_small_model

from vknn.cli import main
from vknn.crosscheck import against, tensors
from vknn.crosscheck import against as against_function
from vknn.crosscheck.engines import ENGINES, EngineRun
from vknn.errors import VknnError
from vknn.session import Session

against_module = sys.modules[against_function.__module__]


def needs(engine: str) -> None:
    """Skips the test where the engine's wheel is not installed."""
    if importlib.util.find_spec(ENGINES[engine].module) is None:
        pytest.skip(f"needs {ENGINES[engine].wheel}")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("small"))


@pytest.mark.device
def test_ncnn(model: Path) -> None:
    needs("ncnn")
    report = against(model, "ncnn")
    assert report.ok and report.engine.startswith("ncnn 1.") and not report.unmatched
    assert [row.recorded for row in report.rows] == ["conv1", "dw", "sum", "pool", "fc", "out"]
    assert all(row.how == "name" and row.device_other is not None for row in report.rows)
    assert "tensors of ncnn 1." in report.summary() and "ncnn/NumPy" in str(report)


def test_a_binary_param_and_weights_elsewhere(model: Path, tmp_path: Path) -> None:
    """A .param.bin has no names: blobs have numbers."""
    needs("ncnn")
    words = [7767517, 2, 2, 16, 0, 1, 0, 0, 4, 1, 3, 2, 2, -233]
    words += [26, 1, 1, 0, 1, -233]  # a ReLU
    (tmp_path / "net.param.bin").write_bytes(np.array(words, np.int32).tobytes())
    (tmp_path / "empty.bin").write_bytes(b"")
    report = against(
        tmp_path / "net.param.bin", "ncnn", weights=tmp_path / "empty.bin", device="numpy"
    )
    assert report.ok and [row.recorded for row in report.rows] == ["1"]


@pytest.mark.parametrize(
    ("engine", "file", "least"),
    [("litert", "tflite/hello_world_float.tflite", 2), ("onnxruntime", "onnx/mnist_cntk.onnx", 10)],
)
def test_others(engine: str, file: str, least: int, shared: Path) -> None:
    needs(engine)
    report = against(shared / "models" / file, engine, device="numpy")
    assert report.ok and len(report.rows) >= least
    assert all(row.how == "name" for row in report.rows)


@pytest.mark.device
def test_codes_of_a_quantized_network_are_those_of_the_engine(shared: Path) -> None:
    needs("litert")
    path = shared / "models/tflite/mobilenet_v1_0.25_128_quant.tflite"
    report = against(path, "litert", tolerance=0.0)
    assert report.ok and len(report.rows) == 31 and not report.outputs_left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "file", "shapes"),
    [
        ("litert", "tflite/tf2_mobilenet_v2_1.0_224_ptq.tflite", None),
        ("ncnn", "ncnn/squeezenet_v1.1.param", None),
        ("ncnn", "ncnn/nanodet_m.param", {"input.1": (3, 320, 320)}),
        ("litert", "tflite/mobilenet_v1_0.25_128_quant.tflite", None),
        ("litert", "tflite/trained_lstm.tflite", None),
        ("onnxruntime", "onnx/rfb320_qdq.onnx", None),
    ],
)
def test_real_models(engine: str, file: str, shapes: Any, shared: Path) -> None:
    needs(engine)
    report = against(shared / "models" / file, engine, device="numpy", shapes=shapes)
    assert report.ok, report.summary()


@pytest.mark.device
def test_an_engine_or_a_device_that_is_wrong(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("ncnn")
    right = against_module.run_engine

    def wrong(*args: Any, **options: Any) -> EngineRun:
        run = right(*args, **options)
        run.tensors["dw"][1] += np.float32(0.5)
        return run

    with monkeypatch.context() as patch:
        patch.setattr(against_module, "run_engine", wrong)
        report = against(model, "ncnn")
    assert {row.recorded: row.alone for row in report.rows if row.alone} == {"dw": "record"}
    assert "(dw): ncnn 1." in report.summary() and report.summary().endswith("is alone")
    assert "conv1" not in str(report.table(failures=True).columns[0]._cells)

    def of_device(*args: Any, on_device: bool) -> list[tensors.NamedTensor]:
        found = tensors.tensors_of(*args, on_device)
        return [
            replace(t, array=t.array * np.float32(1.1)) if on_device and t.name == "fc" else t
            for t in found
        ]

    monkeypatch.setattr(against_module, "tensors_of", of_device)
    report = against(model, "ncnn")
    assert {row.recorded: row.alone for row in report.rows if row.alone} == {"fc": "device"}


def test_the_command(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs("ncnn")
    np.savez(tmp_path / "in.npz", data=np.ones((3, 8, 8), np.float32))
    argv = ["compare", str(model), "--against", "ncnn", "--device", "numpy", "--json"]
    assert main([*argv, "--inputs", str(tmp_path / "in.npz")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] and found["engine"].startswith("ncnn 1.") and len(found["rows"]) == 6
    assert main([*argv, "--tolerance", "1e-12", "--seed", "5"]) == 1
    assert any(row["alone"] == "record" for row in json.loads(capsys.readouterr().out)["rows"])


def test_models_of_other_formats(model: Path, shared: Path) -> None:
    with pytest.raises(VknnError, match=r"small.param: litert runs .*tflite.* ncnn: use ncnn"):
        against(model, "litert", device="numpy")
    core = shared / "models" / "coreml" / "mnistCNN.mlmodel"
    with pytest.raises(VknnError, match="of the format coreml: use coremltools"):
        against(core, "onnxruntime", device="numpy")
    if sys.platform != "darwin":
        with pytest.raises(VknnError, match="on a Mac only"):
            against(core, "coremltools", device="numpy")
    old = shared / "models" / "openvino" / "RFB-320.v7-fp16.xml"
    with pytest.raises(VknnError, match=r"2020\.4 only.*opencv-python-inference-engine"):
        against(old, "openvino", device="numpy")


def test_a_wheel_that_is_missing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncnn", None)
    with pytest.raises(VknnError, match="ncnn is not installed: pip install ncnn"):
        against(model, "ncnn", device="numpy")


def test_a_model_in_memory(model: Path) -> None:
    needs("ncnn")
    weights = model.with_suffix(".bin").read_bytes()
    with (
        Session(model.read_bytes(), weights, device="numpy") as session,
        pytest.raises(VknnError, match="ncnn needs the model as a file"),
    ):
        against(session, "ncnn")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import os; os.abort()", "small.param: ncnn was ended by SIGABRT"),
        ("import sys; sys.exit('no \\x1b licence')", "exit code 1: no .* licence"),
        ("raise ImportError('no libgomp')", "ncnn: ImportError: no libgomp"),
        ("import time; time.sleep(600)", "ncnn was not done within 3 s; give it a longer timeout"),
        ("import os; os._exit(0)", "ncnn ended with exit code 0"),
    ],
)
def test_an_engine_that_crashes_or_never_ends(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, text: str
) -> None:
    (tmp_path / "ncnn.py").write_text(code)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(VknnError, match=text) as raised:
        against(model, "ncnn", device="numpy", timeout=3 if "sleep" in code else 60)
    assert "\x1b" not in str(raised.value)


def test_files_that_the_engine_refuses(model: Path, tmp_path: Path) -> None:
    needs("ncnn")
    other = tmp_path / "small.param"
    other.write_bytes(model.read_bytes())
    other.with_suffix(".bin").write_bytes(model.with_suffix(".bin").read_bytes())
    with Session(other, device="numpy") as session:
        other.write_text("nonsense")
        with pytest.raises(VknnError, match="ncnn: ValueError: it does not load"):
            against(session, "ncnn")


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_timeouts_that_are_none(model: Path, timeout: float) -> None:
    needs("ncnn")
    with pytest.raises(VknnError, match="expected a number of seconds above 0"):
        against(model, "ncnn", device="numpy", timeout=timeout)


@pytest.mark.device
def test_weights_elsewhere_and_data_that_decide(tmp_path: Path) -> None:
    """A branch, a sequence and external data: the first graph is compared, and the outputs."""
    needs("onnxruntime")
    onnx = pytest.importorskip("onnx")
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    graph, array = onnx.helper.make_graph, onnx.numpy_helper.from_array
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    branches = [
        graph([node(op, ["z"], ["t"])], op, [], [info("t", 1, None)]) for op in ("Relu", "Neg")
    ]
    nodes = [
        node("MatMul", ["x", "w"], ["z"], name="product"),
        node("ReduceSum", ["z"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        node("SequenceConstruct", ["z", "y"], ["q"]),
        node("SequenceAt", ["q", "one"], ["out"]),
    ]
    constants = [array(weights, "w"), array(np.float32(0), "zero"), array(np.int64(1), "one")]
    whole = graph(nodes, "g", [info("x", 1, [1, 8])], [info("out", 1, [1, 8])], constants)
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(
        onnx.helper.make_model(whole, opset_imports=opset, ir_version=8), tmp_path / "net.onnx",
        save_as_external_data=True, location="net.data", size_threshold=0,
    )  # fmt: skip
    report = against(tmp_path / "net.onnx", "onnxruntime")
    assert report.ok, str(report)
    found = {row.recorded: row.layer for row in report.rows}
    assert {"z", "s", "c", "out"} <= set(found) and found["z"] == "product" and found["out"] == ""
    assert set(report.unmatched) <= {"y", "q"}
    wrong = {"x": np.ones((1, 8), np.float32), "out": np.full((1, 8), 9, np.float32)}
    report = against(tmp_path / "net.onnx", wrong)
    assert report.summary() == "first difference: output (out): the record is alone"
