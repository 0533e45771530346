#!/usr/bin/env python3
"""Writer of docs/tflite.md: TensorFlow Lite's operators, what of each vknn has, where it differs.

tools/tflite_table.py            writes docs/tflite.md
tools/tflite_table.py --record   first takes new examples from shared/vectors/tflite
tools/tflite_table.py --check    exits 1 when docs/tflite.md is not what would be written

What stands on the page was found by running small models, kept in tools/tflite_examples.json: the
smallest one of the test vectors for each operator and element type, or made by
tools/tflite_later.py. Types without either are tried on a copy of another type's example. Models
are run with NumPy, and each op that turns up on the way is asked for a kernel on a device that
allows no more than Vulkan 1.1 guarantees.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import re
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tflite.md"
TYPES = ROOT / "tools" / "tflite_types.txt"
MARK = "TensorFlow Lite differs:"
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tools.kernels import evaluate  # noqa: E402
from tools.pages import array, main, notes  # noqa: E402
from tools.tflite_examples import (  # noqa: E402
    EXAMPLES,
    KINDS,
    OF_THE_HOST,
    UNUSUAL,
    USUAL,
    Example,
    operators,
    record,
)
from tools.tflite_later import examples as made_examples  # noqa: E402
from tools.tflite_texts import HOSTED, INTRODUCTION, KERNELS, NOTES, UNUSUAL_TYPES  # noqa: E402

from vknn.errors import VknnError  # noqa: E402
from vknn.formats.tflite.loader import check  # noqa: E402
from vknn.formats.tflite.model import TfliteModel  # noqa: E402
from vknn.formats.tflite.reader import parse_model  # noqa: E402
from vknn.formats.tflite.records import (  # noqa: E402
    ModelRecord,
    Quant,
    SubByte,
    TensorRecord,
)
from vknn.formats.tflite.registry import custom_types, operator_types  # noqa: E402
from vknn.formats.tflite.tensors import SUB_BYTE_TYPES  # noqa: E402
from vknn.graph import DType, TensorType  # noqa: E402

#: By nature no operators that could be computed.
_WITHOUT = {
    "CUSTOM": "by their names, [below](#custom-operators)",
    "CONCAT_EMBEDDINGS": "has no kernel anywhere; models with it are refused",
    "DELEGATE": "stands for what other software has compiled; models with it are refused",
    "STABLEHLO_CUSTOM_CALL": "calls other software by a name; models with it are refused",
}
#: What stands behind the name of such an operator in tools/tflite_types.txt.
_STARRED = "*"
#: What stands behind the name of an operator without a kernel in LiteRT.
_NO_KERNEL = " \\*"
#: The field of a tensor's record that has its constant as the file holds it.
_CONSTANT = next(f.name for f in dataclasses.fields(TensorRecord) if f.name in ("stored", "data"))
#: Types whose examples are copied for others; the last ones are those of indices too.
_SOURCES = ("float32", "int8", "uint8", "int16", "bool", "string", "hybrid", "int64", "int32")


@dataclasses.dataclass(frozen=True)
class Found:
    """Result of an example: ``state`` as on the page, ``problem`` where it is "no", the ops
    without a kernel where it is "host"."""

    state: str
    problem: str = ""
    hosted: tuple[str, ...] = ()


class _Options(dict[str, Any]):
    """Options that note which of them are read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


# --- the page -------------------------------------------------------------------------------------


