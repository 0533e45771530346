#!/usr/bin/env python3
"""Writer of docs/openvino.md: the layers of OpenVINO IR and what of each vknn has.

tools/openvino_table.py            writes docs/openvino.md
tools/openvino_table.py --check    exits 1 when docs/openvino.md is not what would be written

What stands on the page was found by converting small nets (tools/openvino_examples.py), computing
them with NumPy, and asking for a kernel of each op on a device that allows no more than Vulkan 1.1
guarantees. Attributes count as read when a layer's converter asks for them in one of its nets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "openvino.md"
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tests.openvino_writer import Net  # noqa: E402
from tools.openvino_examples import examples, layers  # noqa: E402
from tools.pages import main  # noqa: E402

from vknn import reference  # noqa: E402
from vknn.errors import VknnError  # noqa: E402
from vknn.formats.openvino.model import OpenvinoModel  # noqa: E402
from vknn.formats.openvino.reader import parse_net  # noqa: E402
from vknn.formats.openvino.records import Net as NetRecord  # noqa: E402
from vknn.formats.openvino.registry import LayerType, layer_type, layer_types  # noqa: E402
from vknn.formats.openvino.validation import check  # noqa: E402
from vknn.graph import Graph, TensorType  # noqa: E402
from vknn.lowering import LoweringOptions, candidates  # noqa: E402
from vknn.plan import DeviceLimits  # noqa: E402

INTRODUCTION = """\
# OpenVINO IR, layer by layer

The layers of the IR notation, versions 2 to 7, in alphabetical order, and what vknn has of each.

- *Reference*: vknn reads the layer and computes it with NumPy.
- *Vulkan*: all of it runs on any device with Vulkan 1.1; what does not is named. *fp16*: so it does
  with tensors stored as float16.
- *Attributes not read*: those of the notation that make no difference to vknn, as they make none
  to OpenVINO or repeat what the sizes of ports and blobs say.
- *Also called*: what other versions call it. Names of types ignore case.

Nets of all these versions are read, with every spelling in every version: lists (`kernel="3,3"`)
and single numbers (`kernel-x`, `kernel-y`), blobs in `<blobs>` or right in the layer. The weights
lie in the `.bin` beside the `.xml`, or in the file that is given as `weights`: one that is too
short is refused, bytes left over are a warning, and the `.bin` of another network of the same size
cannot be told (the numbers are wrong then, in `vknn verify` on both sides). FP32, FP16, I64,
I32, I16, I8, U8, BOOL and BIN are known; FP16 is computed as float32, I64 as int32 (the user sees
int64). Inputs are called like their Input layers; outputs are the output ports that nothing reads,
called like their layer, or `layer.0`, `layer.1` where it has several. Means of `<pre-process>` are
subtracted from the input. Memory layers keep their values from run to run until
`session.reset_state()`. Inputs may have other shapes than the file's as far as the layers can
follow; where the sizes of an output stand only in the file they cannot. A layer without an
attribute that the notation requires is refused when the net is opened, unless OpenVINO has a
default for it (such as `max` for `pool-method`). So are version 1 and, another language, versions
10 and later.

This page is written by `tools/openvino_table.py`; a test fails when it is out of date.
"""
FURTHER = """\
## Further layers

