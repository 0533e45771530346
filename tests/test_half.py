"""Sessions of precision "fp16" and "bf16": networks, cross-checks, devices without such storage."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device, skip_without_half
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.crosscheck.storage import UNITS
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.runtime import open_device
from vknn.tool_inputs import complete_feeds
from vknn.tuning import tune


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_small_model(tmp_path)


@pytest.fixture
def half(model: Path) -> Path:
    """The model, where the device can store float16."""
    skip_without_half()
    return model


@pytest.fixture(params=["fp16", "bf16"])
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def picture() -> dict[str, np.ndarray]:
    return {"data": np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)}


def error(path: Path, weights: Path | None = None, precision: str = "fp16") -> float:
    """The largest difference from fp32, as a share of the output's range."""
    results = []
    for each in ("fp32", precision):
        with vknn.Session(path, weights, device="vulkan", precision=each) as session:
            assert session.precision == each
            results.append(session.run(complete_feeds(session)))
            assert set(session.placement.values()) == {"vulkan"}
    worst = 0.0
    for name, right in results[0].items():
        assert results[1][name].dtype == right.dtype
        difference = np.abs(results[1][name] - right).max() / np.abs(right).max()
        worst = max(worst, float(difference))
    return worst


@pytest.mark.device
def test_a_small_network(half: Path, precision: str) -> None:
    assert 0 < error(half, precision=precision) < 5e-3 * UNITS[precision] / UNITS["fp16"]


@pytest.mark.parametrize("network", ["squeezenet", "mobilenet_v2"])
def test_a_benchmark_network(network: str, precision: str, shared: Path, tmp_path: Path) -> None:
    skip_without_half()
    path, weights = shared / "benchmark" / "ncnn" / f"{network}.param", tmp_path / "net.bin"
    write_random_weights(path, weights)
    assert 0 < error(path, weights, precision) < 1e-2 * UNITS[precision] / UNITS["fp16"]


@pytest.mark.device
def test_half_the_memory(half: Path, precision: str) -> None:
    sizes = []
    for each in ("fp32", precision):
        with vknn.Session(half, device="vulkan", precision=each) as session:
            (plan,) = session._engine.program(picture()).plans
            sizes.append(sum(b.nbytes for b in plan.buffers))
            assert {a.itemsize for a in plan.constants.values()} == {4 if len(sizes) == 1 else 2}
    assert sizes[1] < 0.7 * sizes[0]


@pytest.mark.device
@pytest.mark.parametrize("passes", [True, False])
def test_verify(half: Path, passes: bool, precision: str) -> None:
    report = vknn.verify(half, device="vulkan", precision=precision, passes=passes)
    assert report.ok, str(report)
    isolated = [r.isolated.max_rel for r in report.rows if r.isolated is not None]
    assert max(isolated) > UNITS[precision] / 50  # storage leaves its traces


