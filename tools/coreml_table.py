#!/usr/bin/env python3
"""Writer of docs/coreml.md: Core ML's layers, what of each vknn has, what it does not read.

tools/coreml_table.py            writes docs/coreml.md
tools/coreml_table.py --check    exits 1 when docs/coreml.md is not what would be written

What stands on the page was found by running the small networks of tools/coreml_examples.py with
NumPy; each op that turns up on the way is asked for a kernel on a device that allows no more than
Vulkan 1.1 guarantees, and the networks' parameters note who reads them.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coreml.md"
MARK = "Core ML differs:"
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tools.coreml_examples import Example, examples  # noqa: E402
from tools.kernels import evaluate  # noqa: E402
from tools.pages import main, notes  # noqa: E402

from vknn.errors import VknnError  # noqa: E402
from vknn.formats.coreml import coreml_pb2 as pb  # noqa: E402
from vknn.formats.coreml import layers as _layers  # noqa: E402, F401 (registers the layers)
from vknn.formats.coreml.model import CoremlModel  # noqa: E402
from vknn.formats.coreml.records import NetworkRecord  # noqa: E402
from vknn.formats.coreml.registry import layer_types  # noqa: E402
from vknn.graph import DType, TensorType  # noqa: E402

INTRODUCTION = """\
# Core ML, layer by layer

All layers of Core ML's neural networks (specification versions 1 to 5) in the order of the format,
and what vknn has of each.

- *reference*: read and computed with NumPy. *Vulkan*: all of it runs on any device with
  Vulkan 1.1; *host*: some of it is computed with NumPy beside the device. *no*: not supported.
- *Parameters not read*: those that make no difference to vknn.

`vknn.Session("Model.mlmodel")` opens neural networks, classifiers, regressors, models of type
`nonMaximumSuppression`, and pipelines of all these. `run` takes and gives features by the names of
the model's description:

- Multi arrays: any numbers, computed as float32. A model of an older version, whose blobs have five
  axes, takes [C], [C, H, W] or all five. Shapes may be enumerated or ranges; an optional input that
  is left out has its default. An output comes in the shape that the model declares, where that has
  as many elements.
- Images: height x width x 3 in RGB, or height x width for gray ones, 0 to 255; PIL images will do.
  The model's own order, scale, biases and mean image are seen to. Outputs are such arrays, uint8.
- Classifiers give the label under the model's name for it and a dictionary label -> score.
- `nonMaximumSuppression`, the last model of object detectors, takes coordinates [N, 4] (centre x
  and y, width, height) and confidences [N, C]; axes of size 1 beside these do not matter. It gives
  the rows that stay, best first. Inputs for the two thresholds may be left out: the model's own
  hold then, whether or not its description calls them optional. NaN is no confidence; of equal ones
  the first goes first; boxes with NaN or infinite coordinates overlap nothing. Thresholds are
  float32. Where the description of an output says how many rows there may be, the best stay, and
  rows of zeros fill up. `vknn run --draw` knows the outputs and the class labels.

Weights may be float32, float16, or quantized, by a scale or a table, to 1 to 8 bits; they are
decoded when a graph is built. Branches and loops that data decide, and shapes that are computed,
are planned as soon as the data are known, and kept for the next time. A condition within 1e-6 of 0
is false. Layers with a seed draw the same numbers in each run, others go on. Indices are floats
here: with `precision="fp16"` whole numbers above 2048 are not exact. Bilinear upsampling by a
factor whose product with the size is no whole number takes its places from the sizes, as Core ML
does and PyTorch with `recompute_scale_factor`. Models with updatable layers [can be
trained](training.md). ML programs (`.mlpackage`), tree ensembles and Core ML's other kinds of model
are refused by name.

This page is written by `tools/coreml_table.py`; a test fails when it is out of date.
"""
NOTES = """\
## Where Core ML differs

From its specification, or from what one might expect.
"""
#: The networks inside, which the reader takes apart.
_NETWORKS = {"ifBranch", "elseBranch", "conditionNetwork", "bodyNetwork"}


@dataclasses.dataclass
class Found:
    """Results of the examples of a row."""

    problems: list[str] = dataclasses.field(default_factory=list)
    hosted: set[str] = dataclasses.field(default_factory=set)
    read: set[str] = dataclasses.field(default_factory=set)
    tried: int = 0

    @property
    def states(self) -> tuple[str, str]:
        """The cells: NumPy's and the device's."""
        if self.problems or not self.tried:
            return "no", "no"
        return "yes", "host" if self.hosted else "yes"


class Watched:
    """A message that notes which of its fields are read."""

    def __init__(self, message: Any, read: set[str]) -> None:
        self._message, self._read = message, read

    @classmethod
    def of(cls, message: Any, read: set[str]) -> Watched:
        """A watched message, whose class has the constants of the message's enums."""
        values = [v for enum in message.DESCRIPTOR.enum_types for v in enum.values]
        kind = type(cls.__name__, (cls,), {v.name: v.number for v in values})
        return kind(message, read)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name in self._message.DESCRIPTOR.fields_by_name:
            self._read.add(name)
        return getattr(self._message, name)

    def HasField(self, name: str) -> bool:
        self._read.add(name)
        return bool(self._message.HasField(name))

    def WhichOneof(self, name: str) -> str | None:
        found = self._message.WhichOneof(name)
        self._read.update(filter(None, [found]))
        return None if found is None else str(found)


