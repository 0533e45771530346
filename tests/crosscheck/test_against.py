"""Records of other engines: matched, held against both sides, and damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.faulty_layer import write_faulty_model
from tests.onnx_writer import node, save, simple
from tests.small_model import write_small_model

import vknn
from vknn.cli import main
from vknn.crosscheck import against, compare_records, dump
from vknn.crosscheck.matching import layouts
from vknn.crosscheck.npz_files import load_npz
from vknn.crosscheck.tensors import write_tensors
from vknn.errors import InputError, VknnError
from vknn.pictures import UnreadableFileError
from vknn.reduction import bisect, reduce


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture
def record(model: Path) -> dict[str, np.ndarray]:
    return dump(model, device="numpy")


def test_the_tensors_of_a_run(model: Path, record: dict[str, np.ndarray], tmp_path: Path) -> None:
    assert {"data", "conv1", "pool", "fc", "out"} <= set(record)
    assert record["conv1"].shape == (6, 8, 8)
    assert set(dump(model, tensors="outputs", device="numpy")) == {"data", "out"}
    assert set(dump(model, tensors=["fc", "fc"], device="numpy")) == {"data", "fc"}
    with pytest.raises(InputError, match="has no tensor 'nothing'"):
        dump(model, tensors=["nothing"], device="numpy")
    write_tensors(tmp_path / "run.npz", record)
    assert against(model, tmp_path / "run.npz", device="numpy").ok


@pytest.mark.device
def test_the_command_and_the_device(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "run.npz"
    argv = ["dump", str(model), "-o", str(target), "--tensors", "all", "--json"]
    assert main(argv) == 0
    told = json.loads(capsys.readouterr().out)
    assert {t["name"] for t in told["tensors"]} == set(load_npz(target))
    report = against(model, target)
    assert report.ok and all(row.how == "name" and not row.layout for row in report.rows)
    assert {row.alone for row in report.rows} == {""}
    assert main([*argv[:-2], "conv1,fc"]) == 0
    assert set(load_npz(target)) == {"data", "conv1", "fc"}


def test_inputs_that_a_graph_takes_in_another_form_are_the_users(shared: Path) -> None:
    """A picture of Core ML's: the graph's own tensor of its name does not take its place."""
    path = shared / "models/coreml/mnistCNN.mlmodel"
    record = dump(path, device="numpy")
    assert record["image"].shape == (28, 28) and record["image#2"].ndim == 5
    report = against(path, record, device="numpy")
    assert report.ok and report.outputs_left == ("classLabel",)  # text, which no tensor is


@pytest.mark.device
def test_who_is_alone(tmp_path: Path) -> None:
    faulty = write_faulty_model(tmp_path, "channel")
    right = dump(faulty, device="numpy")
    report = against(faulty, right)
    assert not report.ok
    assert {r.output: r.alone for r in report.rows if r.output in ("h", "y")} == {
        "h": "device", "y": "device",
    }  # fmt: skip
    assert "the device is alone" in report.summary()
    clean = write_faulty_model(tmp_path, "none")
    report = against(clean, {**right, "h": right["h"] + 1})
    assert {r.output: r.alone for r in report.rows if r.output in ("h", "y")} == {
        "h": "record", "y": "",
    }  # fmt: skip
    wrong = dump(faulty)  # the record has what the device has: NumPy differs from both
    assert {r.alone for r in against(faulty, wrong).rows if r.output in ("h", "y")} == {"NumPy"}
    report = against(faulty, {**right, "y": right["y"] + 1})
    assert report.rows[-1].alone == "all"
    assert json.loads(report.to_json())["rows"][-1]["alone"] == "all"


def test_names_layers_shapes_and_layouts(model: Path, record: dict[str, np.ndarray]) -> None:
    other = {
        "data": record["data"],
        "out_conv1:0": record["conv1"].astype(np.float64),
        "sum": record["sum"].transpose(1, 2, 0),
        "who knows": record["fc"].reshape(1, 5),
        "odd": np.zeros((3, 99)),
        "text": np.array(["a"]),
    }
    report = against(model, other, device="numpy")
    found = {row.recorded: (row.output, row.how, row.layout) for row in report.rows}
    assert found == {
        "out_conv1:0": ("conv1", "name", ""),
        "sum": ("sum", "name", "HWC"),
        "who knows": ("fc", "shape", "axes of 1 aside"),
    }
    assert report.ok and report.unmatched == ("odd", "text")
    assert "the model has no such tensor: odd, text" in str(report)


def test_a_shape_that_several_have_is_no_match_unless_one_is_near(
    model: Path, record: dict[str, np.ndarray]
) -> None:
    noise = np.random.default_rng(1).standard_normal((6, 8, 8)).astype(np.float32)
    other = {"data": record["data"], "noise": noise, "near": record["dw"] * np.float32(1.01)}
    report = against(model, other, device="numpy")
    assert [(r.recorded, r.output, r.alone) for r in report.rows] == [("near", "dw", "record")]
    assert report.unmatched == ("noise",)


def test_layouts_keep_the_numbers() -> None:
    x = np.arange(24.0).reshape(1, 2, 3, 4)
    found = dict(layouts(x.transpose(0, 2, 3, 1), (1, 2, 3, 4)))
    np.testing.assert_array_equal(found["channels last"], x)
    assert not list(layouts(x, (5, 5)))
    assert [name for name, _ in layouts(x, (2, 3, 4))] == ["axes of 1 aside"]
    y = np.arange(360.0).reshape(2, 3, 4, 5, 3)
    turned = (y, y.transpose(0, 2, 3, 4, 1), y.reshape(6, 4, 5, 3), y.transpose(0, 4, 1, 2, 3))
    for array, name in zip(
        turned,
        ("", "channels last", "batch and channels on one axis", "channels first"),
        strict=True,
    ):
        np.testing.assert_array_equal(dict(layouts(array, y.shape))[name], y)
    np.testing.assert_array_equal(
        dict(layouts(y, (6, 4, 5, 3)))["batch and channels on one axis"], y.reshape(6, 4, 5, 3)
    )


def test_packs_of_channels() -> None:
    x = np.arange(1.0, 2 * 6 * 5 * 3 + 1).reshape(2, 6, 5, 3)
    filled = np.concatenate([x, np.zeros((2, 2, 5, 3))], axis=1)
    packed = filled.reshape(2, 2, 4, 5, 3).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(dict(layouts(packed, x.shape))["packs of 4 channels"], x)
    found = dict(layouts(packed[1], x.shape[1:]))["packs of 4 channels"]
    np.testing.assert_array_equal(found, x[1])
    assert not list(layouts(packed[..., :3], x.shape))


def test_what_cannot_be_compared(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="input 'data' is neither recorded nor given"):
        against(model, {"fc": np.zeros(5)}, device="numpy")
    feeds = {"data": np.zeros((3, 8, 8), np.float32)}
    report = against(model, {}, feeds, device="numpy")
    assert not report.ok and "none of the recorded tensors" in report.summary()
    np.savez(tmp_path / "bad.npz", x=np.array([{}], object))
    with pytest.raises(UnreadableFileError, match="never unpickled"):
        against(model, tmp_path / "bad.npz", feeds, device="numpy")


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.zeros(7, np.float32), "came out as float32[7], not float32[5]"),
        (np.array(["a"] * 5), "came out as <U1[5], not float32[5]"),
        (np.zeros(5, np.complex64), "came out as complex64[5], not float32[5]"),
    ],
    ids=["shape", "text", "complex"],
)
@pytest.mark.parametrize("device", ["numpy", pytest.param("auto", marks=pytest.mark.device)])
def test_a_name_whose_array_does_not_fit_is_a_difference(
    device: str, model: Path, record: dict[str, np.ndarray], array: np.ndarray, problem: str
) -> None:
    report = against(model, {**record, "fc": array}, device=device)
    assert not report.ok and not report.unmatched
    assert report.summary().endswith("(fc): the record is alone")
    row = next(row for row in report.rows if row.recorded == "fc")
    assert row.other_numpy.problem == problem
    assert "came out as" in str(report)


@pytest.mark.parametrize("more", [256, 0.9])
def test_numbers_of_another_dtype_are_not_cut(more: float, tmp_path: Path) -> None:
    """As uint8 256 more would be the same, as any integer 0.9 more."""
    model = save(simple(node("Cast", "x", "y", to=2)), tmp_path)
    right = {"x": np.full((2, 3), 44, np.float32)}
    y = np.full((2, 3), 44)
    assert against(model, {**right, "y": y}, device="numpy").ok
    row = against(model, {**right, "y": y + more}, device="numpy").rows[-1]
    assert row.other_numpy.max_abs == pytest.approx(more)


@pytest.mark.parametrize(
    ("dtype", "code", "tolerance", "right"),
    [
        ("int64", 7, None, False),  # an index or a count
        ("int32", 6, None, False),
        ("int32", 6, 0.03, True),  # 1 of 44
        ("int32", 6, 0.01, False),
        ("uint8", 2, None, True),  # a code, rounded to the other side
        ("int16", 5, None, True),
        ("uint8", 2, 0.0, False),
        ("bool", 9, None, False),
    ],
)
def test_integers_are_exact_but_for_codes(
    dtype: str, code: int, tolerance: float | None, right: bool, tmp_path: Path
) -> None:
    model = save(simple(node("Cast", "x", "y", to=code)), tmp_path)
    x = np.full((2, 3), 44 if dtype != "bool" else 0, np.float32)
    exact = {"x": x, "y": x.astype(dtype)}
    off = {"x": x, "y": (x + 1).astype(dtype)}
    assert against(model, exact, device="numpy", tolerance=tolerance).ok
    assert against(model, off, device="numpy", tolerance=tolerance).ok == right
    assert compare_records(exact, off, tolerance=tolerance).ok == right
    two = {"x": x, "y": (x + 2).astype(dtype)}
    assert dtype == "bool" or against(model, two, device="numpy", tolerance=0.01).ok is False


def test_outputs_that_the_record_lacks_are_named(
    model: Path, record: dict[str, np.ndarray]
) -> None:
    whole = against(model, record, device="numpy")
    assert whole.outputs_left == () and "outputs not compared" not in str(whole)
    record.pop("out")
    report = against(model, record, device="numpy")
    assert report.ok and report.outputs_left == ("out",)
    assert "outputs not compared, as the record lacks them: out" in str(report)
    assert json.loads(report.to_json())["outputs_left"] == ["out"]


@pytest.mark.parametrize("tolerance", [-1.0, float("nan")])
def test_tolerances_that_are_none(
    tolerance: float, model: Path, record: dict[str, np.ndarray], tmp_path: Path
) -> None:
    checks: list[Callable[[], object]] = [
        lambda: against(model, record, device="numpy", tolerance=tolerance),
        lambda: compare_records(record, record, tolerance=tolerance),
        lambda: vknn.verify(model, device="numpy", tolerance=tolerance),
        lambda: vknn.verify(model, device="numpy", cumulative_tolerance=tolerance),
        lambda: reduce(model, output=tmp_path / "small", device="numpy", tolerance=tolerance),
        lambda: bisect(model, device="numpy", tolerance=tolerance),
    ]
    for check in checks:
        with pytest.raises(VknnError, match=r"tolerance=(-1\.0|nan): it must be at least 0"):
            check()


def test_a_name_that_is_no_engine_and_no_file(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(model), "--against", "Onnxruntime"]) == 2
    told = capsys.readouterr().err
    assert "Onnxruntime: no such file, and none of the engines ncnn, litert" in told


def test_a_model_and_a_record_on_the_command_line(
    model: Path,
    record: dict[str, np.ndarray],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A record of another engine's that is wrong in one tensor: it is named, and who is alone."""
    inputs = {"data": record.pop("data")}
    write_tensors(tmp_path / "inputs.npz", inputs)
    write_tensors(tmp_path / "good.npz", record)
    record["conv1"] = record["conv1"] + np.float32(0.5)
    write_tensors(tmp_path / "bad.npz", record)
    argv = ["compare", str(model), "--device", "numpy", "--inputs", str(tmp_path / "inputs.npz")]
    assert main([*argv, "--against", str(tmp_path / "good.npz")]) == 0
    assert "recorded tensors agree" in capsys.readouterr().out
    assert main([*argv, "--against", str(tmp_path / "bad.npz"), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [row["recorded"] for row in report["rows"] if row["alone"]] == ["conv1"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "give two saved profiles or records, or a model and --against"),
        (("b.vkprof", "--device", "numpy"), "--device needs --against"),
        (("b.vkprof", "--against", "a.npz"), "leave out the second file"),
    ],
)
def test_options_of_the_other_comparison(
    options: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "a.vkprof", *options]) == 2
    assert text in capsys.readouterr().err


def test_names_from_files_are_printed_without_control_characters(model: Path) -> None:
    name = "odd\x1b[31m\nfile"
    feeds = {"data": np.zeros((3, 8, 8), np.float32)}
    fitting = np.zeros(5, np.float32)
    report = against(model, {name: fitting, "other\x1b": np.zeros(99)}, feeds, device="numpy")
    assert report.unmatched[-1] == "other\x1b"
    assert "\x1b" not in str(report) and "odd" in str(report)
