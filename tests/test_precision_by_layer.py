"""Sessions in which layers have precisions of their own: results, errors, files, and the tools."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import skip_without_half
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli.main import main
from vknn.kernel_lab import extract
from vknn.precision import MOST_LAYERS, chosen_precision
from vknn.profiling import Profile
from vknn.reduction import bisect, reduce
from vknn.scale import Predictor

LAYERS = ("conv1", "dw", "sum", "pool", "fc", "prob")
HALVES = ["fp16", pytest.param("bf16", marks=pytest.mark.slow)]
DEVICES = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_small_model(tmp_path)


def picture(seed: int = 0) -> dict[str, np.ndarray]:
    return {"data": np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)}


def result(model: Path, device: str, precision: Any) -> np.ndarray:
    if device == "vulkan":
        skip_without_half()
    with vknn.Session(model, device=device, precision=precision) as session:
        (array,) = session.run(picture()).values()
        return np.asarray(array)


@pytest.mark.parametrize("device", DEVICES)
def test_all_layers_in_fp32_are_bit_for_bit_fp32(model: Path, device: str) -> None:
    right = result(model, device, "fp32")
    assert np.array_equal(result(model, device, dict.fromkeys(LAYERS, "fp32")), right)
    assert np.array_equal(result(model, device, {"*": "fp32"}), right)


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("device", DEVICES)
def test_all_layers_in_16_bits_are_bit_for_bit_that(
    model: Path, device: str, precision: str
) -> None:
    right = result(model, device, precision)
    named = {**dict.fromkeys(LAYERS, precision), "*": "fp32"}
    assert np.array_equal(result(model, device, {"*": precision}), right)
    assert np.array_equal(result(model, device, named), right)


@pytest.mark.device
@pytest.mark.parametrize("precision", HALVES)
def test_a_mixed_session_lies_between(model: Path, precision: str) -> None:
    right, narrow = (result(model, "vulkan", p) for p in ("fp32", precision))
    mixed = result(model, "vulkan", {"*": precision, "fc": "fp32", "prob": "fp32"})
    assert not np.array_equal(mixed, right) and not np.array_equal(mixed, narrow)
    assert np.abs(mixed - right).max() <= 4 * np.abs(narrow - right).max()


@pytest.mark.device
def test_a_session_says_its_mapping(model: Path) -> None:
    skip_without_half()
    with vknn.Session(model, device="vulkan", precision={"fc": "fp32"}) as session:
        assert session.precision == "fp16"
        assert session.layer_precisions == {"fc": "fp32", "*": "fp16"}
        assert "fp16, but fp32 in fc on" in repr(session)
        session.run(picture())
        copy = pickle.loads(pickle.dumps(session))
        with copy:
            assert copy.layer_precisions == session.layer_precisions


def test_numpy_computes_in_fp32_and_checks_names(model: Path) -> None:
    with vknn.Session(model, device="numpy", precision={"fc": "fp32"}) as session:
        assert session.precision == "fp32" and not session.layer_precisions
        session.run(picture())
    with (
        vknn.Session(model, device="numpy", precision={"fd": "fp32"}) as session,
        pytest.raises(vknn.InputError, match="no layer is called 'fd'"),
    ):
        session.run(picture())


@pytest.mark.parametrize("device", DEVICES)
def test_unknown_layers_are_told_with_those_like_them(model: Path, device: str) -> None:
    if device == "vulkan":
        skip_without_half()
    with (
        vknn.Session(model, device=device, precision={"conv2": "fp32", "x*": "fp32"}) as session,
        pytest.raises(vknn.InputError) as caught,
    ):
        session.run(picture())
    text = "precision: no layer is called 'conv2', or computes; like it are 'conv1' (2 such names)"
    assert text in str(caught.value) and str(model) in str(caught.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "has 0 layers"),
        ({"a": "fp8"}, "layer 'a' has 'fp8', none of 'fp32', 'fp16', 'bf16'"),
        ({"a": 16}, "layer 'a' has 16, none of"),
        ({3: "fp32"}, "layer 3 has 'fp32'"),
        ({"a": "fp16", "b": "bf16"}, "layers in fp16 and in bf16 do not go together"),
        ({"a": "fp16"}, 'all layers that it names are in fp16; say what the others are in'),
        ({str(n): "fp32" for n in range(MOST_LAYERS + 1)}, f"not from 1 to {MOST_LAYERS}"),
        ("fp8", "precision 'fp8' is not supported; use 'fp32', 'fp16', 'bf16', a mapping"),
    ],
)  # fmt: skip
def test_bad_mappings_are_refused(given: Any, text: str) -> None:
    with pytest.raises(vknn.VknnError, match=re.escape(text)):
        chosen_precision(given)


def test_arithmetic_needs_layers_in_fp16() -> None:
    assert chosen_precision({"a": "fp32"}, "fp16").name == "fp16"
    for rules in ({"*": "fp32"}, {"*": "bf16", "a": "fp32"}):
        with pytest.raises(vknn.VknnError, match="it needs precision='fp16'"):
            chosen_precision(rules, "fp16")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"conv1": "fp32"', "is no JSON"),
        (b'{"conv1": "fp32", "conv1": "fp16"}', "two keys 'conv1'"),
        (b'["conv1"]', "expected an object of layers"),
        (b'{"conv1": {"deep": "fp32"}}', "layer 'conv1' has {'deep': 'fp32'}"),
        (b"\xff\xfe\x00", "is no text in UTF-8"),
        (b"[" * 100_000, "is no JSON"),
        (b"", "is no JSON"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, text: bytes, problem: str) -> None:
    file = tmp_path / "precision.json"
    file.write_bytes(text)
    with pytest.raises(vknn.VknnError) as caught:
        vknn.Session(write_small_model(tmp_path), device="numpy", precision=str(file))
    assert problem in str(caught.value) and str(file) in str(caught.value)


def test_missing_files_and_pipes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(vknn.VknnError, match="no such file"):
        chosen_precision(tmp_path / "none.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(vknn.VknnError, match="this is no file"):
        chosen_precision(str(tmp_path / "pipe.json"))


def written(folder: Path, rules: Mapping[str, str]) -> str:
    file = folder / "precision.json"
    file.write_text(json.dumps(rules))
    return str(file)


@pytest.mark.device
def test_a_file_is_its_mapping(model: Path, tmp_path: Path) -> None:
    rules = {"*": "fp16", "fc": "fp32"}
    file = written(tmp_path, rules)
    right = result(model, "vulkan", rules)
    assert np.array_equal(result(model, "vulkan", file), right)
    assert np.array_equal(result(model, "vulkan", Path(file)), right)


@pytest.mark.device
def test_the_commands_take_a_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skip_without_half()
    file = written(tmp_path, {"conv1": "fp32", "prob": "fp32"})
    options = ["--device", "vulkan", "--precision", file]
    assert main(["verify", str(model), *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    saved = tmp_path / "a.vkprof"
    assert main(["profile", str(model), *options, "--runs", "2", "--save", str(saved)]) == 0
    assert "fp16, but fp32 in conv1, prob" in str(Profile.load(saved).about["options"])
    capsys.readouterr()
    assert main(["info", str(model), *options, "--plan"]) == 0
    plan = capsys.readouterr().out
    assert "movement/convert" in plan
    with pytest.raises(SystemExit):
        main(["info", str(model), "--precision", "fp8"])
    assert "none of fp32, fp16, bf16, and no .json file" in capsys.readouterr().err


@pytest.mark.device
def test_verify_holds_each_layer_by_its_own_precision(model: Path) -> None:
    skip_without_half()
    report = vknn.verify(model, picture(), device="vulkan", precision={"fc": "fp32"})
    assert report.ok
    errors = {row.layer: row.isolated.max_rel for row in report.rows if row.isolated is not None}
    assert errors["fc"] < 1e-6 < errors["conv1"]


@pytest.mark.device
@pytest.mark.parametrize("layer", ["prob", "dw"])
def test_the_kernel_lab_takes_a_layer_of_its_precision(
    model: Path, tmp_path: Path, layer: str
) -> None:
    skip_without_half()
    lab = extract(model, tmp_path / "lab", layer=layer, precision={"prob": "fp32"}, device="vulkan")
    assert lab.description.precision == ("fp32" if layer == "prob" else "fp16")


def test_reduce_and_bisect_take_one_precision(model: Path, tmp_path: Path) -> None:
    with pytest.raises(vknn.VknnError, match="vknn bisect takes one precision for all layers"):
        bisect(model, precision={"fc": "fp32"})  # type: ignore[arg-type]
    with pytest.raises(vknn.VknnError, match="vknn reduce takes one precision for all layers"):
        reduce(model, output=tmp_path / "out", precision={"fc": "fp32"})  # type: ignore[arg-type]


def test_a_predictor_takes_the_file_along(model: Path, tmp_path: Path) -> None:
    file = written(tmp_path, {"fc": "fp32"})
    predictor = Predictor(model, precision=file)
    assert predictor.precision == {"fc": "fp32", "*": "fp16"}
    assert predictor.identity()["precision"] == predictor.precision
