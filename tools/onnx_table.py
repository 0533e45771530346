#!/usr/bin/env python3
"""Writer of docs/onnx.md: ONNX's operators that vknn has, with their versions.

tools/onnx_table.py            writes docs/onnx.md
tools/onnx_table.py --check    exits 1 when docs/onnx.md is not what would be written
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "onnx.md"
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tools.onnx_examples import BOTH, DEVICE, HOST, RECORD, Record  # noqa: E402
from tools.pages import main  # noqa: E402

from vknn.formats.onnx.layers import operator_types  # noqa: E402
from vknn.formats.onnx.scope_limits import DOMAINS  # noqa: E402

INTRODUCTION = """\
# ONNX, operator by operator

`vknn.Session("model.onnx")` opens ONNX files of IR versions 3 to 14 and opsets 1 to 28. Inputs and
outputs have the graph's names, in its order, and exactly its dtypes, which are never cast: int64
stays int64, bfloat16, float8 and integers of 4 and 2 bits are arrays of
[ml_dtypes](https://github.com/jax-ml/ml_dtypes), strings object arrays of str, sequences lists of
arrays, an absent optional None. `session.inputs` states free sizes by the names that the file has
for them; they may differ from run to run. An initializer that is an input, too, is its default (IR
4 and later): it may be fed or left out.

- External data are found beside the model and mapped. What leads out of its folder is refused.
- Functions of the file and branches take the place of the nodes that call them; so do the rounds of
  a short loop that are known beforehand.
- Of any other loop (Loop, Scan, SequenceMap) the body is a graph of its own: it is planned once for
  each set of types of what goes from round to round, and kept for later runs. What a round slices
  by its number (Slice, not Gather) is planned anew in each. A loop that nothing but its condition
  ends may make 100,000 rounds.
- An operator means what the newest of its versions says that is not above the imported opset. When
  the file is opened its nodes are held against that: attributes that a version lacks or has of
  another kind, inputs too many, too few or of types that it does not take (any float is taken where
  one is), and element types that the file states otherwise are errors, in branches, too. Shapes
  that the file states of anything but its inputs are hints.
- Shape arithmetic is computed when the graph is built. Where a shape, an axis or a condition
  depends on data, the graph ends there, and goes on when they are known.
- int64, float64, unsigned integers of 16 bits and more and what NumPy lacks are computed on the
  host.
- Networks with pairs of QuantizeLinear and DequantizeLinear compute on integers of 8 bits where
  they can: convolutions, products, normalizations, sums, means, functions of one tensor and what
  moves elements. Results are within a step of what floats give; `VKNN_DISABLE=integers` computes in
  floats.
- MatMulNBits multiplies by its codes as they are (of 3 bits by 4, of 5 to 7 by 8). MatMulBnb4, MoE
  and QMoE have their weights dequantized when the graph is built, so that these take the memory of
  floats, and so has MatMulNBits with g_idx, with a K that is no multiple of 4 or blocks that are
  not whole words of 32 bits; accuracy_level counts for nothing. Zero points count beside g_idx,
  too, which onnxruntime 1.32 leaves out. Integers are multiplied exactly: on x86 without VNNI
  onnxruntime saturates sums of uint8 times int8.
- Random numbers are vknn's own: with a seed the same in each session, run by run; without one
  others in each. Bernoulli gives 1 with the probability of its input (onnxruntime with the other
  one).
- Strings are computed on the host. RegexFullMatch takes RE2's syntax but for scripts of Unicode
  (`\\p{Greek}`; general categories are known) and single bytes (`\\C`). StringSplit without a
  delimiter splits at all white space, and an empty string with one is one part. StringNormalizer
  changes letters one by one, in the same way for each locale. What ImageDecoder cannot read has no
  pixels.
- Attention is one op, unless scores are capped, are an output, or become weights in a type of
  fewer bits. A query that sees no key gives zeros; keys that a mask is too short for are hidden.
  Entries of GroupQueryAttention's caches that the operator leaves open are zeros. As in
  onnxruntime, the last query of a unidirectional MultiHeadAttention sees all keys. `do_rotary` of
  Attention turns pairs i and i + width / 2 by place / 10000^(2 i / width). A new
  `total_sequence_length` builds the graph anew.
- Operators of your own: [`vknn.register_layer("onnx", "domain::Operator", ...)`](custom-layers.md).

Windows may have up to eight spatial axes; those of more are an error that says so. Integers are
resized as onnxruntime does it where it has a kernel (linear: without fractions; antialiased:
rounded along each axis), else rounded as by ONNX's reference. Strings are sampled by nearest alone.

Where ONNX and onnxruntime differ, MaxUnpool's output_shape, DFT's one-sided inverse of another
length and AffineGrid's axes of size 1 are ONNX's; pads below 0 of pools with SAME, and what
RoiAlign's maxima are of, are onnxruntime's. MaxUnpool leaves out places that the output lacks.
Where onnxruntime refuses a file whose meaning is plain, it runs: Scatter and Upsample in opsets
that deprecate them, reflecting pads longer than their axis (they go back and forth), branches that
give a value of the graph around them.

The tables say, of each operator, for which element types of its first input the test vectors run on
any device with Vulkan 1.1 and for which on the host alone; where both stand there, shapes or other
inputs decide, or the version: `(13)` after a type means that the vectors have it from that version
on. Whether indices that are data lie within their axis is looked at on the host, always. A dash:
nothing is left to compute when shapes are known, or the vectors have no case. That record is made
by `tools/onnx_examples.py`.

This page is written by `tools/onnx_table.py`; a test fails when it is out of date.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    record: Record = json.loads(RECORD.read_text(encoding="utf-8"))
    domains = sorted({domain for domain, _ in operator_types()})
    for domain in domains:
        yield f"## {domain or 'ai.onnx'}\n"
        yield "| operator | versions | on devices | on the host | meaning |"
        yield "|---|---|---|---|---|"
        for (own, name), versions in sorted(operator_types().items()):
            if own == domain:
                newest = versions[max(versions)]
                text = (newest.convert.__doc__ or "").split("\n")[0].replace("|", "\\|")
                text = text.replace("*", "\\*").replace("``", "`").replace("<", "&lt;")
                numbers = ", ".join(map(str, sorted(versions)))
                entry = record.get(f"{domain}::{name}" if domain else name)
                own_record = entry["places"] if entry else {}
                places = " | ".join(_types(own_record, where) for where in (DEVICE, HOST))
                yield f"| {name} | {numbers} | {places} | {text} |"
        yield ""
    yield "## Out of scope\n"
    yield "| domain | why |"
    yield "|---|---|"
    for domain, why in DOMAINS.items():
        yield f"| {domain} | {why} |"


def _types(versions: Mapping[str, Mapping[str, str]], where: str) -> str:
    """Element types for which an operator runs there, each with the oldest version seen."""
    first: dict[str, int] = {}
    for version, kinds in versions.items():
        for dtype, found in kinds.items():
            if found in (where, BOTH):
                first.setdefault(dtype, int(version))
    oldest = min(map(int, versions), default=0)
    return ", ".join(f"{t} ({v})" if v > oldest else t for t, v in sorted(first.items())) or "–"


if __name__ == "__main__":
    sys.exit(main(PAGE, "tools/onnx_table.py", page))