def page() -> str:
    """The whole page as Markdown."""
    examples, known = all_examples(), _types()
    lines = [INTRODUCTION, *_head(USUAL, "options not read")]
    unusual = ["", UNUSUAL_TYPES, *_head(UNUSUAL)]
    problems: list[str] = []
    hosted = [KERNELS, HOSTED]
    for name in operators():
        if name in _WITHOUT:
            continue
        found, unread = attempts(name, examples.get(name, {}), known[name])
        shown = name + (_NO_KERNEL if name in _without_kernel() else "")
        lines.append(_row(shown, found, USUAL, ", ".join(unread)))
        if not found.keys().isdisjoint(UNUSUAL):
            unusual.append(_row(shown, found, UNUSUAL))
        problems += _problems(name, found)
        beside = {op for k, f in found.items() if k not in OF_THE_HOST for op in f.hosted}
        if beside:
            hosted.append(f"- **{name}**: {', '.join(sorted(beside))}")
    lines += ["", *(f"{name} {what}.\n" for name, what in _WITHOUT.items()), *unusual, ""]
    lines += [*hosted, ""]
    if problems:
        lines += ["## What is not supported\n", *problems, ""]
    lines += ["## Custom operators\n", *_custom(), "", NOTES]
    types = operator_types() | custom_types()
    for name, type_ in sorted(types.items(), key=lambda item: item[0].lower()):
        forms = dict.fromkeys(f for f in (type_.convert, type_.quantized) if f is not None)
        lines += [f"- **{name}**: {note}" for note in notes(MARK, *forms)]
    return "\n".join([*lines, ""])


def _head(kinds: Sequence[str], *more: str) -> list[str]:
    """The first lines of a table."""
    columns = ("operator", *kinds, *more)
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _row(name: str, found: Mapping[str, Found], kinds: Sequence[str], *more: str) -> str:
    cells = [found[kind].state if kind in found else "" for kind in kinds]
    return f"| {' | '.join((name, *cells, *more))} |"


def _problems(name: str, found: Mapping[str, Found]) -> list[str]:
    """Lines on what is not supported: one where it is the same for all types."""
    texts = {kind: f.problem for kind, f in found.items() if f.problem}
    if len(texts) == len(found) and len(set(texts.values())) == 1:
        return [f"- **{name}**: {next(iter(texts.values()))}"]
    return [f"- **{name}**, {kind}: {text}" for kind, text in texts.items()]


def all_examples() -> dict[str, dict[str, Example]]:
    """Operator -> element type -> example: those that were recorded, and those that are made."""
    found: dict[str, dict[str, Example]] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    for name, kinds in made_examples().items():
        found[name] = kinds | found.get(name, {})
    return found


def _custom() -> list[str]:
    lines = ["Those that vknn knows; [others can be added](custom-layers.md)."]
    for name, type_ in sorted(custom_types().items()):
        text = " ".join((type_.convert.__doc__ or "").split("\n\n")[0].split())
        lines.append(f"- **{name}**: {text}")
    return [lines[0], "", *lines[1:]]


@functools.cache
def _types() -> dict[str, tuple[str, ...]]:
    """Operator -> the element types that TensorFlow Lite's kernels take."""
    found: dict[str, tuple[str, ...]] = {}
    for line in TYPES.read_text(encoding="utf-8").splitlines():
        name, mark, rest = line.partition(":")
        if mark and not line.startswith("#"):
            kinds = tuple(part.strip() for part in rest.split(",") if part.strip())
            found[name.removesuffix(_STARRED)] = kinds
    return found


@functools.cache
def _without_kernel() -> frozenset[str]:
    """Operators that LiteRT has no kernel for."""
    names = (line.partition(":")[0] for line in TYPES.read_text(encoding="utf-8").splitlines())
    return frozenset(n.removesuffix(_STARRED) for n in names if n.endswith(_STARRED))


# --- trying ---------------------------------------------------------------------------------------


def attempts(
    name: str, examples: Mapping[str, Example], wanted: Sequence[str]
) -> tuple[dict[str, Found], list[str]]:
    """Coverage of an operator by element type, and the options that nothing reads."""
    found: dict[str, Found] = {}
    fields: set[str] = set()
    read: set[str] = set()
    for kind in sorted({*examples, *wanted}, key=KINDS.index):
        tried = []
        try:
            for model, feeds in _candidates(examples, kind):
                own = [o for g in model.subgraphs for o in g.operators if o.code == name]
                tried.append(attempt(model, feeds))
                for operator in own:
                    fields |= operator.options.keys()
                    read |= operator.options.read  # type: ignore[attr-defined]
                if tried[-1].state != "no":
                    break
        except VknnError as problem:  # of a file with a type that is not known
            tried.append(Found("no", _shown(problem)))
        best = next((f for f in tried if f.state != "no"), tried[0] if tried else None)
        found[kind] = best or Found("no", "there is no example")
    return found, sorted(fields - read)


