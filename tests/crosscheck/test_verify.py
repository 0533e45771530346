"""verify on a small network: agreement, and operators made wrong on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.crosscheck import VerifyReport
from vknn.errors import InputError
from vknn.ops.elementwise import Fused, Relu
from vknn.ops.pooling.pool import GlobalAveragePool


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def report(model: Path) -> VerifyReport:
    return vknn.verify(model, device="vulkan")


@pytest.mark.device
def test_a_network_agrees_with_numpy(report: VerifyReport) -> None:
    assert report.ok, str(report)
    assert report.first_failure is None
    assert [r.layer for r in report.rows][:2] == ["conv1", "dw+sum"]
    assert {r.placement for r in report.rows} == {"vulkan"}
    assert all(r.isolated and r.cumulative for r in report.rows)
    assert [name for name, _ in report.outputs] == ["out"]


@pytest.mark.device
def test_the_report_as_text_json_and_arrays(report: VerifyReport, tmp_path: Path) -> None:
    text = str(report)
    assert "conv1" in text
    assert "operators agree" in text
    document = json.loads(report.to_json())
    assert document["ok"] is True
    assert document["rows"][0]["isolated"]["excess"] < 1
    report.dump(tmp_path / "arrays.npz")
    with np.load(tmp_path / "arrays.npz") as arrays:
        first = report.rows[0].output
        assert arrays[f"{first}/expected"].shape == (1, 6, 8, 8)
        np.testing.assert_allclose(
            arrays[f"{first}/isolated"], arrays[f"{first}/expected"], atol=1e-4
        )
        assert f"{first}/cumulative" in arrays


@pytest.mark.device
def test_the_first_wrong_operator_is_named(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    true = GlobalAveragePool.reference

    def wrong(self: GlobalAveragePool, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (y,) = true(self, *inputs)
        y[0, 4] *= 1.001
        return (y,)

    monkeypatch.setattr(GlobalAveragePool, "reference", wrong)
    report = vknn.verify(model, device="vulkan")
    assert not report.ok
    row = report.first_failure
    assert row is not None
    assert (row.layer, row.op) == ("pool", "GlobalAveragePool")
    assert row.isolated is not None
    assert row.isolated.worst == (0, 4, 0, 0)
    assert row.isolated.expected == pytest.approx(1.001 * row.isolated.actual, rel=1e-5)
    assert "first out of tolerance: GlobalAveragePool 'pool' (vulkan) by itself" in report.summary()
    assert "FAIL" in str(report)
    assert json.loads(report.to_json())["first_failure"] == row.node
    # What comes behind is wrong cumulatively, yet right by itself.
    later = report.rows[-1]
    assert later.isolated is not None
    assert later.isolated.ok
    assert vknn.verify(model, device="vulkan", tolerance=1e-2, cumulative_tolerance=1e-2).ok


@pytest.mark.device
def test_nan_is_out_of_tolerance(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relu, "compute", lambda self, x: np.where(x > 0, x, np.nan))
    report = vknn.verify(model, device="vulkan")
    assert report.first_failure is report.rows[0]
    assert json.loads(report.to_json())["rows"][0]["isolated"]["max_abs"] == "inf"


@pytest.mark.device
def test_before_the_passes(model: Path) -> None:
    report = vknn.verify(model, device="vulkan", passes=False)
    assert report.ok, str(report)
    assert [r.layer for r in report.rows].count("conv1") == 2  # the convolution and its ReLU
    assert not any(isinstance(r.op, Fused) for r in report.rows)


def test_on_numpy_there_is_nothing_to_compare(model: Path) -> None:
    report = vknn.verify(model, device="numpy")
    assert report.ok
    assert report.device == "NumPy"
    assert "nothing to compare" in report.summary()
    assert all(r.isolated is None for r in report.rows)


def test_inputs_and_shapes(model: Path) -> None:
    array = np.zeros(SHAPE, np.float32)
    told: list[tuple[int, int, str]] = []
    with vknn.Session(model, device="numpy") as session:
        report = vknn.verify(session, {"data": array}, progress=lambda *a: told.append(a))
        assert report.model == "small"
        assert told[-1] == (len(report.rows), len(report.rows), "outputs")
        odd = vknn.verify(session, shapes={"data": (3, 5, 9)})
        assert odd.rows[0].type == "float32[1, 6, 5, 9]"
        with pytest.raises(InputError, match="unknown input 'x'"):
            vknn.verify(session, {"x": array})
        with pytest.raises(InputError, match="too large"):
            vknn.verify(session, shapes={"data": (3, 1 << 20, 1 << 20)})
