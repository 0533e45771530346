"""Advice on precision: faults that it must name, a clean network, several inputs, the command."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests import precision_models as models
from tests.coreml_writer import layer, session
from tests.coreml_writer import model as coreml_model
from tests.helpers import skip_without_half
from tests.onnx_writer import graph, model, node, save, value

import vknn
from vknn.cli.main import main
from vknn.crosscheck import InputRecord, PrecisionAdvice, advise
from vknn.crosscheck.advice.ranges import RangeGathering
from vknn.crosscheck.advice.search import SearchBudget, shortest
from vknn.graph import GraphBuilder, TensorType
from vknn.ops.elementwise import Relu

#: Without a device lists are tried by NumPy.
DEVICES = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]
Make = Callable[[Path], Path]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "vulkan":
        skip_without_half()
    return str(request.param)


@pytest.mark.parametrize(
    ("make", "layers"),
    [(models.large_weights, ("middle",)), (models.large_tensor, ("middle", "last"))],
)
def test_layers_that_overflow_are_the_list(
    tmp_path: Path, device: str, make: Make, layers: tuple[str, ...]
) -> None:
    """The reader of a large tensor, too: it would take it in 16 bits."""
    path = make(tmp_path)
    advice = advise(path, device=device)
    assert advice.kept == layers and advice.ok and advice.complete
    assert advice.error_without == np.inf
    assert advice.error_with is not None and advice.error_with < 1e-3
    assert advice.simulated == (device == "numpy")
    shares = {layer.name: layer.share for layer in advice.layers}
    assert sum(shares[name] or 0 for name in layers) == pytest.approx(1)
    over = [r for r in advice.ranges if r.overflow]
    assert [(r.layer, r.kind) for r in over] == [
        ("middle", "weight" if make is models.large_weights else "result")
    ]
    assert over[0].largest > 65504 and not over[0].fits
    assert f"{len(layers)} of 3 layers have to stay in fp32" in str(advice)
    assert advice.precision == {"*": "fp16", **dict.fromkeys(layers, "fp32")}


def test_a_lost_difference_is_the_list(tmp_path: Path, device: str) -> None:
    advice = advise(models.cancellation(tmp_path), models.near(0), device=device)
    assert advice.kept == ("d",)
    assert advice.error_without > 0.5
    assert advice.error_with is not None and advice.error_with < 1e-3


def test_the_mapping_really_gives_the_error_that_is_shown(tmp_path: Path, device: str) -> None:
    path, feeds = models.cancellation(tmp_path), models.near(0)
    advice = advise(path, feeds, device=device)
    with vknn.Session(path, device="numpy") as session:
        right = session.run(feeds)["y"]
    with vknn.Session(path, device=device, precision=advice.precision or {}) as session:
        found = session.run(feeds)["y"]
    if device == "vulkan":
        error = np.abs(found - right).max() / np.abs(right).max()
        assert error == pytest.approx(advice.error_with, rel=1e-3)
    else:
        assert np.array_equal(found, right)


def test_a_clean_network_needs_no_list(tmp_path: Path, device: str) -> None:
    advice = advise(models.clean(tmp_path), device=device)
    assert advice.kept == () and advice.error_without < 1e-3
    assert all(r.fits for r in advice.ranges)
    assert "none has to stay in fp32" in str(advice) and "beyond fp16" not in str(advice)
    assert advice.precision == {"*": "fp16"}
    shares = [layer.share or 0.0 for layer in advice.layers]
    assert sum(shares) == pytest.approx(1) and min(shares) > 0.05
    assert {t.name for t in advice.times} == (set() if device == "numpy" else {"fp16", "fp32"})


@pytest.mark.device
def test_a_tolerance_that_fp32_misses_has_no_list(tmp_path: Path) -> None:
    skip_without_half()
    advice = advise(models.clean(tmp_path), device="vulkan", tolerance=1e-9)
    assert advice.kept is None and not advice.ok and advice.precision is None
    assert advice.error_fp32 is not None and 1e-9 < advice.error_fp32 < 1e-5
    assert "no list meets the tolerance 1e-09: with all layers in fp32" in advice.summary()
    with pytest.raises(vknn.VknnError, match="there is no list to write"):
        advice.save(tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


def test_one_of_several_inputs_may_need_the_list(tmp_path: Path) -> None:
    far = {name: np.float32(10) * array for name, array in models.near(0).items()}
    far["u"] = far["u"] * np.random.default_rng(5).standard_normal(far["u"].shape).astype("f4")
    path = models.cancellation(tmp_path)
    assert advise(path, [InputRecord("far", far)], device="numpy").kept == ()
    records = [
        InputRecord("far", far),
        InputRecord("broken", error=vknn.InputError("cannot be read")),
        InputRecord("near", models.near(1)),
        InputRecord("other", {"u": np.zeros((4, 3), np.float32)}),
    ]
    advice = advise(path, records, device="numpy")
    assert advice.kept == ("d",) and advice.worst_input == "near" and advice.records == 2
    assert [name for name, _ in advice.broken] == ["broken", "other"]
    assert advise(path, records, device="numpy", limit=1).kept == ()
    with pytest.raises(vknn.InputError, match="no input could be computed: cannot be read"):
        advise(path, records[1:2], device="numpy")


def test_bf16_has_the_range_of_fp32(tmp_path: Path, device: str) -> None:
    advice = advise(models.large_tensor(tmp_path), device=device, precision="bf16")
    assert advice.kept == () and advice.precision == {"*": "bf16"}
    assert not any(r.overflow for r in advice.ranges)


def test_time_that_runs_out_is_told(tmp_path: Path) -> None:
    advice = advise(models.large_weights(tmp_path), device="numpy", time_limit=1e-6)
    assert advice.kept is None and not advice.complete
    assert "found in time" in advice.summary() and "were not measured in time" in str(advice)


def test_ranges_count_what_is_lost() -> None:
    g = GraphBuilder("ranges")
    x = g.input("x", TensorType((8,)))
    made = g.finish({"y": g.add(Relu(), x)})
    (read,), (result,) = made.inputs, made.nodes[0].outputs
    array = np.array([0, 1, 65519, 65520, 1e9, 2.0**-15, 2.0**-26, np.inf], np.float32)
    gathered = RangeGathering(made, "fp16")
    for scale in (1, 0):
        gathered.add({read: array[:7] * scale, result: array})
    first, second = gathered.ranges()
    assert (first.kind, first.elements) == ("input", 14)
    assert (first.largest, first.smallest) == (1e9, 2.0**-26)
    assert (first.overflow, first.subnormal, first.zero) == (2 / 14, 1 / 14, 1 / 14)
    assert (second.kind, second.layer, second.largest) == ("result", made.nodes[0].origin.name, 1e9)


def needs(*wanted: str) -> Callable[[Sequence[str]], bool]:
    return lambda kept: set(wanted) <= set(kept)


@pytest.mark.parametrize("wanted", [("a",), ("b", "g"), ("h",), tuple("abcdefgh"), ("c", "d", "f")])
def test_the_shortest_list_is_found_wherever_it_is(wanted: tuple[str, ...]) -> None:
    found = shortest("abcdefgh", needs(*wanted), SearchBudget(60))
    assert found.complete and found.layers == wanted
    assert shortest("abcdefgh", needs(*wanted), SearchBudget(60, 1)).layers is None


def test_few_trials_for_many_layers() -> None:
    names = [f"n{i}" for i in range(1000)]
    tried = []

    def passes(kept: Sequence[str]) -> bool:
        tried.append(kept)
        return {"n3", "n40"} <= set(kept)

    assert shortest(names, passes, SearchBudget(60)).layers == ("n3", "n40")
    assert len(tried) < 120


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"precision": "fp32"}, "advice is for precision 'fp16' or 'bf16', not 'fp32'"),
        ({"tolerance": 0.0}, "tolerance=0.0: it must be above 0"),
        ({"tolerance": float("nan")}, "tolerance=nan"),
        ({"time_limit": -1.0}, "time_limit=-1.0: it must be above 0 seconds"),
    ],
)
def test_options_that_cannot_be_meant(tmp_path: Path, options: dict, text: str) -> None:
    with pytest.raises(vknn.VknnError, match=text):
        advise(models.clean(tmp_path), device="numpy", **options)


@pytest.mark.device
@pytest.mark.filterwarnings("ignore:fp16 is disabled:RuntimeWarning")
def test_disabled_fp16_has_no_advice(tmp_path: Path) -> None:
    with (
        vknn.Session(models.clean(tmp_path), device="vulkan", disable="fp16") as session,
        pytest.raises(vknn.VknnError, match="fp16 is disabled"),
    ):
        advise(session)


def test_long_tables_are_cut(tmp_path: Path) -> None:
    advice = advise(models.large_weights(tmp_path), device="numpy")
    layers = [
        dataclasses.replace(advice.layers[0], name=f"layer{n}", keep=n > 5) for n in range(40)
    ]
    ranges = [dataclasses.replace(advice.ranges[0], name=f"t{n}", overflow=0.5) for n in range(40)]
    long = dataclasses.replace(
        advice, layers=tuple(layers), ranges=tuple(ranges), kept=("layer6",) * 34
    )
    assert str(long).count("25 more (--json has all)") == 2
    others = ", ".join(f"layer{n}" for n in range(6))
    assert (
        f"34 of 40 layers have to stay in fp32 for the tolerance 0.02: all but {others} (error"
        in (long.summary())
    )


def test_networks_that_go_on_as_data_decide_are_refused(tmp_path: Path) -> None:
    body = graph(
        [node("NonZero", "x", "found"), node("Shape", "found", "size"),
         node("ConstantOfShape", "size", "y")],
        [value("x", (4,))], [value("y", None)],
    )  # fmt: skip
    with pytest.raises(vknn.VknnError, match="advice does not follow"):
        advise(save(model(body), tmp_path), device="numpy")


def test_the_command_writes_the_file_that_precision_takes(
    tmp_path: Path, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = models.large_weights(tmp_path), tmp_path / "precision.json"
    command = ["verify", str(path), "--device", device, "--precision", "fp16", "--advise"]
    assert main([*command, "-o", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kept"] == ["middle"] and report["error_without"] == "inf"
    assert json.loads(file.read_text()) == {"*": "fp16", "middle": "fp32"} == report["precision"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "1 of 3 layers have to stay in fp32 for the tolerance 0.02: middle" in shown
    assert ("a run with the list in fp32" in shown) == (device == "vulkan")
    if device == "vulkan":
        again = ["verify", str(path), "--device", device, "--precision"]
        assert main([*again, "fp16"]) == 1
        assert main([*again, str(file)]) == 0


def test_the_command_reads_a_folder_of_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = models.cancellation(tmp_path), tmp_path / "inputs"
    folder.mkdir()
    for number in range(3):
        np.savez(folder / f"{number}.npz", **models.near(number))
    command = ["verify", str(path), "--device", "numpy", "--precision", "fp16", "--advise"]
    assert main([*command, "--input", str(folder), "--limit", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["records"] == 2 and report["kept"] == ["d"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--advise"], "--advise needs --precision fp16 or bf16"),
        (["--precision", "fp16", "--advise", "--metrics"], "without --metrics"),
        (["-o", "x.json"], "-o writes the list of --advise"),
    ],
)
def test_the_command_refuses_what_cannot_be_meant(
    tmp_path: Path, options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["verify", str(models.clean(tmp_path)), "--device", "numpy", *options]
    assert main(command) not in (0, 1)
    assert text in capsys.readouterr().err


def test_a_report_is_json_with_infinities_as_text(tmp_path: Path) -> None:
    advice: PrecisionAdvice = advise(models.large_weights(tmp_path), device="numpy")
    document = json.loads(advice.to_json())
    assert document["ok"] and document["layers"][1]["alone"] == "inf"
    assert document["summary"] == advice.summary()


def test_a_network_with_state_is_advised(device: str) -> None:
    draw = layer(
        "randomUniformStatic", [], ["r"], name="draw", seed=-1, outputShape=[2], minVal=0.0,
        maxVal=1.0,
    )  # fmt: skip
    drawing = coreml_model([draw, layer("add", ["x", "r"], ["y"], name="sum")], {"x": (2,)})
    with session(drawing, device) as opened:
        advice = advise(opened, {"x": np.array([1, 2], np.float32)})
    assert advice.kept == () and advice.error_without < 1e-3
    assert [x.name for x in advice.layers] == ["draw", "sum"]
