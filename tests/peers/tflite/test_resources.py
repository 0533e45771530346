"""Variables, hash tables and signatures against LiteRT, over many runs of one session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite import resource_nets as nets
from tests.helpers import shared_device
from tests.tflite_writer import Net

import vknn
from vknn.crosscheck.engines import litert_run

litert = pytest.importorskip("ai_edge_litert.interpreter")


def opened(data: bytes, backend: str) -> vknn.Session:
    """A session of a model in memory."""
    return vknn.Session(data, device="numpy" if backend == "numpy" else shared_device())


def interpreter(data: bytes, reference: bool = True) -> Any:
    """LiteRT's interpreter, with the reference kernels."""
    kinds = litert.OpResolverType
    kind = kinds.BUILTIN_REF if reference else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = litert.Interpreter(model_content=data, experimental_op_resolver_type=kind)
    made.allocate_tensors()
    return made


def peer_run(peer: Any, array: np.ndarray) -> list[np.ndarray]:
    """Outputs of one run of a model with one input."""
    peer.set_tensor(peer.get_input_details()[0]["index"], array)
    peer.invoke()
    return [peer.get_tensor(details["index"]) for details in peer.get_output_details()]


def test_fifty_steps_of_two_signatures_that_share_a_cache(backend: str) -> None:
    data = nets.cached_attention()
    peer, rng = interpreter(data), np.random.default_rng(3)
    with opened(data, backend) as session:
        for step in range(50):
            key, count, name = ("prefill", 4, "rows") if step % 10 == 0 else ("decode", 1, "row")
            first = step + 3 * -(-step // 10) if step else 0
            rows = (first + np.arange(count)) % nets.LENGTH
            place = np.zeros((nets.LENGTH, count), np.float32)
            place[rows, np.arange(count)] = 1
            mask = np.where(np.arange(nets.LENGTH) <= rows[-1], 0, -1e9).astype(np.float32)
            feeds = {"at": place, "mask": mask[None]}
            feeds[name] = rng.standard_normal((count, nets.WIDTH)).astype(np.float32)
            expected = peer.get_signature_runner(key)(**feeds)
            found = session.run(feeds, signature=key)
            assert found.keys() == expected.keys() == {"out"}
            np.testing.assert_allclose(found["out"], expected["out"], rtol=0, atol=1e-5)


TABLES: list[tuple[Callable[[], Net], np.ndarray]] = [
    (
        lambda: nets.looked_up([(["a", "b", ""], [1, 2, 3])], nets.STRING),
        np.array([b"a", b"zz", b"", b"b"], object),
    ),
    (
        lambda: nets.looked_up([([5, -7, 2**40], ["five", "", "many"])], nets.INT64),
        np.int64([5, 2**40, -7, 0]),
    ),
    # The first of equal keys counts, and a second import is ignored, also behind an empty one.
    (
        lambda: nets.looked_up([(["b", "a", "b"], [1, 2, 3]), (["c"], [4])], nets.STRING),
        np.array([b"a", b"b", b"c", b"d"], object),
    ),
    (
        lambda: nets.looked_up([([], []), (["c"], [4])], nets.STRING),
        np.array([b"a", b"b", b"c", b"d"], object),
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TABLES)))
def test_tables_find_what_litert_finds(number: int, backend: str) -> None:
    net, keys = TABLES[number]
    data = net().file()
    peer = interpreter(data, reference=False)  # the reference has no tables
    with opened(data, backend) as session:
        for _ in range(2):
            expected = dict(zip(("found", "size"), peer_run(peer, keys), strict=True))
            found = session.run({"q": keys})
            for name, array in expected.items():
                assert found[name].dtype == array.dtype
                assert found[name].tolist() == array.tolist()


def test_a_table_that_nothing_fills_has_no_keys(backend: str) -> None:
    data = nets.looked_up([], nets.STRING, find=False).file()
    keys = np.array([b"a"] * 4, object)
    (expected,) = peer_run(interpreter(data, reference=False), keys)
    with opened(data, backend) as session:
        assert session.run({"q": keys})["size"].tolist() == expected.tolist() == [0]


def looping() -> Net:
    """y = x doubled n times, each time added to a variable too, which is read behind the loop."""
    net = Net()
    init, condition, body = net.another(), net.another(), net.another()
    nets.assign(init, "v", init.tensor("zero", data=np.float32([0, 0])))
    for inner in (condition, body):
        inner.inputs = [inner.tensor("n", (1,), "int32"), inner.tensor("x", (2,))]
    condition.outputs = [condition.tensor("more", (1,), "bool")]
    none = condition.tensor("none", (1,), "int32", data=np.int32([0]))
    condition.add("GREATER", [0, none], condition.outputs, {})
    one = body.tensor("one", (1,), "int32", data=np.int32([1]))
    total = body.tensor("total", (2,))
    body.outputs = [body.tensor("fewer", (1,), "int32"), body.tensor("twice", (2,))]
    body.add("SUB", [0, one], [body.outputs[0]], {})
    body.add("ADD", [1, 1], [body.outputs[1]], {})
    body.add("ADD", [nets.read(body, "v", (2,)), body.outputs[1]], [total], {})
    nets.assign(body, "v", total)
    x = net.tensor("x", (2,))
    n = net.tensor("n", (1,), "int32", data=np.int32([3]))
    ends = [net.tensor("left", (1,), "int32"), net.tensor("y", (2,))]
    nets.once(net)
    net.add("WHILE", [n, x], ends, {"cond_subgraph_index": 2, "body_subgraph_index": 3})
    net.inputs, net.outputs = [x], [ends[1], nets.read(net, "v", (2,))]
    return net


@pytest.mark.parametrize("net", [nets.totals, looping], ids=["totals", "loop"])
def test_variables_hold_what_litert_holds(net: Callable[[], Net], backend: str) -> None:
    data = net().file()
    peer = interpreter(data)
    with opened(data, backend) as session:
        for number in range(4):
            x = np.float32([number, -1])
            expected = peer_run(peer, x)
            for found, right in zip(session.run({"x": x}).values(), expected, strict=True):
                np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("stated", [(), (1,), (3,), (2, 2)])
def test_reads_have_the_shape_that_the_file_states(stated: tuple[int, ...], backend: str) -> None:
    """Values with fewer elements are left out: LiteRT gives what lies behind them in memory."""
    net = Net()
    x = net.tensor("x", (4,), shape_signature=[-1])
    nets.assign(net, "v", x)
    net.inputs, net.outputs = [x], [nets.read(net, "v", stated)]
    data = net.file()
    peer = interpreter(data)
    with opened(data, backend) as session:
        for size in (4, 6, 4):
            x = np.arange(size, dtype=np.float32)
            peer.resize_tensor_input(0, [size])
            peer.allocate_tensors()
            (found,) = session.run({"x": x}).values()
            np.testing.assert_array_equal(found, peer_run(peer, x)[0])


def test_handles_are_not_among_the_tensors_of_a_comparison(tmp_path: Path) -> None:
    """LiteRT dies of reading them."""
    path = tmp_path / "model.tflite"
    path.write_bytes(nets.looked_up([(["a", "b"], [1, 2])], nets.STRING).file())
    _, found = litert_run.run(str(path), None, {"q": np.array([b"a", b"1", b"b", b""])})
    assert {n: a.tolist() for n, a in found.items()} == {"found": [1, -1, 2, -1], "size": [2]}
