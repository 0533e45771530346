"""VKNN_DEBUG says what ran, the plans, the dispatches and the values, each level more."""

import numpy as np
import pytest

from vknn import Session
from vknn.debug import describe

NET = "7767517\n3 3\nInput in 0 1 a\nReLU r 1 1 a b 0=0.25\nSoftmax s 1 1 b c\n"


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    def run(level, device="auto"):
        path = tmp_path / "n.param"
        path.write_text(NET)
        (tmp_path / "n.bin").write_bytes(b"")
        monkeypatch.setenv("VKNN_DEBUG", str(level))
        with Session(path, device=device) as session:
            out = session.run({"a": np.float32([[-4, 2, 1]])})
        assert out["c"].shape == (1, 3)
        return capfd.readouterr().err

    return run


def test_silent_by_default(run):
    assert "vknn:" not in run(0)


@pytest.mark.device
def test_level_1_says_what_ran(run):
    text = run(1)
    assert "2 nodes on vulkan in" in text
    assert "dispatch" not in text
    assert "arena" not in text


def test_level_1_on_the_host(run):
    assert "2 nodes on host in" in run(1, "numpy")


@pytest.mark.device
def test_level_2_shows_the_plan(run):
    text = run(2)
    assert "arena activation" in text
    assert " us " not in text


@pytest.mark.device
def test_level_3_shows_each_dispatch_with_its_time(run):
    text = run(3)
    assert text.count(" us  ") == 2
    assert "reduction/softmax" in text


def test_level_4_shows_values(run):
    text = run(4)
    assert "a: float32[1, 1, 3] min -4 max 2" in text
    assert "min -1 max 2" in text


def test_values_that_are_not_finite_are_counted():
    text = describe(np.float32([1, np.nan, np.inf]))
    assert "min 1 max 1" in text
    assert "not finite: 2" in text
    assert describe(np.zeros((0, 3), np.int32)) == "int32[0, 3]"
