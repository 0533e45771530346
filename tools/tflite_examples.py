"""The examples of tools/tflite_table.py: small models of each operator, out of the test vectors."""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "tools" / "tflite_examples.json"
VECTORS = ROOT.parent / "shared" / "vectors" / "tflite"
#: The code that stands for those behind it, and no operator.
_PLACEHOLDER = 127
#: Element types that many operators take, and those that few do.
USUAL = ("float32", "float16", "float64", "complex64", "int8", "uint8", "int16", "int32", "int64",
         "bool", "string", "hybrid")  # fmt: skip
UNUSUAL = ("uint16", "uint32", "uint64", "bfloat16", "complex128", "int4", "int2", "uint4",
           "resource")  # fmt: skip
KINDS = (*USUAL, *UNUSUAL)
#: Types that the host computes.
OF_THE_HOST = ("float64", "complex64", "complex128", "int64", "string", "uint16", "uint32",
               "uint64", "bfloat16")  # fmt: skip
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tests.tflite_writer import Net  # noqa: E402
from tools.pages import described  # noqa: E402

from vknn.formats.tflite.generated.accessors import BuiltinOperator  # noqa: E402
from vknn.formats.tflite.reader import parse_model  # noqa: E402
from vknn.formats.tflite.records import OperatorRecord, SubgraphRecord  # noqa: E402
from vknn.graph import DType  # noqa: E402

_BYTES = (DType.INT8, DType.UINT8)
#: Where an operator's data are; the first input for others, None for the first output.
_DATA: dict[str, int | None] = {
    "SPLIT": 1, "EMBEDDING_LOOKUP": 1, "HASHTABLE_LOOKUP": 2, "EMBEDDING_LOOKUP_SPARSE": 3,
    "SCATTER_ND": 1, "SPARSE_TO_DENSE": 2, "TRANSPOSE_CONV": 2, "ONE_HOT": None, "SELECT": 1,
    "SELECT_V2": 1, "FILL": 1, "QUANTIZE": None, "LSH_PROJECTION": None, "IF": 1,
}  # fmt: skip
_MUCH = 1 << 30

Example = dict[str, Any]


def operators() -> list[str]:
    """The names of the builtin operators in the order of their codes."""
    codes = {n: name for name, n in vars(BuiltinOperator).items() if not name.startswith("_")}
    return [codes[number] for number in sorted(codes) if number != _PLACEHOLDER]


def record() -> None:
    """Smallest model of each operator and element type, kept."""
    kept: dict[str, dict[str, tuple[int, Example]]] = {}
    for file in sorted(VECTORS.glob("*/*.npz")):
        with np.load(file, allow_pickle=True) as data:
            empty = any(not data[n].size for n in data if n.startswith(("in", "out")))
            _consider(kept, file.parent.name.upper(), *_vector(data), empty)
    for name, data, feeds in _by_hand():
        _consider(kept, name, data, feeds)
    lines = []
    for name, kinds in sorted(kept.items()):
        entries = {kind: kinds[kind][1] for kind in KINDS if kind in kinds}
        rows = [f" {json.dumps(kind)}: {json.dumps(entry)}" for kind, entry in entries.items()]
        lines.append(f"{json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n}")
    EXAMPLES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"wrote {EXAMPLES}: {len(kept)} operators")


def _vector(data: Mapping[str, np.ndarray]) -> tuple[bytes, dict[str, np.ndarray]]:
    names = json.loads(bytes(data["meta"]))["ins"]
    return data["model"].tobytes(), {n: data[f"in{i}"] for i, n in enumerate(names)}


