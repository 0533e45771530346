"""The examples of a bundle, which the runner compares its own answers with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.edits import edited, records
from tests.bundle.networks import Made, small

import vknn
from vknn.bundle.runner import Runner
from vknn.bundle.schema import StepKind
from vknn.errors import InputError

pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


def test_example(net: Made, tmp_path: Path, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        good, told = runner.test()
    assert good, told
    assert "0 of 5 elements are off" in told

    raw = net.path.read_bytes()
    output = records(raw, "port")["buffer"][-1]

    def filled(steps: np.ndarray) -> None:
        last = np.flatnonzero(steps["kind"] == StepKind.DISPATCH)[-1]
        steps["kind"][last], steps["target"][last] = StepKind.FILL, output
        steps["word"][last] = 0x3F800000

    wrong = edited(net.path, tmp_path / "wrong.vkb", "step", filled)
    with Runner(wrong, library=library) as runner:
        good, told = runner.test()
    assert not good
    assert "5 of 5 elements are off" in told


def test_example_without_answers(net: Made, tmp_path: Path, library: Path) -> None:
    def only_input(examples: np.ndarray) -> None:
        examples[:] = examples[0]

    path = edited(net.path, tmp_path / "x.vkb", "example", only_input)
    with Runner(path, library=library) as runner:
        with pytest.raises(InputError, match="no example with"):
            runner.test()
        document = json.loads(runner.test_json())
    assert (document["ok"], document["outputs"]) == (False, [])
    assert document["error"].startswith("argument: the bundle has no example with answers")


def test_outputs_without_answers_are_named(tmp_path: Path, library: Path) -> None:
    model = tmp_path / "two.param"
    model.write_text("7767517\n3 4\nInput x 0 1 x\nSplit s 1 2 x a b\nReLU relu 1 1 b y\n")
    vknn.export(model, tmp_path / "two.vkb", shapes={"x": (2, 3, 5)})

    def first_answer_twice(examples: np.ndarray) -> None:
        examples[-1] = examples[-2]

    path = edited(tmp_path / "two.vkb", tmp_path / "one.vkb", "example", first_answer_twice)
    for bundle, counts in ((tmp_path / "two.vkb", 0), (path, 1)):
        with Runner(bundle, library=library) as runner:
            good, told = runner.test()
        assert good
        assert told.count("not compared, the example has no answer for it") == counts