def _candidates(
    examples: Mapping[str, Example], kind: str
) -> Iterator[tuple[ModelRecord, dict[str, np.ndarray]]]:
    """The example of a type, or copies of another type's: plain and quantized ones."""
    if kind in examples:
        yield _opened(examples[kind])
        return
    other = next((k for k in _SOURCES if k in examples), None)
    if other is None or kind == "hybrid":
        return
    before = DType("int8" if other == "hybrid" else other)
    small = next((t for t in SUB_BYTE_TYPES.values() if t.name == kind), None)
    scaled = small is not None or kind in ("int8", "uint8", "int16")
    for quantized in (True, False) if scaled else (False,):
        record, feeds = _opened(examples[other])
        after = DType(kind) if small is None else small.dtype
        yield _retyped(record, feeds, before, after, quantized, small)


def _opened(example: Example) -> tuple[ModelRecord, dict[str, np.ndarray]]:
    record = parse_model(zlib.decompress(base64.b85decode(example["model"])))
    graphs = []
    for graph in record.subgraphs:
        own = [dataclasses.replace(o, options=_Options(o.options)) for o in graph.operators]
        graphs.append(dataclasses.replace(graph, operators=tuple(own)))
    record = dataclasses.replace(record, subgraphs=tuple(graphs))
    return record, {name: _fed(given) for name, given in example["inputs"].items()}


def _fed(given: dict[str, Any]) -> np.ndarray:
    if given["dtype"] != "object":
        return array(given | {"dtype": DType(given["dtype"]).numpy})
    values = [text.encode() for text in given["values"]]
    return np.array(values, object).reshape(given["shape"])


def _retyped(
    record: ModelRecord,
    feeds: Mapping[str, np.ndarray],
    before: DType,
    after: DType,
    quantized: bool,
    small: SubByte | None = None,
) -> tuple[ModelRecord, dict[str, np.ndarray]]:
    """The model with every tensor of one type made another."""
    quant = Quant(np.float32([0.0625]), np.zeros(1, np.int64)) if quantized else None

    def tensor(t: TensorRecord) -> TensorRecord:
        if t.dtype is not before:
            return t
        data = None if t.data is None else _cast(t.data, after)
        changes: dict[str, Any] = {_CONSTANT: data, "quant": quant, "sub_byte": small}
        return dataclasses.replace(t, dtype=after, **changes)

    graphs = [dataclasses.replace(g, tensors=tuple(map(tensor, g.tensors)))
              for g in record.subgraphs]  # fmt: skip
    turned = {n: _cast(a, after) if a.dtype == before.numpy else a for n, a in feeds.items()}
    return dataclasses.replace(record, subgraphs=tuple(graphs)), turned


def _cast(data: np.ndarray, after: DType) -> np.ndarray:
    if after is DType.STRING:
        return np.array([b"text"] * data.size, object).reshape(data.shape)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex numbers lose a part
        return np.nan_to_num(data).astype(after.numpy)


def attempt(record: ModelRecord, feeds: Mapping[str, np.ndarray]) -> Found:
    """Run of a model with NumPy, and the kernels of the ops that the operator became."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            check(record)
            model = TfliteModel(record)
            arrays = {n: model.encode(n, a) for n, a in feeds.items()}
            types = {n: TensorType.of(a) for n, a in arrays.items()}
            state = {n: np.zeros(t.dims, t.dtype.numpy) for n, t in model.state.items()}
            hosted: set[str] = set()
            evaluate(model.build(types), arrays | state, hosted)
    except VknnError as problem:
        return Found("no", _shown(problem))
    return Found("host" if hosted else "yes", hosted=tuple(sorted(hosted)))


def _shown(problem: VknnError) -> str:
    """An error without its place in the example."""
    text = " ".join(str(problem).split()).replace("*", "\\*").replace("|", "\\|")
    return re.sub(r"^(\d+ unsupported layer\(s\): )?operator \d+ \(\w+\), '[^']*': ", "", text)


if __name__ == "__main__":
    sys.exit(main(PAGE, "tools/tflite_table.py", page, record))