def _consider(
    kept: dict[str, dict[str, tuple[int, Example]]],
    name: str,
    data: bytes,
    feeds: Mapping[str, np.ndarray],
    empty: bool = False,
) -> None:
    """Keeps an example where it is the smallest of its kind; empty tensors say little,
    and types that the host computes hide what others do."""
    if name not in operators():
        return
    record = parse_model(data)
    for graph in record.subgraphs:
        for operator in graph.operators:
            if operator.code == name:
                packed = base64.b85encode(zlib.compress(data, 9)).decode()
                inputs = {n: _described(a) for n, a in feeds.items()}
                example = {"model": packed, "inputs": inputs}
                kind = _kind(graph, operator)
                types = {t.dtype.value for t in graph.tensors}
                poor = empty or (kind not in OF_THE_HOST and not types.isdisjoint(OF_THE_HOST))
                size = len(json.dumps(example)) + (_MUCH if poor else 0)
                own = kept.setdefault(name, {})
                if kind not in own or size < own[kind][0]:
                    own[kind] = (size, example)


def _described(x: np.ndarray) -> dict[str, Any]:
    if x.dtype.kind in "SUO":
        values = [v.decode() if isinstance(v, bytes) else str(v) for v in x.reshape(-1)]
        return {"shape": list(x.shape), "dtype": "object", "values": values}
    return described(x, "iufb")


def _kind(graph: SubgraphRecord, operator: OperatorRecord) -> str:
    """The element type of an operator's data; hybrid where floats meet integer weights."""
    place = _DATA.get(operator.code, 0)
    index = operator.outputs[0] if place is None else operator.inputs[place]
    dtype = graph.tensors[index].dtype
    others = [graph.tensors[i] for i in operator.inputs[1:] if i != -1]
    if dtype is DType.FLOAT32 and any(t.dtype in _BYTES and t.is_quantized for t in others):
        return "hybrid"
    made = graph.tensors[operator.outputs[0]].dtype if operator.outputs else dtype
    if operator.code == "EMBEDDING_LOOKUP" and dtype in _BYTES and made is DType.FLOAT32:
        return "hybrid"
    return dtype.value


def _by_hand() -> Iterator[tuple[str, bytes, dict[str, np.ndarray]]]:
    """Models of operators, and of types that copies do not make, that have no vectors."""
    for name, dtype, scale in (
        ("LOGISTIC", "uint8", 2.0**-8),
        ("TANH", "int16", 2.0**-15),
        ("L2_NORMALIZATION", "int8", 2.0**-7),
    ):
        net = Net()
        net.inputs = [net.tensor("x", (3,), dtype, scale=0.0625)]
        net.outputs = [net.tensor("y", (3,), dtype, scale=scale)]
        net.add(name, [0], [1])
        yield name, net.file(), {"x": np.array([5, 9, 0], dtype)}
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (3,), "string")], [net.tensor("y", (2,), "string")]
    net.add("GATHER", [0, net.tensor("places", data=[2, 0], dtype="int32")], [1])
    yield "GATHER", net.file(), {"x": np.array([b"a", b"b", b"c"], object)}
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (3,), "bool")], [net.tensor("y", (3,), "bool")]
    net.add("LOGICAL_NOT", [0], [1])
    yield "LOGICAL_NOT", net.file(), {"x": np.array([True, False, True])}
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (3,))], [net.tensor("y", (3,))]
    net.add("FAKE_QUANT", [0], [1], {"min": -1.0, "max": 1.0, "num_bits": 8})
    yield "FAKE_QUANT", net.file(), {"x": np.float32([-2, 0.3, 1])}
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (1, 4, 4, 1))], [net.tensor("y", (4, 2, 2, 1))]
    blocks = net.tensor("blocks", data=[2, 2], dtype="int32")
    pads = net.tensor("pads", data=np.zeros((2, 2)), dtype="int32")
    net.add("SPACE_TO_BATCH_ND", [0, blocks, pads], [1])
    yield "SPACE_TO_BATCH_ND", net.file(), {"x": np.zeros((1, 4, 4, 1), np.float32)}
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (1, 2))], [net.tensor("y", (1, 2))]
    feature, times = net.tensor("f", data=np.eye(2)), net.tensor("t", data=np.ones((2, 3)))
    held = net.tensor("held", (1, 6), is_variable=True)
    net.add("SVDF", [0, feature, times, -1, held], [1], {"rank": 1})
    yield "SVDF", net.file(), {"x": np.float32([[1, 2]])}
