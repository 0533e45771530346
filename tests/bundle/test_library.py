"""The library of the runner over ctypes: runs, borrowed memory, errors, threads."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.rebuilt import (
    digits_with_example,
    one_step,
    relu,
)

from vknn.bundle import Bundle, Runner
from vknn.errors import (
    DeviceError,
    DeviceTimeoutError,
    InputError,
    ModelFormatError,
    OutOfMemoryError,
    VknnError,
)

pytestmark = pytest.mark.glsl


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_with_example(tmp_path_factory.mktemp("net"))


@pytest.mark.device
def test_the_library_runs_a_bundle(library: Path, net: Path, tmp_path: Path) -> None:
    bundle = Bundle.open(net)
    given = {e.port.name: e.array for e in bundle.plans[0].examples}
    with Runner(net, library=library, target="generic", cache=tmp_path) as runner:
        assert list(runner.inputs) == ["image"] and list(runner.outputs) == ["probabilities"]
        assert runner.inputs["image"].shape == bundle.plans[0].inputs[0].shape
        assert runner.memory >= bundle.plans[0].weight_bytes and runner.device
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
