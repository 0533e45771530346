"""SKIP_GRAM and LSH_PROJECTION."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.text.lsh_projection import LshProjection
from vknn.ops.text.skip_gram import SkipGram

_SPARSE, _DENSE = 1, 2


@operator("SKIP_GRAM")
def skip_gram(c: Context) -> Value:
    """Skip-grams: n-grams of words that may skip some words."""
    size, skip = c.options["ngram_size"], c.options["max_skip_size"]
    return c.add(SkipGram(size, skip, bool(c.options["include_all_ngrams"])), c.x)


@operator("LSH_PROJECTION", inputs=(2, 3), takes_quantized=True)
def lsh_projection(c: Context) -> Value:
    """Locality-sensitive hashes: bits that tend to agree for similar rows."""
    kind = c.options["type"]
    c.require(kind in (_SPARSE, _DENSE), f"has the type {kind}")
    inputs = [c.x, c.value(1)] + ([] if c.optional(2) is None else [c.value(2)])
    return c.add(LshProjection(kind == _SPARSE), *inputs)
