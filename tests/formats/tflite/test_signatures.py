"""Signatures: a session runs any of them by its own names, and they share what the session has."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite import resource_nets as nets
from tests.helpers import shared_device, skip_without_half
from tests.small_model import write_small_model
from tests.tflite_writer import Table

import vknn
from vknn.crosscheck import verify_over
from vknn.errors import InputError, ModelFormatError, ShapeError
from vknn.formats.tflite.reader import parse_model
from vknn.profiling import bench
from vknn.runtime import live_objects
from vknn.session import by_signature, engine_of

X, W = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([1, 2, 3])


@pytest.fixture(params=["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def device(request: pytest.FixtureRequest) -> Any:
    """Where it is computed."""
    return "numpy" if request.param == "numpy" else shared_device()


def test_names_and_order_are_the_signatures(device: Any) -> None:
    with vknn.Session(nets.two_signatures(), device=device) as session:
        found = session.run({"w": W, "x": X}, signature="multiply")
        assert list(found) == ["y"]
        np.testing.assert_array_equal(found["y"], X * W)
        found = session.run({"v": np.float32([0, 1, 2])}, signature="other")
        assert list(found) == ["neg", "exp"]
        np.testing.assert_array_equal(found["neg"], [0, -1, -2])
        np.testing.assert_allclose(found["exp"], np.exp(np.float32([0, 1, 2])), rtol=1e-6)
        # Without a signature it is the first subgraph, by the names of its tensors.
        np.testing.assert_array_equal(session.run({"x:0": X, "w:0": W})["y:0"], X * W)
        with pytest.raises(InputError, match="unknown input 'x:0'"):
            session.run({"x:0": X, "w": W}, signature="multiply")


def test_the_model_lists_its_signatures() -> None:
    with vknn.Session(nets.two_signatures(), device="numpy") as session:
        found = session.model.signatures
        assert list(found) == ["multiply", "other"]
        assert dict(found["multiply"].inputs) == {"w": "w:0", "x": "x:0"}
        assert dict(found["other"].outputs) == {"neg": "c", "exp": "b"}
        assert found["other"].subgraph == 1


def test_what_run_takes_works_for_signatures_too(device: Any) -> None:
    with vknn.Session(nets.two_signatures(), device=device) as session:
        feeds = {"v": np.float32([0, 1])}
        assert list(session.run(feeds, ["exp"], signature="other")) == ["exp"]
        (alone,) = session.run(np.float32([3]), ["neg"], signature="other").values()
        assert alone.tolist() == [-3]
        blobs = session.run({"w": W, "x": X}, ["y:0"], signature="multiply")
        np.testing.assert_array_equal(blobs["y:0"], X * W)
        kept = session.run(feeds, signature="other", on_device=True, timeout=60)
        assert kept["neg"].numpy().tolist() == [0, -1]
        many = [{"v": np.float32([n] * (1 + n // 3))} for n in range(6)]
        for one, answer in zip(many, session.run_many(many, signature="other"), strict=True):
            np.testing.assert_array_equal(answer["neg"], -one["v"])
        streamed = list(session.stream(many, signature="other", errors="raise"))
        assert [answer["neg"].tolist() for answer in streamed] == [(-m["v"]).tolist() for m in many]
        assert len(session.placement) == 2


def test_the_first_signature_of_a_key_counts() -> None:
    given = [
        nets.signature("multiply", 0, {"w": 1, "x": 0}, {"y": 2}),
        nets.signature("multiply", 1, {"v": 0}, {"neg": 2}),
    ]
    data = nets.two_signatures(signature_defs=given)
    with vknn.Session(data, device="numpy") as session:
        assert dict(session.model.signatures["multiply"].inputs) == {"w": "w:0", "x": "x:0"}
        feeds = {"w": np.float32([1, 2, 3]), "x": np.ones((2, 3), np.float32)}
        assert session.run(feeds, signature="multiply")["y"].tolist() == [[1, 2, 3]] * 2


def test_unknown_ones_are_said_with_those_that_there_are() -> None:
    with vknn.Session(nets.two_signatures(), device="numpy") as session:
        words = "a model in memory: the model has no signature 'decode'.*'multiply', 'other'"
        with pytest.raises(InputError, match=words):
            session.run({"v": X}, signature="decode")
        with pytest.raises(InputError, match=words):
            session.run_many([{"v": X}], signature="decode")
        with pytest.raises(InputError, match="signature=1: expected the key"):
            session.run({"v": X}, signature=1)  # type: ignore[arg-type]
    with (
        vknn.Session(nets.totals().file(), device="numpy") as session,
        pytest.raises(InputError, match="it has none: leave signature out"),
    ):
        session.run({"x": np.float32([1, 2])}, signature="decode")


def test_other_formats_have_none(tmp_path: Path) -> None:
    with (
        vknn.Session(write_small_model(tmp_path), device="numpy") as session,
        pytest.raises(InputError, match="no signature 'a': only TensorFlow Lite models have"),
    ):
        session.run({}, signature="a")


def test_signatures_share_variables_until_a_reset(device: Any) -> None:
    with vknn.Session(nets.sharing(), device=device) as session:

        def get() -> list[float]:
            return session.run({"scale": np.float32([2])}, signature="get")["u"].tolist()

        with pytest.raises(ShapeError, match=r"'kv' has no value yet.*another signature"):
            get()
        session.run({"v": np.float32([1, 2])}, signature="put")
        assert get() == get() == [2, 4]
        session.run({"a": np.float32([5, 6])})  # the first subgraph by its tensors' names
        assert get() == [10, 12]
        session.reset_state()
        with pytest.raises(ShapeError, match="'kv' has no value yet"):
            get()


def test_signatures_share_the_arrays_of_weights() -> None:
    data = nets.cached_attention()
    record = parse_model(data)
    first, second = (
        {t.name: t.data for t in record.subgraphs[n].tensors if t.name.endswith(" weights")}
        for n in (0, 2)
    )
    assert len(first) == 3
    assert all(second[name] is array for name, array in first.items())


def test_programs_of_signatures_make_room_for_one_another(device: Any) -> None:
    with vknn.Session(nets.two_signatures(), device=device) as session:
        for _ in range(2):
            session.run({"w": W, "x": X}, signature="multiply")
            for size in range(1, 12):  # more than programs are kept
                found = session.run({"v": np.ones(size, np.float32)}, signature="other")
                assert found["neg"].tolist() == [-1] * size
            np.testing.assert_array_equal(session.run({"x:0": X, "w:0": W})["y:0"], X * W)


@pytest.mark.device
def test_nothing_is_left_when_the_session_is_closed() -> None:
    left = []
    for _ in range(2):  # the device keeps the first one's pipelines
        session = vknn.Session(nets.sharing(), device=shared_device())
        session.run({"v": np.float32([1, 2])}, signature="put")
        session.run({"scale": np.float32([2])}, signature="get")
        running = live_objects()
        session.close()
        gc.collect()
        left.append(live_objects())
        assert left[-1] != running
        with pytest.raises(vknn.VknnError, match="the session is closed"):
            session.run({"scale": np.float32([2])}, signature="get")
    assert left[0] == left[1]


@pytest.mark.device
def test_verify_takes_a_signature() -> None:
    with vknn.Session(nets.two_signatures(), device=shared_device()) as session:
        report = vknn.verify(session, signature="other")
        assert report.ok
        assert sorted(row.op for row in report.rows) == ["Exp", "Neg"]
        assert [name for name, _ in report.outputs] == ["neg", "exp"]
        with pytest.raises(InputError, match="no signature 'more'"):
            vknn.verify(session, signature="more")


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_verify_reads_what_another_signature_left_on_the_device(precision: str) -> None:
    if precision == "fp16":
        skip_without_half()
    device = shared_device()
    with vknn.Session(nets.sharing(), device=device, precision=precision) as session:
        session.run({"v": np.float32([1, 2])}, signature="put")
        report = vknn.verify(session, {"scale": np.float32([3])}, signature="get")
        assert report.ok
        assert [row.op for row in report.rows] == ["Mul"]
        expected = [a.tolist() for n, a in report.arrays.items() if n.endswith("/expected")]
        assert expected == [[3, 6]]


def test_a_pickled_session_runs_signatures_still(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(nets.two_signatures())
    with vknn.Session(path, device="numpy") as session:
        session.run({"w": W, "x": X}, signature="multiply")
        with pickle.loads(pickle.dumps(session)) as again:
            found = again.run({"w": W, "x": X}, signature="multiply")
            np.testing.assert_array_equal(found["y"], X * W)
        with pytest.raises(vknn.VknnError, match="pickle the session"):
            pickle.dumps(by_signature(session, "multiply"))


def test_variable_tensors_are_each_subgraphs_own() -> None:
    """Tensors with is_variable keep their content in a signature's subgraph as in the first."""
    from tests.formats.tflite.nets import adding_up, totals_operator

    net = adding_up(1)
    other = net.another()
    other.tensors, other.operators = net.tensors, net.operators
    other.inputs, other.outputs = net.inputs, net.outputs
    given = [nets.signature(key, n, {"x": 0}, {"y": 2}) for key, n in (("a", 0), ("b", 1))]
    with (
        totals_operator(),
        vknn.Session(net.file(signature_defs=given), device="numpy") as session,
    ):
        x = {"x": np.float32([1, 2])}
        assert session.run(x)["y"].tolist() == [1, 2]
        assert session.run(x, signature="b")["y"].tolist() == [1, 2]
        assert session.run(x, signature="a")["y"].tolist() == [2, 4]
        assert session.run(x, signature="b")["y"].tolist() == [2, 4]
        session.reset_state()
        assert session.run(x, signature="b")["y"].tolist() == [1, 2]
        assert engine_of(session).keeps_state


