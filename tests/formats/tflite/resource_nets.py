"""Models with variables, hash tables and signatures."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tests.tflite_writer import Net, Table

import vknn

LENGTH, WIDTH = 64, 8
STRING, INT64 = 5, 4
Names = Mapping[str, int]


def handle(net: Net, name: str = "v", container: str = "") -> int:
    """The handle of a variable."""
    made = net.tensor(f"handle of {name}", (), "resource")
    net.add("VAR_HANDLE", [], [made], {"shared_name": name, "container": container})
    return made


def read(net: Net, name: str, shape: Sequence[int] = ()) -> int:
    """What a variable holds."""
    made = net.tensor(f"{name} as read {len(net.tensors)}", shape)
    net.add("READ_VARIABLE", [handle(net, name)], [made], {})
    return made


def assign(net: Net, name: str, value: int) -> None:
    """A new value of a variable."""
    net.add("ASSIGN_VARIABLE", [handle(net, name), value], [], {})


def once(net: Net, number: int = 1) -> None:
    """A CALL_ONCE of a subgraph."""
    net.add("CALL_ONCE", [], [], {"init_subgraph_index": number})


def signature(key: str, number: int, inputs: Names, outputs: Names) -> Table:
    """A signature of a subgraph: names of tensors."""

    def pairs(names: Names) -> list[Table]:
        return [Table("TensorMap", {"name": n, "tensor_index": i}) for n, i in names.items()]

    fields = {"signature_key": key, "subgraph_index": number}
    ends = {"inputs": pairs(inputs), "outputs": pairs(outputs)}
    return Table("SignatureDef", fields | ends)


def totals() -> Net:
    """y = what a variable held; then it is that and x. A CALL_ONCE fills it with 10, 20."""
    net = Net()
    init = net.another()
    assign(init, "v", init.tensor("ten", data=np.float32([10, 20])))
    x, total = net.tensor("x", (2,)), net.tensor("sum", (2,))
    once(net)
    old = read(net, "v", (2,))
    net.inputs, net.outputs = [x], [old, total]
    net.add("ADD", [old, x], [total], {})
    assign(net, "v", total)
    return net


def growing() -> Net:
    """all = what came with all runs, behind one another."""
    net = Net()
    init = net.another()
    assign(init, "v", init.tensor("none", (0, 2), data=np.zeros((0, 2), np.float32)))
    once(net)
    x, y = net.tensor("x", (1, 2), shape_signature=[-1, 2]), net.tensor("all", (1, 2))
    net.inputs, net.outputs = [x], [y]
    net.add("CONCATENATION", [read(net, "v"), x], [y], {"axis": 0})
    assign(net, "v", y)
    return net


def two_signatures(**fields: Any) -> bytes:
    """x:0 [2, 3] and w:0 [3] -> their product; under keys "multiply" and "other" with other names.

    "multiply" takes "w" and "x" in the other order. "other" is subgraph 1: "v" -> "neg" and "exp".
    """
    net = Net()
    second = net.another()
    net.inputs = [net.tensor("x:0", (2, 3)), net.tensor("w:0", (3,))]
    net.outputs = [net.tensor("y:0", (2, 3))]
    net.add("MUL", [0, 1], [2], {})
    second.inputs = [second.tensor("a", (2,), shape_signature=[-1])]
    second.outputs = [second.tensor("b", (2,)), second.tensor("c", (2,))]
    second.add("EXP", [0], [1], {})
    second.add("NEG", [0], [2], {})
    given = [
        signature("multiply", 0, {"w": 1, "x": 0}, {"y": 2}),
        signature("other", 1, {"v": 0}, {"neg": 2, "exp": 1}),
    ]
    return net.file(**{"signature_defs": given} | fields)


def sharing() -> bytes:
    """Signatures "put" (v -> o) and "get" (scale -> u) of one variable."""
    net = Net()
    second = net.another()
    net.inputs = [net.tensor("a", (2,))]
    net.outputs = [net.tensor("b", (2,))]
    assign(net, "kv", 0)
    net.add("NEG", [0], [1], {})
    second.inputs = [second.tensor("c", (1,))]
    held = read(second, "kv", (2,))
    second.outputs = [second.tensor("d", (2,))]
    second.add("MUL", [held, 0], second.outputs, {})
    return net.file(
        signature_defs=[
            signature("put", 0, {"v": 0}, {"o": 1}),
            signature("get", 1, {"scale": 0}, {"u": second.outputs[0]}),
        ]
    )


def packed_strings(items: Sequence[str]) -> np.ndarray:
    """A buffer of strings as TensorFlow Lite has them."""
    raw = [item.encode() for item in items]
    ends = np.cumsum([4 * (len(raw) + 2), *map(len, raw)])
    head = struct.pack(f"<{len(raw) + 2}i", len(raw), *ends)
    return np.frombuffer(head + b"".join(raw), np.uint8)


def _column(net: Net, name: str, items: Sequence[Any], kind: int) -> int:
    if kind == INT64:
        return net.tensor(name, (len(items),), "int64", data=np.int64(items).reshape(-1))
    buffer = net.buffer(Table("Buffer", {"data": packed_strings(items)}))
    return net.tensor(name, (len(items),), "string", buffer=buffer)


def table(net: Net, key: int, value: int, number: int = 3) -> int:
    """The handle of a hash table."""
    made = net.tensor(f"table {number}", (), "resource")
    types = {"key_dtype": key, "value_dtype": value}
    net.add("HASHTABLE", [], [made], {"table_id": number} | types)
    return made


def fill(net: Net, keys: Sequence[Any], values: Sequence[Any], key: int, number: int = 3) -> None:
    """A HASHTABLE_IMPORT of constants."""
    value = STRING if key == INT64 else INT64
    ends = [table(net, key, value, number)]
    ends += [_column(net, "keys", keys, key), _column(net, "values", values, value)]
    net.add("HASHTABLE_IMPORT", ends, [], {})


def looked_up(
    fills: Sequence[tuple[Sequence[Any], Sequence[Any]]], key: int, find: bool = True
) -> Net:
    """found, size = what a table has for the keys q, and how many it has."""
    net, value = Net(), STRING if key == INT64 else INT64
    init = net.another()
    once(net)
    kinds = {INT64: "int64", STRING: "string"}
    q, size = net.tensor("q", (4,), kinds[key]), net.tensor("size", (1,), "int64")
    net.inputs, net.outputs = [q], [size]
    if find:
        found = net.tensor("found", (4,), kinds[value])
        net.outputs = [found, size]
        default = _column(net, "default", ["none"] if value == STRING else [-1], value)
        net.add("HASHTABLE_FIND", [table(net, key, value), q, default], [found], {})
    net.add("HASHTABLE_SIZE", [table(net, key, value)], [size], {})
    for keys, values in fills:
        fill(init, keys, values, key)
    return net


def cached_attention() -> bytes:
    """A head of attention whose keys and values of earlier rows are in variables.

    Signature "prefill": rows [4, 8] and where they stand (ones in place [64, 4]) -> "last", the
    attention of the rows. "decode": one row, likewise. Inputs of "visible" [1, 64] are added to
    the scores. Both share the three weights; a CALL_ONCE fills the caches with zeros.
    """
    rng = np.random.default_rng(5)
    first = Net()
    init = first.another()
    for name in ("keys", "values"):
        empty = init.tensor(name, (LENGTH, WIDTH), data=np.zeros((LENGTH, WIDTH), np.float32))
        assign(init, name, empty)
    weights = {}
    for name in ("query", "keys", "values"):
        data = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 3
        raw = Table("Buffer", {"data": np.frombuffer(data.tobytes(), np.uint8)})
        weights[name] = first.buffer(raw)
    prefill = _attention(first, weights, 4)
    second = first.another()
    decode = _attention(second, weights, 1)
    # Other names than those of the tensors, in another order.
    ends = dict(zip(("at", "mask", "row"), decode, strict=True))
    many = dict(zip(("at", "mask", "rows"), prefill, strict=True))
    return first.file(
        signature_defs=[
            signature("decode", 2, ends, {"out": second.outputs[0]}),
            signature("prefill", 0, many, {"out": first.outputs[0]}),
        ]
    )


def _attention(net: Net, weights: Mapping[str, int], rows: int) -> list[int]:
    """One subgraph of :func:`cached_attention`; gives its inputs place, visible and rows."""
    x = net.tensor("x:0", (rows, WIDTH))
    visible = net.tensor("visible:0", (1, LENGTH))
    place = net.tensor("place:0", (LENGTH, rows))
    net.inputs = [x, visible, place]
    once(net)

    def step(name: str, inputs: list[int], shape: tuple[int, ...], **options: Any) -> int:
        made = net.tensor(f"{name} {len(net.tensors)}", shape)
        net.add(name, inputs, [made], options)
        return made

    def product(a: int, b: int, shape: tuple[int, ...], **options: Any) -> int:
        return step("BATCH_MATMUL", [a, b], shape, **options)

    made = {}
    for name, buffer in weights.items():
        weight = net.tensor(f"{name} weights", (WIDTH, WIDTH), buffer=buffer)
        made[name] = step("FULLY_CONNECTED", [x, weight, -1], (rows, WIDTH))
    caches = {}
    for name in ("keys", "values"):
        before = read(net, name, (LENGTH, WIDTH))
        new = product(place, made[name], (LENGTH, WIDTH))
        caches[name] = step("ADD", [before, new], (LENGTH, WIDTH))
        assign(net, name, caches[name])
    scores = product(made["query"], read(net, "keys", (LENGTH, WIDTH)), (rows, LENGTH), adj_y=True)
    scores = step("ADD", [scores, visible], (rows, LENGTH))
    shares = step("SOFTMAX", [scores], (rows, LENGTH), beta=1.0)
    net.outputs = [product(shares, read(net, "values", (LENGTH, WIDTH)), (rows, WIDTH))]
    return [place, visible, x]


def values(session: vknn.Session, x: Any) -> list[list[float]]:
    """Outputs of a run with the one input of a model."""
    return [y.tolist() for y in session.run(np.float32(x)).values()]