# --- the page -------------------------------------------------------------------------------------


def page() -> str:
    """The whole page as Markdown."""
    rows, read = attempts()
    lines = [INTRODUCTION, *_table(rows, layer_names(), read)]
    lines += ["", "`custom` stands for layers of one's own, [by their class names]"
              "(custom-layers.md).", ""]  # fmt: skip
    for title, start in (("Activations", "activation "), ("Unary functions", "unary ")):
        own = [row for row in rows if row.startswith(start)]
        lines += [f"## {title}\n", *_table(rows, own, None, start), ""]
    stored = [row for row in rows if "Value" in row]
    lines += ["## Weights\n", *_table(rows, stored, None), ""]
    problems = [f"- **{row}**: {p}" for row, f in rows.items() for p in dict.fromkeys(f.problems)]
    if problems:
        lines += ["## What is not supported\n", *problems, ""]
    hosted = [f"- **{row}**: {', '.join(sorted(f.hosted))}" for row, f in rows.items() if f.hosted]
    if hosted:
        lines += ["## On the host\n", "The ops that a device may have no kernel for "
                  "([what they are](ops.md)):\n", *hosted, ""]  # fmt: skip
    differences = [
        f"- **{name}**: {note}"
        for name, type_ in sorted(layer_types().items(), key=lambda item: item[0].lower())
        for note in notes(MARK, type_.convert)
    ]
    if differences:
        lines += [NOTES, *differences, ""]
    return "\n".join(lines)


def _table(
    rows: Mapping[str, Found],
    names: list[str],
    read: Mapping[str, set[str]] | None,
    start: str = "",
) -> Iterator[str]:
    extra = " parameters not read |" if read is not None else ""
    yield f"| {'layer' if read is not None else 'kind'} | reference | Vulkan |{extra}"
    yield "|---|---|---|" + ("---|" if extra else "")
    for name in names:
        found = rows.get(name) or together(rows, name)
        cells = [name.removeprefix(start), *found.states]
        if read is not None:
            cells.append(", ".join(unread(name, read.get(name, set()))))
        yield f"| {' | '.join(cells)} |"


def together(rows: Mapping[str, Found], name: str) -> Found:
    """A layer whose functions have rows of their own."""
    own = [found for row, found in rows.items() if row.startswith(f"{name} ")]
    return Found(
        [p for f in own for p in f.problems],
        set().union(*(f.hosted for f in own)),
        set(),
        sum(f.tried for f in own),
    )


def layer_names() -> list[str]:
    """The layers of the format, in its order, without the user's own."""
    fields = pb.NeuralNetworkLayer.DESCRIPTOR.oneofs_by_name["layer"].fields
    return [f.name for f in sorted(fields, key=lambda f: f.number) if f.name != "custom"]


def unread(name: str, read: set[str]) -> list[str]:
    """The parameters of a layer that nothing has read."""
    message = pb.NeuralNetworkLayer.DESCRIPTOR.fields_by_name[name].message_type
    return [f.name for f in message.fields if f.name not in read | _NETWORKS]


# --- trying ---------------------------------------------------------------------------------------


def attempts() -> tuple[dict[str, Found], dict[str, set[str]]]:
    """Results of each row, and the parameters that are read of each type of layer."""
    rows: dict[str, Found] = {}
    read: dict[str, set[str]] = {}
    for example in examples():
        found = rows.setdefault(example.row, Found())
        found.tried += 1
        try:
            found.hosted |= attempt(example, read)
        except VknnError as problem:
            found.problems.append(_shown(problem))
    return rows, read


def attempt(example: Example, read: dict[str, set[str]]) -> set[str]:
    """Run of a network; the ops that a device may have no kernel for."""
    hosted: set[str] = set()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model = CoremlModel(example.message)
        model.network = _watched(model.network, read)
        arrays = {n: model.encode(n, a) for n, a in example.feeds.items()}
        types = {n: TensorType(a.shape, DType.FLOAT32) for n, a in example.feeds.items()}
        state = {n: np.zeros(t.dims, t.dtype.numpy) for n, t in model.state.items()}
        evaluate(model.build(types), arrays | state, hosted)
    return hosted


def _watched(network: NetworkRecord, read: dict[str, set[str]]) -> NetworkRecord:
    return NetworkRecord(
        tuple(
            dataclasses.replace(
                layer,
                params=Watched.of(layer.params, read.setdefault(layer.type, set())),
                networks=tuple(n and _watched(n, read) for n in layer.networks),
            )
            for layer in network.layers
        )
    )


def _shown(problem: VknnError) -> str:
    """An error without its place in the example."""
    text = " ".join(str(problem).split()).replace("*", "\\*").replace("|", "\\|")
    return re.sub(r"^(\d+ unsupported layer\(s\): )?layer '[^']*' \(\w+\): ", "", text)


if __name__ == "__main__":
    sys.exit(main(PAGE, "tools/coreml_table.py", page))
