"""Random operators against TensorFlow Lite's own, run after run; how unseeded ones differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.tflite.test_operators import one
from tests.tflite_writer import Net, Table

from vknn.crosscheck import verify
from vknn.session import Session

Run = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
SEEDS = [(1, 2), (0, 5), (-1, 0), ((1 << 33) + 5, -7), (-(1 << 63), (1 << 63) - 1)]
FLOATS = ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL")


def seeded(first: int, second: int) -> dict[str, int]:
    return {"seed": first, "seed2": second}


def kernels(file: bytes) -> Run:
    """Runs of one interpreter with the reference kernels."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_content=file, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()

    def run(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], feeds[detail["name"]])
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        return {d["name"]: interpreter.get_tensor(d["index"]).copy() for d in outputs}

    return run


def session_of(net: Net, folder: Path, backend: str) -> Session:
    path = folder / "net.tflite"
    path.write_bytes(net.file())
    return Session(path, device="numpy" if backend == "numpy" else "auto")


def alike(
    net: Net, feeds: list[dict[str, np.ndarray]], folder: Path, backend: str
) -> list[dict[str, np.ndarray]]:
    """Compares runs with those feeds in a row; floats within 1e-5 of the range. Gives vknn's."""
    kept, reference = [], kernels(net.file())
    with session_of(net, folder, backend) as session:
        for feed in feeds:
            found, wanted = session.run(feed), reference(feed)
            for name, expected in wanted.items():
                assert found[name].shape == expected.shape
                assert found[name].dtype == expected.dtype
                if expected.dtype.kind == "f":
                    most = float(np.abs(expected).max(initial=0.0))
                    np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-5 * most)
                else:
                    np.testing.assert_array_equal(found[name], expected)
            kept.append(found)
    return kept


def numbers(name: str, shape: tuple[int, ...], options: dict[str, int] | None) -> Net:
    """An operator that makes numbers in a shape of the file."""
    given = ((len(shape),), "int32", {"data": np.array(shape, np.int32)})
    return one(name, [given], [(shape, "float32", {})], options)


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("name", FLOATS)
def test_numbers(name: str, seeds: tuple[int, int], tmp_path: Path, backend: str) -> None:
    for shape in ((7, 13), (1,), (2, 3, 5)):
        runs = alike(numbers(name, shape, seeded(*seeds)), [{}] * 4, tmp_path, backend)
        assert len({run["y0"].tobytes() for run in runs}) == 4


@pytest.mark.parametrize("name", FLOATS)
def test_shapes_of_run_time(name: str, tmp_path: Path, backend: str) -> None:
    """The generator goes on whatever the shapes; a group of four is drawn anew for each run."""
    net = one(name, [((2,), "int32", {})], [((7, 3), "float32", {})], seeded(3, 4))
    feeds = [{"x0": np.array(s, np.int32)} for s in ((7, 3), (2, 5), (1, 1), (7, 3), (13, 2))]
    alike(net, feeds, tmp_path, backend)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("rows, classes, samples", [(3, 5, 8), (2, 7, 7), (1, 3, 13), (5, 2, 1)])
def test_multinomial(
    rows: int, classes: int, samples: int, kind: str, tmp_path: Path, backend: str
) -> None:
    rng = np.random.default_rng(rows)
    count = ((), "int32", {"data": np.array(samples, np.int32)})
    net = one(
        "MULTINOMIAL", [((rows, classes), "float32", {}), count], [((rows, samples), kind, {})],
        seeded(77, 3),
    )  # fmt: skip
    logits = [rng.normal(size=(rows, classes)).astype(np.float32) * 3 for _ in range(3)]
    logits[1][0, 0], logits[2][0] = -np.inf, np.nan
    alike(net, [{"x0": x} for x in logits], tmp_path, backend)


def test_samples_as_an_input(tmp_path: Path, backend: str) -> None:
    inputs = [((2, 5), "float32", {}), ((), "int32", {})]
    net = one("MULTINOMIAL", inputs, [((2, 3), "int32", {})], seeded(-5, 0))
    x = np.float32([[1, 2, 3, 0, 1], [0, 0, 2, 0, 0]])
    feeds = [{"x0": x, "x1": np.array(n, np.int32)} for n in (3, 11, 1, 3)]
    alike(net, feeds, tmp_path, backend)


def test_each_operator_has_its_own_generator(tmp_path: Path, backend: str) -> None:
    net = Net()
    net.outputs = [net.tensor(f"y{i}", (5, 3)) for i in range(4)]
    shape = net.tensor("shape", (), "int32", data=np.int32([5, 3]))
    names = (*FLOATS, *FLOATS)
    for output, name, seed in zip(net.outputs, names, (1, 1, 1, 9), strict=True):
        net.add(name, [shape], [output], seeded(seed, 2))
    runs = alike(net, [{}] * 3, tmp_path, backend)
    np.testing.assert_array_equal(runs[0]["y0"], runs[0]["y2"])
    assert (runs[0]["y1"] != runs[0]["y3"]).any()