@pytest.mark.parametrize(
    ("number", "inputs", "outputs", "words"),
    [
        (0, {"x": 0, "w": 2}, {"y": 2}, "input 'w' is tensor 2 .'y:0'.*no input of the subgraph"),
        (0, {"x": 0, "w": 1}, {"y": 0}, "output 'y' is tensor 0 .'x:0'.*no output"),
        (0, {"x": 0}, {"y": 2}, "inputs 'x' do not stand for each of the subgraph's, 'w:0', 'x:0'"),
        (0, {"x": 0, "z": 0, "w": 1}, {"y": 2}, "do not stand for each"),
    ],
)
def test_signatures_that_do_not_fit_their_subgraph(
    number: int, inputs: Mapping[str, int], outputs: Mapping[str, int], words: str
) -> None:
    given = [nets.signature("odd", number, inputs, outputs)]
    with vknn.Session(nets.two_signatures(signature_defs=given), device="numpy") as session:
        with pytest.raises(ModelFormatError, match=f"signature 'odd' of subgraph 0: .*{words}"):
            session.run({"x": X, "w": W}, signature="odd")
        assert session.run({"x:0": X, "w:0": W})["y:0"].shape == (2, 3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (nets.signature("odd", 7, {}, {}), "signature 0 names subgraph 7"),
        (nets.signature("odd", 0, {"x": 0, "w": 9}, {"y": 2}), "names a tensor that is not there"),
        (nets.signature("odd", 0, {"x": 0, "w": 1}, {"y": 99}), "names a tensor that is not there"),
    ],
)
def test_signatures_of_what_is_missing(given: Table, words: str) -> None:
    with pytest.raises(ModelFormatError, match=words):
        vknn.Session(nets.two_signatures(signature_defs=[given]), device="numpy")


