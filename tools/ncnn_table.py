#!/usr/bin/env python3
"""Writer of docs/ncnn.md: ncnn's layers, what vknn has of each, where ncnn differs from its manual.

tools/ncnn_table.py            writes docs/ncnn.md
tools/ncnn_table.py --record   first takes new examples from tests/peers/ncnn (a minute)
tools/ncnn_table.py --check    exits 1 when docs/ncnn.md is not what would be written

Layers are found in the registry. Whether one runs on a device is found by lowering small networks
with it, on a device that allows no more than Vulkan 1.1 guarantees; these networks are the smallest
ones that the peer tests run, kept in tools/ncnn_examples.json.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ncnn.md"
EXAMPLES = ROOT / "tools" / "ncnn_examples.json"
PARAMETERS = ROOT / "tools" / "ncnn_parameters.txt"
PEERS = "tests/peers/ncnn"
#: Peer tests of whole networks say nothing of single layers.
NOT_OF_LAYERS = ("test_networks.py", "test_binary.py")
#: Examples kept of a layer: one for each number and rank of inputs, the smallest ones.
MOST_EXAMPLES = 5
MARK = "ncnn differs:"
#: Layers that the ncnn of the tests is built without: an example each, by hand, as the parameters
#: and the shapes of the inputs (without a batch axis).
WITHOUT_PEER: dict[str, tuple[Any, ...]] = {
    "ArgMax": ("0=1 1=2", (3, 4, 5)),
    "SPP": ("0=0 1=2", (3, 8, 9)),
}
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tools.pages import array, described, main, notes  # noqa: E402

from vknn import formats  # noqa: E402
from vknn.errors import VknnError  # noqa: E402
from vknn.formats.ncnn.layers import layer_types  # noqa: E402
from vknn.formats.ncnn.random_weights import random_weights  # noqa: E402
from vknn.formats.ncnn.reader import parse_param  # noqa: E402
from vknn.formats.ncnn.registry import NcnnLayerType  # noqa: E402
from vknn.formats.ncnn.type_indices import BUILTIN  # noqa: E402
from vknn.formats.ncnn.writer import format_bin  # noqa: E402
from vknn.graph import Graph, TensorType  # noqa: E402
from vknn.lowering import LoweringOptions, candidates  # noqa: E402
from vknn.plan import DeviceLimits  # noqa: E402

INTRODUCTION = """\
# ncnn, layer by layer

The layers of ncnn in the order of their numbers in a `.param.bin`, and what vknn has of each.

- *Reference*: vknn reads the layer and computes it with NumPy.
- *Vulkan*: all of it runs on any device with Vulkan 1.1; what does not is named. *fp16*: so it does
  with tensors stored as float16.
- *Parameters not read*: ids and names of those that ncnn's layer reads and vknn's does not. They
  are ignored, as ncnn ignores ids that it does not know.
- *Held against ncnn in*: the test that compares it with ncnn's own CPU answers on both backends.

A `.bin` holds weights one behind the other and no names. Where it is too short the network is
refused, where bytes are left over a warning says so. Another network's `.bin` of just the same size
cannot be told: the network opens and its numbers are wrong. `vknn verify` is no help then, since
both sides compute with the same weights.