@pytest.mark.device
def test_verify_finds_what_float16_does_not_explain(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vknn.ops.pooling.pool import GlobalAveragePool

    true = GlobalAveragePool.reference

    def wrong(self: GlobalAveragePool, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (y,) = true(self, *inputs)
        y[0, 4] *= 1.02
        return (y,)

    monkeypatch.setattr(GlobalAveragePool, "reference", wrong)
    report = vknn.verify(half, device="vulkan", precision="fp16", cumulative_tolerance=0.1)
    row = report.first_failure
    assert row is not None
    assert row.layer == "pool"


@pytest.mark.device
def test_a_device_without_16_bit_storage_is_refused(model: Path, precision: str) -> None:
    with open_device() as device:
        features = device.limits.features - {"fp16_storage"}
        device.limits = dataclasses.replace(device.limits, features=features)
        with pytest.raises(vknn.VknnError, match=r"no 16-bit storage.*precision='fp32'"):
            vknn.Session(model, device=device, precision=precision)
        with vknn.Session(model, device=device) as session:
            session.run(picture())


def skip_without_half_arithmetic() -> None:
    with open_device() as device:
        if "fp16_arithmetic" not in device.limits.features:
            pytest.skip(f"{device.name} has no 16-bit arithmetic")


@pytest.mark.device
def test_arithmetic(half: Path) -> None:
    skip_without_half_arithmetic()
    results = []
    for arithmetic in ("fp32", "fp16"):
        with vknn.Session(
            half, device="vulkan", precision="fp16", arithmetic=arithmetic
        ) as session:
            assert session.arithmetic == arithmetic
            results.append(session.run(picture())["out"])
            (plan,) = session._engine.program(picture()).plans
            used = any(("HALF_SUMS", "1") in d.variant for d in plan.dispatches)
            assert used == (arithmetic == "fp16")
    difference = np.abs(results[1] - results[0]).max() / np.abs(results[0]).max()
    assert difference < 1e-2
    report = vknn.verify(half, device="vulkan", precision="fp16", arithmetic="fp16")
    assert report.ok, str(report)


def test_arithmetic_needs_what_it_needs(model: Path) -> None:
    with pytest.raises(vknn.VknnError, match="needs precision='fp16'"):
        vknn.Session(model, device="numpy", arithmetic="fp16")
    with pytest.raises(vknn.VknnError, match="'bf16' is not supported"):
        vknn.Session(model, device="numpy", precision="fp16", arithmetic="bf16")
    with pytest.raises(vknn.VknnError, match="needs precision='fp16'"):
        vknn.Session(model, device="numpy", precision="bf16", arithmetic="fp16")
    with vknn.Session(model, device="numpy", precision="fp16", arithmetic="fp16") as session:
        assert session.arithmetic == "fp32"


@pytest.mark.device
def test_a_device_without_16_bit_arithmetic_is_refused(half: Path) -> None:
    with open_device() as device:
        features = device.limits.features - {"fp16_arithmetic"}
        device.limits = dataclasses.replace(device.limits, features=features)
        with pytest.raises(vknn.VknnError, match=r"no 16-bit arithmetic.*arithmetic='fp32'"):
            vknn.Session(half, device=device, precision="fp16", arithmetic="fp16")
        vknn.Session(half, device=device, precision="fp16").close()


@pytest.mark.device
def test_disabled_it_is_fp32_and_says_so_once(
    model: Path, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vknn.precision._warned_without_half", False)
    monkeypatch.setenv("VKNN_DISABLE", "fp16")
    with pytest.warns(RuntimeWarning, match="becomes 'fp32'"):
        session = vknn.Session(model, device="vulkan", precision=precision)
    assert session.precision == session.arithmetic == "fp32"
    session.run(picture())
    session.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vknn.Session(model, device="vulkan", precision=precision).close()


def test_numpy_computes_as_ever(model: Path, precision: str) -> None:
    with (
        vknn.Session(model, device="numpy", precision=precision) as half,
        vknn.Session(model, device="numpy") as single,
    ):
        assert half.precision == "fp32"
        a, b = half.run(picture()), single.run(picture())
    np.testing.assert_array_equal(a["out"], b["out"])


@pytest.mark.device
def test_a_staged_device(half: Path, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKNN_DISABLE", "unified")
    assert error(half, precision=precision) < 5e-3 * UNITS[precision] / UNITS["fp16"]


@pytest.mark.device
def test_tuning_keeps_precisions_apart(half: Path, precision: str) -> None:
    with vknn.Session(half, device="vulkan", precision=precision, tuned=False) as session:
        if "timestamps" not in session.device.limits.features:  # type: ignore[union-attr]
            pytest.skip("the device has no timestamps")
        report = tune(session, picture(), runs=1)
    assert report.rows
    assert all(row.key.endswith(f" in {precision}") for row in report.rows)
    assert not any(row.failures for row in report.rows), str(report)
    assert error(half, precision=precision) < 5e-3 * UNITS[precision] / UNITS["fp16"]


@pytest.mark.device
@pytest.mark.parametrize("command", ["run", "verify", "profile", "bench"])
def test_on_the_command_line(
    command: str, half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vknn.cli.main import main

    array = tmp_path / "x.npy"
    np.save(array, picture()["data"])
    argv = [command, str(half), "--input", str(array), "--precision", "fp16"]
    if "fp16_arithmetic" in shared_device().limits.features:
        argv += ["--arithmetic", "fp16"]
    argv += ["--runs", "1", "--warmup", "0"] if command in ("profile", "bench") else []
    assert main([*argv, "--device", "vulkan", "--json"]) == 0
    assert capsys.readouterr().out.startswith("{")