def test_tools_take_a_signature(tmp_path: Path, device: Any) -> None:
    """Of a file and of an open session; their feeds have its names."""
    path, name = tmp_path / "two.tflite", "numpy" if device == "numpy" else "auto"
    path.write_bytes(nets.two_signatures())
    feeds = {"v": np.float32([0, 1, 2])}
    timed = vknn.profile(path, feeds, signature="other", device=name, runs=1, warmup=0)
    assert "Neg" in str(timed) and "Exp" in str(timed)
    times = bench(path, feeds, signature="other", device=name, runs=1, warmup=0)
    assert len(times.ours.seconds) == 1
    report = verify_over(path, [feeds, feeds], signature="other", device=name)
    assert report.ok
    assert sorted({row.op for row in report.rows}) == ["Exp", "Neg"]
    with vknn.Session(path, device=device) as session:
        assert verify_over(session, [feeds], signature="other").ok
        assert "Exp" in str(vknn.profile(session, feeds, signature="other", runs=1, warmup=0))
        # The session itself runs what it ran.
        assert list(session.run({"x:0": X, "w:0": W})) == ["y:0"]
    calls: list[Any] = [vknn.profile, bench, lambda *a, **k: verify_over(a[0], [], **k)]
    for call in calls:
        with pytest.raises(InputError, match=r"two\.tflite.*no signature 'decode'"):
            call(path, signature="decode", device=name)