Where ncnn's documentation and ncnn (its CPU path in fp32) differ, vknn does as ncnn does. The cases
that were found stand [below](#where-ncnn-differs).

This page is written by `tools/ncnn_table.py`; a test fails when it is out of date.
"""
NOTES = """\
## Where ncnn differs

From its documentation, from what one would expect, or from vknn where ncnn's own result is
undefined.
"""

Example = dict[str, Any]


def page() -> str:
    """The whole page as Markdown."""
    examples = all_examples()
    types, known = layer_types(), _parameters()
    lines = [
        INTRODUCTION,
        "| layer | reference | Vulkan | fp16 | parameters not read | held against ncnn in |",
        "|---|---|---|---|---|---|",
    ]
    for name in [*BUILTIN, *sorted(set(types) - set(BUILTIN))]:
        own = examples.get(name, {"tests": [], "nets": []})
        lines.append(_row(name, types.get(name), own, known.get(name, {})))
    have = sum(name in types for name in BUILTIN)
    lines += ["", f"{have} of {len(BUILTIN)} layers.", "", NOTES]
    subjects = [(name, type_.params, type_.convert) for name, type_ in types.items()]
    for name, *things in sorted([*subjects, *_families(types)], key=lambda s: s[0].lower()):
        lines += [f"- **{name}**: {note}" for note in notes(MARK, *things)]
    return "\n".join([*lines, ""])


def all_examples() -> dict[str, Example]:
    """Examples by layer: those kept of the peer tests and those by hand."""
    kept = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return kept | {name: _by_hand(name, *given) for name, given in WITHOUT_PEER.items()}


def _families(types: Mapping[str, NcnnLayerType]) -> list[tuple[str, Any]]:
    """What the docstrings of modules of layers say that they are of, and the modules."""
    modules = {inspect.getmodule(type_.convert) for type_ in types.values()}
    texts = {module: inspect.getdoc(module) or "" for module in modules}
    return [(re.split(r"[.:]", text)[0], module) for module, text in texts.items()]


def _row(name: str, type_: NcnnLayerType | None, example: Example, known: dict[int, str]) -> str:
    if type_ is None:
        return f"| {name} | no | no | no | | |"
    plain = _placement(name, example["nets"], DeviceLimits(), LoweringOptions())
    half = DeviceLimits(features=frozenset({"fp16_storage"}))
    halved = _placement(name, example["nets"], half, LoweringOptions(precision="fp16"))
    read = {f.metadata["id"] for f in dataclasses.fields(type_.params) if "id" in f.metadata}
    missing = ", ".join(f"{i} {n}" for i, n in known.items() if i not in read)
    if name == "Input":
        missing = ""  # hints, which the model gives to tools
    tests = ", ".join(f"`{PEERS}/{test}`" for test in example["tests"])
    return f"| {name} | yes | {plain} | {halved} | {missing} | {tests} |"


def _placement(
    name: str, nets: Sequence[Example], limits: DeviceLimits, options: LoweringOptions
) -> str:
    """Whether the layer's ops have kernels, in every example."""
    if name == "Input":
        return "yes"
    if not nets:
        return "no example"
    hosted: set[str] = set()
    for net in nets:
        for node in _graph(net).nodes:
            if node.origin.type == name and not candidates(node, limits, options):
                base = getattr(node.op, "base", node.op)
                hosted.add(type(base).__name__)
    return f"without {', '.join(sorted(hosted))}" if hosted else "yes"


def _graph(net: Example) -> Graph:
    """The graph of an example, with random weights."""
    record = parse_param(net["param"].encode())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.param"
        path.write_text(net["param"])
        path.with_suffix(".bin").write_bytes(format_bin(record, random_weights(record)))
        model = formats.load(path)
        arrays = {name: array(given) for name, given in net["inputs"].items()}
        types = {name: TensorType.of(array) for name, array in arrays.items()}
        return model.build(types, {name: arrays[name] for name in model.value_inputs})


def _parameters() -> dict[str, dict[int, str]]:
    """Layer -> id -> name, of ncnn's own layers."""
    found: dict[str, dict[int, str]] = {}
    for line in PARAMETERS.read_text(encoding="utf-8").splitlines():
        name, mark, rest = line.partition(":")
        if mark and not line.startswith("#"):
            pairs = [part.split() for part in rest.split(",") if part.strip()]
            found[name] = {int(id_): what for id_, what in pairs}
    return found


# --- examples out of the peer tests ---------------------------------------------------------------


class _Recorder:
    """A pytest plugin: notes what the peer tests would compare, instead of comparing it."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, list[Example]]] = {}
        self.current = ""

    def pytest_configure(self) -> None:
        from tests.peers.ncnn import peer

        peer.compare_with_ncnn = self.compare  # before the tests import it

    def pytest_runtest_setup(self, item: Any) -> None:
        self.current = item.path.name

    def compare(self, text: str, weights: Any, inputs: Any, *rest: Any, **named: Any) -> None:
        """Stands in for compare_with_ncnn."""
        net = {"param": text, "inputs": {n: described(x) for n, x in inputs.items()}}
        for layer in parse_param(text.encode()).layers:
            if layer.type != "Input":
                self.seen.setdefault(layer.type, {}).setdefault(self.current, []).append(net)


def record() -> None:
    """Smallest networks of each layer among those of the peer tests, which are run."""
    import pytest

    recorder = _Recorder()
    ignored = [f"--ignore={ROOT / PEERS / name}" for name in NOT_OF_LAYERS]
    options = ["-q", "-q", "-k", "not vulkan", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    pytest.main([str(ROOT / PEERS), f"--rootdir={ROOT}", *ignored, *options], plugins=[recorder])
    kept = {name: _kept(name, found) for name, found in sorted(recorder.seen.items())}
    lines = [f"{json.dumps(name)}: {json.dumps(example)}" for name, example in kept.items()]
    EXAMPLES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"wrote {EXAMPLES}: {len(kept)} layers")


def _by_hand(name: str, params: str, *shapes: tuple[int, ...]) -> Example:
    names = [f"x{number}" for number in range(len(shapes))]
    inputs = [f"Input i{number} 0 1 {blob}" for number, blob in enumerate(names)]
    layer = f"{name} layer {len(names)} 1 {' '.join(names)} y0 {params}".rstrip()
    lines = ["7767517", f"{len(names) + 1} {len(names) + 1}", *inputs, layer]
    given = {b: {"shape": list(s), "dtype": "float32"} for b, s in zip(names, shapes, strict=True)}
    return {"tests": [], "nets": [{"param": "\n".join([*lines, ""]), "inputs": given}]}


def _kept(name: str, found: dict[str, list[Example]]) -> Example:
    """The tests that are about the layer, and the smallest network of each kind that works."""
    alone = {t: nets for t, nets in found.items() if any(_is_alone(name, n) for n in nets)}
    chosen: dict[Any, Example] = {}
    everything = [net for nets in (alone or found).values() for net in nets]
    for net in sorted(everything, key=_size):
        kind = sorted(len(x["shape"]) for x in net["inputs"].values())
        if str(kind) not in chosen and len(chosen) < MOST_EXAMPLES and _works(net):
            chosen[str(kind)] = net
    return {"tests": sorted(alone or found), "nets": list(chosen.values())}


def _is_alone(name: str, net: Example) -> bool:
    types = {layer.type for layer in parse_param(net["param"].encode()).layers}
    return types - {"Input"} == {name}


def _size(net: Example) -> tuple[int, int]:
    elements = sum(math.prod(x["shape"]) for x in net["inputs"].values())
    return len(parse_param(net["param"].encode()).layers), elements


def _works(net: Example) -> bool:
    try:
        _graph(net)
    except VknnError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(PAGE, "tools/ncnn_table.py --record", page, record))
