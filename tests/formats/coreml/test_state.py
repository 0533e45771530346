"""The hidden counter of random draws: through loops, branches and pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import array_feature, layer, model, network, session
from tests.formats.coreml.test_control_flow import copy, loop
from tests.formats.coreml.test_pipelines import pipeline
from tests.helpers import shared_device

BACKENDS = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]


def draw(output: str, seed: int = -1) -> Any:
    return layer(
        "randomUniformStatic", [], [output], name=f"draw {output}", seed=seed, outputShape=[2],
        minVal=0.0, maxVal=1.0,
    )  # fmt: skip


def drawing(rounds: str | int, seed: int = -1) -> Any:
    """A network that appends draws to its input, round by round."""
    more = layer("concatND", ["y", "r"], ["longer"], axis=0)
    body = [draw("r", seed), more, copy("longer", "y")]
    how = {"count": rounds} if isinstance(rounds, str) else {"most": rounds}
    inputs: dict[str, Any] = {"x": (1,)} | ({"n": (1,)} if isinstance(rounds, str) else {})
    return model([copy("x", "y"), loop(body, **how)], inputs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rounds", ["n", 4, 40])
def test_every_round_draws_other_numbers(rounds: str | int, backend: str) -> None:
    feeds = {"x": [9], "n": [4]} if isinstance(rounds, str) else {"x": [9]}
    many = 4 if isinstance(rounds, str) else rounds
    with session(drawing(rounds), "numpy" if backend == "numpy" else shared_device()) as s:
        runs = [s.run(feeds)["y"] for _ in range(3)]
        s.reset_state()
        again = [s.run(feeds)["y"] for _ in range(3)]
    drawn = np.concatenate([y[1:] for y in runs])
    assert len(drawn) == 3 * 2 * many
    # Of 240 numbers of 24 bits two are equal by chance once in 600 times.
    assert len(np.unique(drawn)) >= len(drawn) - 1
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert all(np.array_equal(a, b) for a, b in zip(runs, again, strict=True))


def test_sessions_draw_apart() -> None:
    with session(drawing(2)) as one, session(drawing(2)) as two:
        assert not np.array_equal(one.run({"x": [0]})["y"], two.run({"x": [0]})["y"])


def test_a_seed_repeats() -> None:
    with session(drawing(3, seed=5)) as s:
        assert not s.model.state
        first, again = s.run({"x": [0]})["y"], s.run({"x": [0]})["y"]
    assert np.array_equal(first, again)
    assert np.array_equal(first[1:3], first[3:5])


@pytest.mark.device
def test_backends_agree_from_the_same_start() -> None:
    pytest.importorskip("vulkan")
    message = drawing(3)
    with session(message) as host, session(message, shared_device()) as device:
        device._engine._state._arrays.update(host._engine._state._arrays)
        host_y, device_y = host.run({"x": [0]})["y"], device.run({"x": [0]})["y"]
    np.testing.assert_allclose(device_y, host_y, rtol=1e-6)


def test_pipelines_keep_a_counter_for_each_model() -> None:
    first, second = drawing(1), drawing(2)
    for name in ("y", "z"):
        stage = first if name == "y" else second
        stage.description.output[0].name = name
    second.neuralNetwork.layers.append(copy("y", "z"))
    message = pipeline(
        [first, second], [array_feature("x", (1,))], [array_feature("y"), array_feature("z")]
    )
    with session(message) as s:
        assert len(s.model.state) == 2
        runs = [s.run({"x": [0]}) for _ in range(2)]
    drawn = np.concatenate([r[name][1:] for r in runs for name in ("y", "z")])
    assert len(drawn) == 2 * (2 + 4)
    assert len(np.unique(drawn)) == len(drawn)


def test_a_branch_that_draws_or_not() -> None:
    net = layer("branch", ["flag"], [], ifBranch=network([draw("r"), copy("r", "y")]))
    message = model([layer("copy"), net], {"x": (2,), "flag": (1,)})
    with session(message) as s:
        assert s.run({"x": [1, 2], "flag": [0]})["y"].tolist() == [1, 2]
        one, two = (s.run({"x": [1, 2], "flag": [1]})["y"] for _ in range(2))
    assert not np.array_equal(one, two)