Not in the notation, but in files:
"""
_HALF = (
    DeviceLimits(features=frozenset({"fp16_storage"})),
    LoweringOptions(precision="fp16"),
)


@dataclasses.dataclass(frozen=True)
class Found:
    """Results of a layer's examples.

    ``ops`` are those that it becomes, ``hosted`` and ``hosted_half`` those without a kernel,
    ``problem`` is the error of an example that does not run, ``asked`` the attributes looked for.
    """

    ops: frozenset[str] = frozenset()
    hosted: frozenset[str] = frozenset()
    hosted_half: frozenset[str] = frozenset()
    problem: str = ""
    asked: frozenset[str] = frozenset()


class _Noted(dict[str, str]):
    """Attributes that note which of them were looked for."""

    def __init__(self, values: Mapping[str, str], asked: set[str]) -> None:
        super().__init__(values)
        self.asked = asked

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)


def page() -> str:
    """The whole page as Markdown."""
    lines = [
        INTRODUCTION,
        "| layer | reference | Vulkan | fp16 | attributes not read | also called |",
        "|---|---|---|---|---|---|",
    ]
    problems: list[str] = []
    known = layers()
    for name in sorted(known, key=str.lower):
        found = tried(name)
        lines.append(_row(name, layer_type(name), found, known[name]))
        if found.problem:
            problems.append(f"- **{name}**: {found.problem}")
    have = sum(layer_type(name) is not None for name in known)
    lines += ["", f"{have} of {len(known)} layers.", ""]
    if problems:
        lines += ["## What is not supported\n", *problems, ""]
    types = layer_types()
    more = sorted(set(types) - set(known), key=str.lower)
    lines += [FURTHER, ", ".join(_called(types[name]) for name in more) + ".", ""]
    return "\n".join(lines)


def _called(type_: LayerType) -> str:
    more = f" ({', '.join(type_.aliases)})" if type_.aliases else ""
    return f"{type_.name}{more}"


def _row(name: str, type_: LayerType | None, found: Found, attributes: tuple[str, ...]) -> str:
    if type_ is None or found.problem:
        return f"| {name} | no | no | no | | |"
    cells = [f"without {', '.join(sorted(h))}" if h else "yes"
             for h in (found.hosted, found.hosted_half)]  # fmt: skip
    unread = ", ".join(a for a in attributes if a not in found.asked)
    return f"| {name} | yes | {' | '.join(cells)} | {unread} | {', '.join(type_.aliases)} |"


def tried(name: str) -> Found:
    """Results of all examples of a layer, converted and computed."""
    ops: set[str] = set()
    hosted: tuple[set[str], set[str]] = (set(), set())
    asked: set[str] = set()
    try:
        for graph in graphs(name, asked):
            for node in graph.nodes:
                if node.origin.type.lower() not in _origins(name):
                    continue
                ops.add(node.op.type_name)
                for without, (limits, options) in zip(
                    hosted, ((DeviceLimits(), LoweringOptions()), _HALF), strict=True
                ):
                    if not candidates(node, limits, options):
                        without.add(node.op.type_name)
    except VknnError as problem:
        text = re.sub(r"^.*?\): ", "", " ".join(str(problem).split()))
        return Found(problem=text.replace("*", "\\*").replace("|", "\\|"))
    return Found(*map(frozenset, (ops, *hosted)), asked=frozenset(asked))


def _origins(name: str) -> tuple[str, ...]:
    """The types of layers that make the ops of an example of this one."""
    return (name.lower(), "grucell") if name == "TensorIterator" else (name.lower(),)


def graphs(name: str, asked: set[str]) -> Iterator[Graph]:
    """The graphs of the examples of a layer; they are computed too."""
    for net in examples(name):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = _opened(net, Path(folder), name, asked)
            rng = np.random.default_rng(0)
            feeds = {
                s.name: rng.uniform(0, 1, [d or 1 for d in s.shape or ()]).astype(s.dtype)
                for s in model.inputs
            }
            arrays = {n: model.encode(n, a) for n, a in feeds.items()}
            graph = model.build({n: TensorType.of(a) for n, a in arrays.items()})
            states = {n: np.zeros(t.dims, t.dtype.numpy) for n, t in model.state.items()}
            with np.errstate(all="ignore"):
                reference.run(graph, {**arrays, **states})
            yield graph
            _enlarge(model)


def _enlarge(model: OpenvinoModel) -> None:
    """Other sizes than the file's: some attributes are looked for only there."""
    types = {
        s.name: TensorType((*(s.shape or ())[:2], *(2 * (d or 1) for d in (s.shape or ())[2:])))
        for s in model.inputs
    }
    with contextlib.suppress(VknnError):
        model.build(types)


def _opened(net: Net, folder: Path, name: str, asked: set[str]) -> OpenvinoModel:
    """The model of an example; ``asked`` collects what layers of type ``name`` look for."""
    path = net.save(folder)

    def noted(record: NetRecord) -> NetRecord:
        own = tuple(
            dataclasses.replace(x, attributes=_Noted(x.attributes, asked))
            if x.type.lower() == name.lower()
            else x
            for x in record.layers
        )
        return dataclasses.replace(record, layers=own)

    record = noted(parse_net(path.read_bytes(), path.name))
    return OpenvinoModel(record, check(record, path.with_suffix(".bin"), path.name), path.name)


if __name__ == "__main__":
    sys.exit(main(PAGE, "tools/openvino_table.py", page))