def looping(options: dict[str, int] | None) -> Net:
    """x, n -> x + numbers drawn in n rounds of a loop, + numbers drawn behind it."""
    net = Net()
    condition, body = net.another(), net.another()
    i, x, n = (net.tensor(*end) for end in (("i", (), "int32"), ("x", (7,)), ("n", (), "int32")))
    ends = [net.tensor(*end) for end in (("a", (), "int32"), ("b", (7,)), ("c", (), "int32"))]
    drawn, y = net.tensor("drawn", (7,)), net.tensor("y", (7,))
    net.add("WHILE", [i, x, n], ends, {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    net.add(
        "RANDOM_UNIFORM",
        [net.tensor("shape", (), "int32", data=np.int32([7]))],
        [drawn],
        seeded(1, 2),
    )
    net.add("ADD", [ends[1], drawn], [y], {})
    net.inputs, net.outputs = [i, x, n], [y]

    ins = [condition.tensor(*end) for end in (("i", (), "int32"), ("x", (7,)), ("n", (), "int32"))]
    condition.inputs, condition.outputs = ins, [condition.tensor("less", (), "bool")]
    condition.add("LESS", [ins[0], ins[2]], condition.outputs, {})

    ins = [body.tensor(*end) for end in (("i", (), "int32"), ("x", (7,)), ("n", (), "int32"))]
    raised, added = body.tensor("j", (), "int32"), body.tensor("sum", (7,))
    drawn = body.tensor("drawn", (7,))
    body.add("ADD", [ins[0], body.tensor("one", (), "int32", data=np.int32(1))], [raised], {})
    shape = body.tensor("s", (), "int32", data=np.int32([7]))
    body.add("RANDOM_STANDARD_NORMAL", [shape], [drawn], options)
    body.add("ADD", [ins[1], drawn], [added], {})
    body.inputs, body.outputs = ins, [raised, added, ins[2]]
    return net


def test_rounds_of_a_loop_go_on(tmp_path: Path, backend: str) -> None:
    """The generator in the loop begins anew with each run, as TensorFlow Lite's does."""
    x = np.zeros(7, np.float32)
    feeds: list[dict[str, Any]] = [
        {"i": np.int32(0), "x": x, "n": np.int32(n)} for n in (3, 0, 2, 1)
    ]
    runs = alike(looping(seeded(5, 6)), feeds, tmp_path, backend)
    assert len({run["y"].tobytes() for run in runs}) == 4


def test_unseeded_numbers_in_a_loop_differ(tmp_path: Path, backend: str) -> None:
    def runs(rounds: int) -> list[np.ndarray]:
        session.reset_state()
        x = np.zeros(7, np.float32)
        feed = {"i": np.int32(0), "x": x, "n": np.int32(rounds)}
        return [session.run(feed)["y"] for _ in range(2)]

    with session_of(looping(None), tmp_path, backend) as session:
        behind, whole, again = runs(0), runs(1), runs(1)
    np.testing.assert_array_equal(whole, again)
    first, second = (y - drawn for y, drawn in zip(whole, behind, strict=True))
    assert np.abs(first - second).max() > 1e-3


def branching(options: dict[str, int] | None, constant: bool = False) -> Net:
    """Numbers of one of two generators, as the condition says."""
    net = Net()
    branches = [net.another(), net.another()]
    decided = {"data": np.array(True)} if constant else {}
    condition, y = net.tensor("condition", (), "bool", **decided), net.tensor("y", (5,))
    net.add("IF", [condition], [y], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    net.inputs, net.outputs = [] if constant else [condition], [y]
    for branch, name in zip(branches, FLOATS, strict=True):
        branch.outputs = [branch.tensor("numbers", (5,))]
        shape = branch.tensor("s", (), "int32", data=np.int32([5]))
        branch.add(name, [shape], branch.outputs, options)
    return net


def test_branches(tmp_path: Path, backend: str) -> None:
    """A seeded generator begins anew with each branch that is taken, as TensorFlow Lite's does."""
    feeds = [{"condition": np.array(value)} for value in (True, False, True, False)]
    runs = alike(branching(seeded(5, 6)), feeds, tmp_path, backend)
    np.testing.assert_array_equal(runs[0]["y"], runs[2]["y"])
    alike(branching(seeded(5, 6), constant=True), [{}] * 2, tmp_path, backend)
    with session_of(branching(None), tmp_path, backend) as session:
        found = [session.run(feed)["y"] for feed in feeds]
    assert len({y.tobytes() for y in found}) == 4
    with session_of(branching(None, constant=True), tmp_path, backend) as session:
        assert (session.run({})["y"] != session.run({})["y"]).any()


@pytest.mark.parametrize("algorithm", [0, 1, 2])
@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64"])
def test_bits(algorithm: int, kind: str, tmp_path: Path, backend: str) -> None:
    """Each run takes the state that the one before gave."""
    end = (1 << 64) - 1
    states = [[3, 4], [end, end], [(1 << 63) + 5, (1 << 32) - 2]]
    states += [[3, 4, 5], [3, end, 7]] if algorithm < 2 else []
    for state in states:
        held = ((len(state),), "uint64", {})
        net = one("STABLEHLO_RNG_BIT_GENERATOR", [held], [held, ((7, 3), kind, {})],
                  {"algorithm": algorithm})  # fmt: skip
        feeds, reference = [{"x0": np.array(state, np.uint64)}], kernels(net.file())
        for _ in range(3):
            feeds.append({"x0": reference(feeds[-1])["y0"]})
        found = alike(net, feeds, tmp_path, backend)
        assert len({run["y1"].tobytes() for run in found}) == 4


# --- without LiteRT -------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [seeded(3, 0), seeded(0, 0), seeded(1 << 32, -(1 << 32)), None])
@pytest.mark.parametrize("name", FLOATS)
def test_what_is_the_same(
    name: str, options: dict[str, int] | None, tmp_path: Path, backend: str
) -> None:
    """With a seed all sessions draw alike; two runs of a session never do.

    Seeds of which no bit is left in 32 are none, as in TensorFlow Lite.
    """
    runs, net = [], numbers(name, (7, 5), options)
    for _ in range(2):
        with session_of(net, tmp_path, backend) as session:
            first, second = (session.run({})["y0"] for _ in range(2))
            session.reset_state()
            again = session.run({})["y0"]
        assert (first == again).all() and (first != second).any()
        runs.append(first)
    assert (runs[0] == runs[1]).all() == (options == seeded(3, 0))


def test_unseeded_operators_differ(tmp_path: Path, backend: str) -> None:
    net = Net()
    net.outputs = [net.tensor(f"y{i}", (61, 53)) for i in range(2)]
    shape = net.tensor("shape", (), "int32", data=np.int32([61, 53]))
    for output in net.outputs:
        net.add("RANDOM_UNIFORM", [shape], [output], None)
    with session_of(net, tmp_path, backend) as session:
        runs = [session.run({}) for _ in range(3)]
    found = [run[name].reshape(-1) for run in runs for name in ("y0", "y1")]
    assert len({array.tobytes() for array in found}) == 6
    assert np.abs(np.corrcoef(found) - np.eye(6)).max() < 0.1


def test_unseeded_numbers_are_distributed_so(tmp_path: Path, backend: str) -> None:
    shape, count = (113, 127), 113 * 127
    with session_of(numbers("RANDOM_UNIFORM", shape, None), tmp_path, backend) as session:
        y = session.run({})["y0"].astype(np.float64)
    assert y.min() >= 0 and y.max() < 1
    counts, _ = np.histogram(y, 32, (0, 1))
    chi = float((np.square(counts - count / 32) / (count / 32)).sum())
    assert chi < 31 + 6 * (2 * 31) ** 0.5
    net = numbers("RANDOM_STANDARD_NORMAL", shape, None)
    with session_of(net, tmp_path, backend) as session:
        z = session.run({})["y0"].astype(np.float64)
    for power, wanted, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(z**power) - wanted) < 6 * (spread / count) ** 0.5
    row = np.log(np.float32([[0.5, 0.2, 0.3]]))
    given = [((1, 3), "float32", {}), ((), "int32", {"data": np.array(9001, np.int32)})]
    net = one("MULTINOMIAL", given, [((1, 9001), "int64", {})], {})
    with session_of(net, tmp_path, backend) as session:
        classes = session.run({"x0": row})["y0"]
    assert classes.dtype == np.int64
    np.testing.assert_allclose(np.bincount(classes[0]) / 9001, [0.5, 0.2, 0.3], atol=0.05)


@pytest.mark.device
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("options", [seeded(3, 0), None])
def test_verified(name: str, options: dict[str, int] | None, tmp_path: Path) -> None:
    """The device's numbers are held against the same ones of the host, unseeded ones too."""
    path = tmp_path / "net.tflite"
    path.write_bytes(numbers(name, (31, 7), options).file())
    report = verify(path)
    assert report.ok and len(report.rows) == 2
    assert all(row.placement == "vulkan" for row in report.rows)


def test_signatures_go_on(tmp_path: Path, backend: str) -> None:
    """Each signature's operators have generators of their own, which go on from run to run."""
    net = Net()
    graphs = [net, net.another()]
    for graph, name in zip(graphs, FLOATS, strict=True):
        graph.outputs = [graph.tensor("y", (7,))]
        shape = graph.tensor("shape", (), "int32", data=np.int32([7]))
        graph.add(name, [shape], graph.outputs, seeded(3, 4))
    signatures = [
        Table("SignatureDef", {
            "signature_key": f"s{k}", "subgraph_index": k,
            "outputs": [Table("TensorMap", {"name": "r", "tensor_index": graph.outputs[0]})],
        })
        for k, graph in enumerate(graphs)
    ]  # fmt: skip
    file = net.file(signature_defs=signatures)
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_content=file, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    runners = {key: interpreter.get_signature_runner(key) for key in ("s0", "s1")}
    (tmp_path / "net.tflite").write_bytes(file)
    device = "numpy" if backend == "numpy" else "auto"
    with Session(tmp_path / "net.tflite", device=device) as session:
        for key in ("s0", "s1", "s0", "s0", "s1"):
            found = session.run({}, signature=key)["r"]
            np.testing.assert_allclose(found, runners[key]()["r"], rtol=0, atol=1e-5)
